#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two ranks on different kinds of processors, over TCP: both end with the same parameters, and a note says what differs.
# EQT_OTHER_PROGRAM is equant-train, of the same commit, for another processor: a script that runs it emulated.
# scripts/test_arm64.sh --whole makes one.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[[ -n ${EQT_OTHER_PROGRAM:-} ]] || skip "EQT_OTHER_PROGRAM names no build for another processor"
mpirun --version 2>/dev/null | grep -q "Open MPI\|Open RTE\|OpenRTE" || skip "no Open MPI"
/usr/bin/python3 -c 'import torch' 2>/dev/null || skip "python3-torch is not installed"
# As root, and with more ranks than cores.
export RUN_LIMIT=400
set_mpi yield 1

# two FOLDER FIRST SECOND [ARGUMENTS]: rank 0 runs FIRST, rank 1 SECOND.
two() {
  RUN=$WORK/$1
  run_by_rank --bind-to none --mca btl tcp,self --mca btl_tcp_if_include lo -- \
    "$2" --config "$WORK/tiny.json" --out "$RUN" "${@:4}" : "$3" --config "$WORK/tiny.json" --out "$RUN" "${@:4}"
}

# expect_mixed WHAT: the job ended well, its replicas are identical, and one note names both processors.
expect_mixed() {
  local notes
  expect_code 0 "$1"
  [[ $CODE -eq 0 ]] || return 0
  expect_equal true "$(summary replicas_identical)" "$1: replicas"
  notes=$(grep -c 'rank 1 computes with .* on .*, rank 0 with .* on ' "$RUN/metrics.jsonl" || true)
  expect_equal 1 "$notes" "$1: notes on processors"
  echo "$1: parameter hash $(summary parameter_hash), $SECONDS_TAKEN s"
}
# An emulated rank takes half a minute for a step of ResNet-20, so most runs train a smaller network.
/usr/bin/python3 - "$WORK/small.pt" <<'PY'
import sys, torch
from torch import nn
torch.manual_seed(1)
network = nn.Sequential(nn.Conv2d(3, 8, 3, stride=4, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10))
torch.jit.trace(network, torch.zeros(2, 3, 32, 32)).save(sys.argv[1])
PY
small=(--set model.name=torchscript --set "model.path=$WORK/small.pt" --set train.steps=20 --set data.limit_train=640)
for compressor in none bf16 topk elastiquant e-elastiquant; do
  two "$compressor-here-first" "$EQT_PROGRAM" "$EQT_OTHER_PROGRAM" "${small[@]}" --set "compressor.name=$compressor"
  expect_mixed "$compressor, rank 1 on the other processor"
  two "$compressor-other-first" "$EQT_OTHER_PROGRAM" "$EQT_PROGRAM" "${small[@]}" --set "compressor.name=$compressor"
  expect_mixed "$compressor, rank 0 on the other processor"
done
two resnet20 "$EQT_PROGRAM" "$EQT_OTHER_PROGRAM" --set compressor.name=e-elastiquant --set train.steps=2 \
  --set train.batch_size=2 --set data.limit_train=8 --set data.limit_test=4
expect_mixed "ResNet-20"
two alone "$EQT_PROGRAM" "$EQT_PROGRAM" "${small[@]}"
! grep -q "computes with" "$RUN/metrics.jsonl" || wrong "equal ranks: a note on two kinds of processors"
finish
