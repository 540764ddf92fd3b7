#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 8-bit training of two ranks of which one has the instructions of every processor only: both end with the same
# parameters, whichever of them it is.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
grep -Eq 'avx2|asimd' /proc/cpuinfo || skip "this processor has neither AVX2 nor NEON, so both ranks would be the same"
mpirun --version 2>/dev/null | grep -q "Open MPI\|Open RTE\|OpenRTE" || skip "no Open MPI"

old=(EQT_SIMD=baseline ATEN_CPU_CAPABILITY=default)
settings=(--config "$WORK/tiny.json")
for setting in model.precision=int8 compressor.name=elastiquant train.steps=3 train.batch_size=2 data.limit_test=4; do
  settings+=(--set "$setting")
done

# two FOLDER [VARIABLE=VALUE]... : [VARIABLE=VALUE]...: rank 0 and 1 with different environments.
two() {
  local first=() second
  RUN=$WORK/$1
  shift
  while [[ $1 != : ]]; do first+=("$1"); shift; done
  second=("${@:2}")
  run_by_rank --bind-to none -- env ${first[@]+"${first[@]}"} "$EQT_PROGRAM" "${settings[@]}" --out "$RUN" : \
    env ${second[@]+"${second[@]}"} "$EQT_PROGRAM" "${settings[@]}" --out "$RUN"
}

two usual :
expect_code 0 "both ranks with all instructions"
hash=$(summary parameter_hash)
simd=$(value <(head -n 1 "$RUN/metrics.jsonl") simd)
! grep -q '"kernels":"scalar"' "$RUN/metrics.jsonl" || wrong "both ranks with all instructions: found plain loops"

two second : "${old[@]}"
expect_code 0 "rank 1 with fewer instructions"
expect_equal true "$(summary replicas_identical)" "rank 1 with fewer instructions: replicas"
expect_equal "$hash" "$(summary parameter_hash)" "rank 1 with fewer instructions: parameters"

if grep -q avx2 /proc/cpuinfo; then
  two third : EQT_SIMD=avx2
  expect_code 0 "rank 1 with AVX2"
  expect_equal true "$(summary replicas_identical)" "rank 1 with AVX2: replicas"
  expect_equal "$hash" "$(summary parameter_hash)" "rank 1 with AVX2: parameters"
fi

two first "${old[@]}" :
expect_code 0 "rank 0 with fewer instructions"
expect_equal true "$(summary replicas_identical)" "rank 0 with fewer instructions: replicas"
expect_equal "$hash" "$(summary parameter_hash)" "rank 0 with fewer instructions: parameters"
# Rank 0 writes the records.
grep -q '"kernels":"scalar"' "$RUN/metrics.jsonl" || wrong "rank 0 with fewer instructions: expected plain loops"
expect_different "$simd" "$(value <(head -n 1 "$RUN/metrics.jsonl") simd)" "rank 0 with fewer instructions: simd"

run env EQT_SIMD=avx9 "$EQT_PROGRAM" --version
expect_failure 2 'EQT_SIMD to be baseline[ ,a-z0-9]*, found "avx9"' "unknown instructions"
finish
