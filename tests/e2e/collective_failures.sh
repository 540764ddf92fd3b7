#!/usr/bin/env bash
# In the middle of a step, while buckets are under way, one rank of three dies, stalls or falls out
# of step: with every collective the others end within the time limit, and say in which operation of
# which step they waited for whom, or whose message was wrong.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

timeout_seconds=3

# The compressors that show a collective's own messages; all others travel without compression.
compressor_of() {
  case $1 in
    allgather | scatter-reduce | ring | recursive-doubling) echo qsgd ;;
    integer) echo terngrad ;;
    sparse) echo topk ;;
    *) echo none ;;
  esac
}

# start_fault ACT COLLECTIVE: rank 1 fails in the second bucket of step 2. In the background, in a
# folder of its own: most of the time is waiting.
start_fault() {
  (
    WORK=$WORK/$1
    rm -rf "$WORK"
    mkdir "$WORK"
    cp "$WORK/../tiny.json" "$WORK/"
    export EQT_FAULT="$1:rank=1,step=2,bucket=1"
    train 3 fault --set train.steps=4 --set "synchronization.collective=$2" \
      --set "compressor.name=$(compressor_of "$2")" --set synchronization.bucket_mib=0.1 \
      --set data.limit_train=48 --set data.limit_test=3 --set train.batch_size=2 \
      --set "synchronization.timeout_seconds=$timeout_seconds"
    echo "$CODE $SECONDS_TAKEN" >"$WORK/outcome"
  ) &
}

# collect_fault ACT COLLECTIVE: what holds for every failure; leaves what run leaves.
collect_fault() {
  what="$2, rank 1: $1"
  OUT=$WORK/$1/stdout ERR=$WORK/$1/stderr
  read -r CODE SECONDS_TAKEN <"$WORK/$1/outcome"
  [[ $CODE -ne 0 ]] || wrong "$what: expected a failure, found exit code 0"
  # Mostly starting; what counts is that the sentences below come at all, which a hang would not do.
  expect_within 60 "$what"
  [[ ! -e $WORK/$1/fault/summary.json ]] || wrong "$what: a failed run wrote a summary"
  ! grep -qE 'terminate called|Signal:|Backtrace|#0 ' "$ERR" || wrong "$what: stderr shows a stack trace"
  local left
  left=$(pgrep -f -- "--out $WORK/$1/fault" || true)
  [[ -z $left ]] || wrong "$what: processes $left still run"
}

# The program's sentences name its operations after the collective, but for MPI's own.
operation_of() {
  case $1 in
    mpi-allreduce) echo 'dense allreduce' ;;
    *) echo "$1" ;;
  esac
}

# MPI's own allreduce neither says for whom it waits nor can tell one step from another.
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
  for act in "${acts[@]}"; do start_fault "$act" "$collective"; done
  wait

  # mpirun sees the death itself and ends the others.
  collect_fault kill "$collective"
  [[ $CODE -eq 137 || $CODE -eq 7 ]] || wrong "$what: expected exit code 137 or 7, found $CODE"
  expect_text "step 2: .*$operation.*$awaited" "$what"

  collect_fault stall "$collective"
  expect_code 7 "$what"
  expect_text "step 2: .*$operation.*$awaited" "$what"

  # A wrong step in a frame is refused; bare values are waited for, because their step is part of
  # where they are expected.
  [[ -n $awaited ]] || continue
  collect_fault slip "$collective"
  [[ $CODE -eq 5 || $CODE -eq 7 ]] || wrong "$what: expected exit code 5 or 7, found $CODE"
  expect_text "step [23][:,].*$operation.*rank [0-2]" "$what"
done
finish
