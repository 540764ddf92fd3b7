#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An MPI library without threads: gradients are sent after the backward pass, with the same result.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[[ -e ${EQT_MPI_WITHOUT_THREADS:-} ]] || skip "no MPI library without threads was built"

for compressor in none elastiquant; do
  train 2 "$compressor" --set "compressor.name=$compressor" --set output.progress=lines
  expect_code 0 "$compressor with threads"
  with=$(summary parameter_hash)
  ! grep -q 'allows no calls' "$RUN/metrics.jsonl" || wrong "$compressor: threads are called missing"
  LD_PRELOAD=$EQT_MPI_WITHOUT_THREADS train 2 "$compressor-without" --set "compressor.name=$compressor"
  expect_code 0 "$compressor without threads"
  grep -q 'allows no calls' "$RUN/metrics.jsonl" || wrong "$compressor: no note says that nothing overlaps"
  expect_equal "$with" "$(summary parameter_hash)" "$compressor: parameters"
  expect_equal true "$(summary replicas_identical)" "$compressor: replicas"
done
late=(--set synchronization.algorithm=local-sgd --set synchronization.local_steps=2 --set synchronization.delay=1
  --set compressor.name=topk)
train 2 late "${late[@]}"
expect_code 0 "late averages with threads"
with=$(summary parameter_hash)
LD_PRELOAD=$EQT_MPI_WITHOUT_THREADS train 2 late-without "${late[@]}"
expect_code 0 "late averages without threads"
expect_equal "$with" "$(summary parameter_hash)" "late averages: parameters"
LD_PRELOAD=$EQT_MPI_WITHOUT_THREADS train 2 pairs --set synchronization.algorithm=ad-psgd
expect_failure 6 'ad-psgd.*communication thread.*d-psgd' "averaging in pairs without threads"
finish
