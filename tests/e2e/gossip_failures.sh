#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Within a gossip step, while buckets are exchanged, one rank of three dies, stalls or gets out of
# step. Its neighbours end within the time limit, and name the operation, the step and the rank that
# they waited for, or the sender of a wrong message.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The name of an algorithm's mixing in error messages.
operation_of() {
  case $1 in
    choco-sgd) echo 'choco' ;;
    deep-squeeze) echo 'deepsqueeze' ;;
    *) echo 'gossip of models' ;;
  esac
}

# check ALGORITHM: after its three failures.
check() {
  local operation
  operation=$(operation_of "$1")
  # mpirun notices the death and ends the others.
  collect_fault kill "$1"
  [[ $CODE -eq 137 || $CODE -eq 7 ]] || wrong "$WHAT: expected exit code 137 or 7, found $CODE"
  expect_text "step 2: .*$operation.*waiting for rank [0-2]" "$WHAT"

  collect_fault stall "$1"
  expect_code 7 "$WHAT"
  expect_text "step 2: .*$operation.*waiting for rank [0-2]" "$WHAT"

  collect_fault slip "$1"
  expect_code 5 "$WHAT"
  expect_text "step [23], .*$operation.*from rank [0-2]" "$WHAT"
}

for pair in "d-psgd choco-sgd" "deep-squeeze sgp"; do
  for algorithm in $pair; do
    compressor=qsgd
    [[ $algorithm != sgp ]] || compressor=none
    for act in kill stall slip; do
      start_fault "$act" "$algorithm" "synchronization.algorithm=$algorithm" "compressor.name=$compressor"
    done
  done
  wait
  for algorithm in $pair; do check "$algorithm"; done
done

# Push-sum's weights have one consensus step, AdaGossip's values one each.
train 3 adaptive --set synchronization.algorithm=quant-sgp --set synchronization.adaptive_step=true \
  --set synchronization.topology.kind=star --set synchronization.topology.weights=uniform
expect_failure 2 'synchronization.adaptive_step: expected weights whose rows and columns' \
  "AdaGossip where weights are unequal"
finish
