#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Within a step, while buckets are exchanged, one rank of three dies, stalls or gets out of step.
# With every collective the others end within the time limit, and name the operation, the step and
# the rank that they waited for, or the sender of a wrong message.
# CTest gives it the program without LibTorch, which starts faster: collectives know nothing of networks.
# fails_fast.sh, chaos.sh and gossip_failures.sh have ranks that fail with LibTorch.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Compressors for the collectives that need one; all others run without compression.
compressor_of() {
  case $1 in
    allgather | scatter-reduce | ring | recursive-doubling) echo qsgd ;;
    integer) echo terngrad ;;
    sparse) echo topk ;;
    *) echo none ;;
  esac
}

# Operations in error messages have the name of the collective, except MPI's own.
operation_of() {
  case $1 in
    mpi-allreduce) echo 'dense allreduce' ;;
    *) echo "$1" ;;
  esac
}

# MPI's own allreduce does not know which rank it waits for, and cannot distinguish steps.
awaited_by() {
  case $1 in
    mpi-allreduce) echo '' ;;
    *) echo '.*waiting for rank [0-2]' ;;
  esac
}

collectives=$("$EQT_PROGRAM" list collectives --json |
  python3 -c 'import json, sys; [print(c["name"]) for c in json.load(sys.stdin) if c["name"] != "auto"]')
for collective in $collectives; do
  operation=$(operation_of "$collective") awaited=$(awaited_by "$collective")
  acts=(kill stall slip)
  [[ -n $awaited ]] || acts=(kill stall)
  for act in "${acts[@]}"; do
    start_fault "$act" "$collective" "synchronization.collective=$collective" \
      "compressor.name=$(compressor_of "$collective")"
  done
  wait

  # mpirun notices the death and ends the others.
  collect_fault kill "$collective"
  [[ $CODE -eq 137 || $CODE -eq 7 ]] || wrong "$WHAT: expected exit code 137 or 7, found $CODE"
  expect_text "step 2: .*$operation.*$awaited" "$WHAT"

  collect_fault stall "$collective"
  expect_code 7 "$WHAT"
  expect_text "step 2: .*$operation.*$awaited" "$WHAT"

  # A wrong step in a frame is refused. For bare values the ranks wait until the deadline, because
  # the step is a part of the channel.
  [[ -n $awaited ]] || continue
  collect_fault slip "$collective"
  [[ $CODE -eq 5 || $CODE -eq 7 ]] || wrong "$WHAT: expected exit code 5 or 7, found $CODE"
  expect_text "step [23][:,].*$operation.*rank [0-2]" "$WHAT"
done
finish
