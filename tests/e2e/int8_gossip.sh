#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 8-bit training with ways to exchange and kinds of compressed messages: three ranks take two steps each, with
# normalization layers in turn.
# CTest gives it the program without LibTorch, which starts faster: 8-bit networks are the same in both, which
# without_torch.sh and int8.sh check.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
grep -Eq 'avx2|asimd' /proc/cpuinfo || skip "this processor has neither AVX2 nor NEON, so a step takes minutes"

norms=(batchnorm range-batchnorm range-evonorm)
messages=(
  "compressor.name=int8"
  "compressor.name=elastiquant compressor.bits=4"
  "compressor.name=topk compressor.density=0.1 compressor.value_bits=16"
)
algorithms=(allreduce choco-sgd quant-sgp deep-squeeze d-psgd)
turn=0
for algorithm in "${algorithms[@]}"; do
  for message in "${messages[@]}"; do
    norm=${norms[turn++ % 3]}
    what="$algorithm, $message, $norm"
    sets=(model.precision=int8 "model.normalization=$norm" train.batch_size=4 train.steps=2 data.limit_test=16
      data.partition.kind=skew data.partition.skew=0.8 "synchronization.algorithm=$algorithm")
    # D-PSGD sends whole models.
    # shellcheck disable=SC2206  # several settings
    [[ $algorithm == d-psgd ]] || sets+=($message)
    [[ $algorithm == d-psgd || $algorithm == allreduce ]] || sets+=(synchronization.consensus_step=0.5)
    rm -rf "$WORK/run"
    train 3 run "${sets[@]/#/--set=}"
    expect_code 0 "$what"
    expect_equal 2 "$(summary steps)" "$what: steps"
    [[ $algorithm != d-psgd ]] || break
  done
  ((turn = turn % 3 + 1))
done
# Messages that are the network's own weights.
own=(model.precision=int8 model.normalization=range-evonorm train.batch_size=4 data.limit_test=16
  synchronization.algorithm=deep-squeeze synchronization.order=combine-then-adapt compressor.name=int8-channels)
own=("${own[@]/#/--set=}")
mine=--set=synchronization.network_weights=true
train 3 separate "${own[@]}" --set=train.steps=4
expect_code 0 "int8-channels"
separate=$(summary parameter_hash) bytes=$(summary sent_bytes)
train 3 own "${own[@]}" "$mine" --set=train.steps=4
expect_code 0 "network_weights"
whole=$(summary parameter_hash)
expect_different "$separate" "$whole" "hash without and with network_weights"
expect_equal "$bytes" "$(summary sent_bytes)" "network_weights: bytes sent"
train 3 resumed "${own[@]}" "$mine" --set=train.steps=2 --set=checkpoint.every_steps=2
train 3 resumed "${own[@]}" "$mine" --set=train.steps=4 --set=checkpoint.every_steps=2 --resume
expect_code 0 "network_weights, resumed"
expect_equal "$whole" "$(summary parameter_hash)" "network_weights: resumed parameters"
refuse_config 'expected compressor.granularity "layer" with synchronization.network_weights' "network_weights of one vector" \
  "${own[@]}" "$mine" --set compressor.granularity=model
refuse_config 'expected model.precision "int8" with synchronization.network_weights, found "fp32"' "network_weights with fp32" \
  "${own[@]}" "$mine" --set=model.precision=fp32
refuse_config 'expected train.accumulate 1 with synchronization.network_weights.*found 2' "network_weights of several batches" \
  "${own[@]}" "$mine" --set=train.accumulate=2
finish
