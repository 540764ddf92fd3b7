#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# device: what is refused or falls back without an NVIDIA device, and whole runs whose networks compute on copies of
# their parameters, as on a device: they end with the same bits.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$EQT_ROOT/tests/e2e/mirrored.sh" values

same 2 allreduce --set compressor.name=elastiquant
same 2 accumulated --set train.accumulate=2 --set synchronization.overlap=false --set optimizer.clip_norm=0.5
same 2 gossip --set synchronization.algorithm=choco-sgd --set compressor.name=topk --set compressor.density=0.1
same 2 local --set synchronization.algorithm=local-sgd --set synchronization.local_steps=2 --set train.ema=0.9
same 1 simulated --simulate 2

# A run with a mirror goes on from a checkpoint, without one and back.
saves=(--set train.steps=6 --set checkpoint.every_steps=2 --set checkpoint.keep=9)
same 2 saved "${saves[@]}"
resume_both_ways saved "${saves[@]}"

# LibTorch's layers round otherwise; replicas stay equal.
export EQT_MIRROR=layers
train 2 layers --set compressor.name=elastiquant
unset EQT_MIRROR
expect_code 0 "LibTorch's layers"
expect_equal true "$(summary replicas_identical)" "LibTorch's layers: replicas"

export EQT_MIRROR=device
train 2 word
expect_code 2 "another word in EQT_MIRROR"
expect_text "expected \"values\", \"codec\" or \"layers\", found \"device\"" "another word in EQT_MIRROR"
unset EQT_MIRROR

train 2 int8 --set device=cuda --set model.precision=int8
expect_code 2 "int8 on a device"
expect_text "expected device \"cpu\" with model.precision \"int8\"" "int8 on a device"

! nvidia-smi -L >/dev/null 2>&1 || skip "this machine has an NVIDIA device: what it says without one was not checked"
train 2 cuda --set device=cuda
expect_code 2 "no device"
expect_text "device: expected an NVIDIA device for every rank with \"cuda\", found none for rank 0 on host" "no device"
[[ ! -e $RUN/metrics.jsonl ]] || wrong "no device: a run was begun"
train 2 auto --set device=auto --set compressor.name=elastiquant
expect_code 0 "auto without a device"
note_of "device auto: on the processors; rank 0 on host"
expect_equal "$(value "$WORK/allreduce/summary.json" parameter_hash)" "$(summary parameter_hash)" "auto without a device"
finish
