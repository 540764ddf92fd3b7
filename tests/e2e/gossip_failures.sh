#!/usr/bin/env bash
# In the middle of a step of gossip, while buckets are under way, one rank of three dies, stalls or
# falls out of step: its neighbours end within the time limit, and say in which operation of which
# step they waited for whom, or whose message was wrong.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

timeout_seconds=3

# start_fault ACT ALGORITHM: rank 1 fails in the second bucket of step 2. In the background, in a
# folder of its own: most of the time is waiting.
start_fault() {
  (
    WORK=$WORK/$1-$2
    mkdir "$WORK"
    cp "$WORK/../tiny.json" "$WORK/"
    export EQT_FAULT="$1:rank=1,step=2,bucket=1"
    compressor=qsgd
    [[ $2 != sgp ]] || compressor=none
    train 3 fault --set train.steps=4 --set "synchronization.algorithm=$2" \
      --set "compressor.name=$compressor" --set synchronization.bucket_mib=0.1 \
      --set data.limit_train=48 --set data.limit_test=3 --set train.batch_size=2 \
      --set "synchronization.timeout_seconds=$timeout_seconds"
    echo "$CODE $SECONDS_TAKEN" >"$WORK/outcome"
  ) &
}

# collect_fault ACT ALGORITHM: what holds for every failure; leaves what run leaves.
collect_fault() {
  what="$2, rank 1: $1"
  OUT=$WORK/$1-$2/stdout ERR=$WORK/$1-$2/stderr
  read -r CODE SECONDS_TAKEN <"$WORK/$1-$2/outcome"
  [[ $CODE -ne 0 ]] || wrong "$what: expected a failure, found exit code 0"
  # Mostly starting; what counts is that the sentences below come at all, which a hang would not do.
  expect_within 60 "$what"
  [[ ! -e $WORK/$1-$2/fault/summary.json ]] || wrong "$what: a failed run wrote a summary"
  ! grep -qE 'terminate called|Signal:|Backtrace|#0 ' "$ERR" || wrong "$what: stderr shows a stack trace"
  local left
  left=$(pgrep -f -- "--out $WORK/$1-$2/fault" || true)
  [[ -z $left ]] || wrong "$what: processes $left still run"
}

# What the program's sentences call the mixing of an algorithm.
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
  # mpirun sees the death itself and ends the others.
  collect_fault kill "$1"
  [[ $CODE -eq 137 || $CODE -eq 7 ]] || wrong "$what: expected exit code 137 or 7, found $CODE"
  expect_text "step 2: .*$operation.*waiting for rank [0-2]" "$what"

  collect_fault stall "$1"
  expect_code 7 "$what"
  expect_text "step 2: .*$operation.*waiting for rank [0-2]" "$what"

  collect_fault slip "$1"
  expect_code 5 "$what"
  expect_text "step [23], .*$operation.*from rank [0-2]" "$what"
}

for pair in "d-psgd choco-sgd" "deep-squeeze sgp"; do
  for algorithm in $pair; do
    for act in kill stall slip; do start_fault "$act" "$algorithm"; done
  done
  wait
  for algorithm in $pair; do check "$algorithm"; done
done

# Push-sum's weights take one step where AdaGossip's values take each their own.
train 3 adaptive --set synchronization.algorithm=quant-sgp --set synchronization.adaptive_step=true \
  --set synchronization.topology.kind=star --set synchronization.topology.weights=uniform
expect_failure 2 'synchronization.adaptive_step: expected weights whose rows and columns' \
  "AdaGossip where weights are unequal"
finish
