#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SIGTERM and SIGINT, to the script that starts the job, to mpirun and to one rank only: all ranks
# end after the same step with exit code 75 and their state saved, and --resume ends like an
# uninterrupted run. A second signal ends at once.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Long enough to be stopped, with short steps; and the same run uninterrupted for comparison.
settings=(--set train.steps=60 --set train.epochs=60 --set data.limit_train=128
  --set train.evaluate_every=4 --set threads_per_rank=1)

# job FOLDER STARTER...: starts a run in the background, waits for its first steps, and sets JOB.
job() {
  RUN=$WORK/$1 OUT=$WORK/$1.out ERR=$WORK/$1.err
  shift
  "$@" --config "$WORK/tiny.json" --out "$RUN" "${settings[@]}" >"$OUT" 2>"$ERR" </dev/null &
  JOB=$!
  local tick
  for ((tick = 0; tick < 600; tick++)); do
    ! grep -q '"type":"step"' "$RUN/metrics.jsonl" 2>/dev/null || return 0
    kill -0 "$JOB" 2>/dev/null || return 0
    sleep 0.05
  done
}

# rank_process RANK: the process of that rank of RUN.
rank_process() {
  local process
  for process in $(pgrep -f -- "--out $RUN( |\$)"); do
    [[ $(tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null |
      sed -n 's/^OMPI_COMM_WORLD_RANK=//p') == "$1" ]] || continue
    [[ $(cat "/proc/$process/comm") != equant-train ]] || { echo "$process"; return; }
  done
}

ended() {
  CODE=0
  local start
  start=$(date +%s.%N)
  wait "$JOB" || CODE=$?
  SECONDS_TAKEN=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }')
  drop_reports
}

# stopped WHAT: checks every run that was told to stop.
stopped() {
  ended
  expect_code 75 "$1"
  expect_text 'interrupted: rank [0-9] was told to stop by a signal; the run has ended after step [0-9]+ of 60, its state is saved' "$1"
  expect_one_sentence "$1"
  [[ ! -e $RUN/summary.json ]] || wrong "$1: a stopped run wrote a summary"
  [[ -n $(find "$RUN/checkpoints" -type f -size +0 2>/dev/null) ]] || wrong "$1: no checkpoint"
  [[ -z $(rank_process 0)$(rank_process 1) ]] || wrong "$1: a rank still runs"
}

run_local=("$EQT_ROOT/scripts/run_local.sh" --ranks 2 --)
mpirun=(mpirun -np 2 --oversubscribe --bind-to none "$EQT_PROGRAM")

job whole "${run_local[@]}"
ended
expect_code 0 "nobody is stopped"
whole=$(summary parameter_hash)

job script "${run_local[@]}"
kill -TERM "$JOB"
stopped "SIGTERM to run_local.sh"
run "${run_local[@]}" --config "$WORK/tiny.json" --out "$RUN" "${settings[@]}" --resume
expect_code 0 "--resume after SIGTERM"
expect_equal "$whole" "$(summary parameter_hash)" "a stopped and resumed run's parameters"
expect_equal 60 "$(summary steps)" "a stopped and resumed run's steps"

# While mpirun starts the ranks, which takes some 0.5 s.
for delay in 0.08 0.2 0.4; do
  RUN=$WORK/early OUT=$WORK/early.out ERR=$WORK/early.err
  rm -rf "$RUN"
  "${run_local[@]}" --config "$WORK/tiny.json" --out "$RUN" "${settings[@]}" >"$OUT" 2>"$ERR" </dev/null &
  JOB=$!
  sleep "$delay"
  kill -TERM "$JOB"
  ended
  expect_code 75 "SIGTERM to run_local.sh after $delay s"
  [[ ! -e $RUN/summary.json ]] || wrong "SIGTERM after $delay s: the run has gone on to its end"
done

run "$EQT_ROOT/scripts/run_local.sh" --ranks 2 --timeout 6 -- --config "$WORK/tiny.json" --out "$WORK/late" \
  "${settings[@]}" --set train.emulate_compute=1
expect_code 124 "run_local.sh --timeout"
expect_text 'the run was ended after 6 s' "run_local.sh --timeout"
[[ -n $(find "$WORK/late/checkpoints" -type f -size +0 2>/dev/null) ]] || wrong "--timeout: no checkpoint"

job mpirun "${mpirun[@]}"
kill -USR1 "$JOB"
stopped "SIGUSR1 to mpirun"

job rank "${mpirun[@]}"
kill -INT "$(rank_process 1)"
stopped "SIGINT to one rank"
expect_text 'rank 1 was told' "SIGINT to one rank"

# resumed WHAT [ARGUMENTS]: the run goes on and records each epoch once, in their order.
resumed() {
  local what=$1
  shift
  run "${run_local[@]}" --config "$WORK/tiny.json" --out "$RUN" "${settings[@]}" "$@" --resume
  expect_code 0 "$what: --resume"
  python3 - "$RUN/metrics.jsonl" <<'PY' || wrong "$what: epochs are not recorded once each"
import json, sys
records = [json.loads(line) for line in open(sys.argv[1])]
epochs = [record["epoch"] for record in records if record["type"] == "epoch"]
assert epochs and epochs == list(range(1, len(epochs) + 1)), epochs
PY
}

# In an evaluation, which takes a second here: the only checkpoint stays, and is not written over.
usual=("${settings[@]}")
settings+=(--set train.epochs=1 --set train.steps=0 --set checkpoint.every_epochs=1 --set checkpoint.keep=1)
export EQT_FAULT=slow:rank=0,step=0,phase=evaluation
job evaluation "${mpirun[@]}"
last=$(value <(head -n 1 "$RUN/metrics.jsonl") steps_per_epoch)
for ((tick = 0; tick < 600; tick++)); do
  ! grep -q "\"type\":\"step\",\"step\":$last," "$RUN/metrics.jsonl" || break
  sleep 0.02
done
kill -USR1 "$JOB"
ended
unset EQT_FAULT
expect_code 75 "in an evaluation"
grep -q '"type":"epoch"' "$RUN/metrics.jsonl" && wrong "in an evaluation: the epoch is recorded already"
set=$(ls "$RUN/checkpoints")
states() { stat -c '%n %i' "$RUN/checkpoints/$set"/rank*; }
stamp=$(states)
resumed "in an evaluation"
expect_equal "$set" "$(ls "$RUN/checkpoints")" "in an evaluation: checkpoints"
expect_equal "$stamp" "$(states)" "in an evaluation: the files of the checkpoint"

# Before the first round of a quorum has closed.
settings=("${usual[@]}" --set synchronization.algorithm=local-sgd --set synchronization.local_steps=20
  --set synchronization.delay=auto --set synchronization.quorum=2)
job quorum "${mpirun[@]}"
kill -USR1 "$JOB"
ended
expect_code 75 "before a round"
resumed "before a round"

settings=("${usual[@]}" --set synchronization.algorithm=ad-psgd)
job pairs "${mpirun[@]}"
kill -TERM "$(rank_process 1)"
stopped "SIGTERM to one rank that averages in pairs"

# mpirun ends the job after SIGTERM: the ranks may or may not save their state, but nothing hangs.
job plain "${mpirun[@]}"
kill -TERM "$JOB"
ended
[[ $CODE -ne 0 ]] || wrong "SIGTERM to mpirun: expected a failure, found exit code 0"
expect_within 20 "SIGTERM to mpirun"

# Two signals: it ends at once.
settings+=(--set train.emulate_compute=8 --set synchronization.algorithm=allreduce)
RUN=$WORK/twice OUT=$WORK/twice.out ERR=$WORK/twice.err
"${mpirun[@]}" --config "$WORK/tiny.json" --out "$RUN" "${settings[@]}" >"$OUT" 2>"$ERR" </dev/null &
JOB=$!
for ((tick = 0; tick < 600; tick++)); do
  ! grep -q '"type":"run"' "$RUN/metrics.jsonl" 2>/dev/null || break
  sleep 0.05
done
kill -USR1 "$JOB"
sleep 1
kill -USR1 "$JOB"
ended
[[ $CODE -ne 0 && $CODE -ne 75 ]] || wrong "a second signal: expected its own end, found exit code $CODE"
expect_within 6 "a second signal"
expect_text 'second signal ends this rank at once' "a second signal"
finish
