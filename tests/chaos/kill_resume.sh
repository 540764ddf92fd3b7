#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Kills a job again and again, at random steps and at random moments, and resumes it each time.
#
#   tests/chaos/kill_resume.sh [KILLS [RANKS]]      50 kills of 2 ranks; about 3 s per kill
#
# Every other kill is a SIGKILL of all ranks after a random time, possibly during a save; the others
# kill one rank at a random step. Exit code 0 if every start continued from a valid checkpoint and
# the last one ended with the parameters of a run that was never killed. Prints the most steps that
# were lost, and a line per kill with --verbose after the numbers.
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
kills=${1:-50} ranks=${2:-2} verbose=${3:-}
every=5
RANDOM=20240229
keys=(--set "checkpoint.every_steps=$every" --set train.batch_size=8 --set data.limit_train=512
  --set compressor.name=topk --set compressor.density=0.05 --set synchronization.timeout_seconds=20)

# last NAME: the last completed step in the records of a run; 0: none.
last() {
  sed -n 's/^{"type":"step","step":\([0-9]*\),.*/\1/p' "$WORK/$1/metrics.jsonl" 2>/dev/null | tail -n 1 | grep . || echo 0
}

# resumed_from: the step from which the last start continued; 0: it started from the beginning.
resumed_from() {
  sed -n 's/.*continues from the checkpoint of step \([0-9]*\).*/\1/p' "$WORK/job/metrics.jsonl" 2>/dev/null | tail -n 1 | grep . || echo 0
}

# start ARGUMENTS: the job in the background; its mpirun is JOB.
start() {
  "$EQT_ROOT/scripts/run_local.sh" --ranks "$ranks" -- --config "$WORK/tiny.json" --out "$WORK/job" \
    "${keys[@]}" --resume "$@" >"$WORK/out" 2>"$WORK/err" </dev/null &
  JOB=$!
}

# kill_all: kills every rank as soon as there are any; then mpirun ends.
kill_all() {
  local pids
  while kill -0 "$JOB" 2>/dev/null; do
    pids=$(pgrep -P "$JOB" || true)
    # shellcheck disable=SC2086  # one word each
    [[ -z $pids ]] || kill -KILL $pids 2>/dev/null || true
    sleep 0.1
  done
}

refused='damaged|usage:|data:|bug:|wire:|output:'
reached=0 most_lost=0 lost_total=0 begun=0 records=none
for ((kill = 1; kill <= kills; ++kill)); do
  how=time
  if ((kill % 2 == 0)); then
    how="step $((reached + 1 + RANDOM % 20))"
    export EQT_FAULT="kill:rank=$((RANDOM % ranks)),step=${how#step }"
    start --set train.steps=1000000
    wait "$JOB" && wrong "kill $kill: the job ended by itself"
    unset EQT_FAULT
  else
    start --set train.steps=1000000
    sleep "$((RANDOM % 3)).$((RANDOM % 1000 + 1000))"
    kill_all
    wait "$JOB" || true
  fi
  if grep -qE "$refused" "$WORK/err"; then
    wrong "kill $kill ($how): $(grep -E "$refused" "$WORK/err" | head -n 1)"
  fi
  from=$(resumed_from) now=$(last job)
  # A start that was killed before it continued has written nothing: the records are those of the
  # start before.
  told=$(stat -c %i "$WORK/job/metrics.jsonl" 2>/dev/null || echo none)
  if [[ $told != "$records" ]]; then
    records=$told
    lost=$((reached > from ? reached - from : 0))
    ((from > 0)) || begun=$((begun + 1))
    most_lost=$((lost > most_lost ? lost : most_lost)) lost_total=$((lost_total + lost))
    [[ -z $verbose ]] || echo "kill $kill at $how: went on from step $from, lost $lost, reached $now"
    reached=$now
  fi
done

end=$((reached + 7))
start --set "train.steps=$end"
wait "$JOB" || wrong "the last start: expected exit code 0, found $?: $(cat "$WORK/err")"
train "$ranks" whole "${keys[@]}" --set "train.steps=$end"
expect_code 0 "the run that is never killed"
expect_equal "$(summary parameter_hash)" "$(value "$WORK/job/summary.json" parameter_hash)" "parameter_hash"
expect_equal "$end" "$(grep -c '"type":"step"' "$WORK/job/metrics.jsonl")" "records of steps"
echo "$kills kills, $end steps: lost $lost_total steps in all, $most_lost at most at once, saved every $every;" \
  "$begun starts found nothing saved yet"
finish
