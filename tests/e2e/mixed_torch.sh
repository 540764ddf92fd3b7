#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two ranks with different versions of LibTorch: both end with the same parameters, and a note says what differs.
# EQT_OTHER_PROGRAM is equant-train built with another LibTorch than EQT_PROGRAM.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[[ -n ${EQT_OTHER_PROGRAM:-} ]] || skip "EQT_OTHER_PROGRAM names no build with another LibTorch"
mpirun --version 2>/dev/null | grep -q "Open MPI\|Open RTE\|OpenRTE" || skip "no Open MPI"

torch_of() { "$1" --version | grep -o 'LibTorch [^ ]*'; }
mine=$(torch_of "$EQT_PROGRAM")
theirs=$(torch_of "$EQT_OTHER_PROGRAM")
expect_different "$mine" "$theirs" "LibTorch of the two builds"

# two FOLDER FIRST SECOND [ARGUMENTS]: rank 0 runs FIRST, rank 1 SECOND.
two() {
  RUN=$WORK/$1
  run_by_rank --bind-to none -- "$2" --config "$WORK/tiny.json" --out "$RUN" "${@:4}" : \
    "$3" --config "$WORK/tiny.json" --out "$RUN" "${@:4}"
}
for compressor in elastiquant topk none; do
  for order in mine theirs; do
    first=$EQT_PROGRAM second=$EQT_OTHER_PROGRAM other=$theirs
    [[ $order == mine ]] || { first=$EQT_OTHER_PROGRAM second=$EQT_PROGRAM other=$mine; }
    two "$compressor-$order" "$first" "$second" --set "compressor.name=$compressor" --set train.steps=5
    expect_code 0 "$compressor, rank 1 with $other"
    expect_equal true "$(summary replicas_identical)" "$compressor, rank 1 with $other: replicas"
    grep -q "rank 1 computes with $other" "$RUN/metrics.jsonl" || wrong "$compressor: no note on $other"
  done
done
two same "$EQT_PROGRAM" "$EQT_PROGRAM" --set train.steps=2
! grep -q "computes with" "$RUN/metrics.jsonl" || wrong "one LibTorch: a note on two"
finish
