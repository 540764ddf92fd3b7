#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests checkpoints with random faults: runs are interrupted again and again and resumed each time,
# and must end with the parameters of an undisturbed run.
#
#   scripts/soak.sh [options]
#
#   --minutes N     how long [60]
#   --ranks N       MPI processes [3]
#   --seed N        of the faults, to repeat a test [random]
#   --keep DIR      where a failed run is kept [a folder in $TMPDIR]
#   --program FILE  the executable [$EQT_PROGRAM, or build/release/equant-train]
#   --help          this text
#
# It alternates between algorithms. A fault is a kill, a stopped process, an exception, a NaN, a
# damaged message or a signal, in a step, an evaluation or a checkpoint of any rank. Every start
# must end by itself. Exit code 1 after the first run that hangs, cannot be resumed or ends with
# other parameters.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

minutes=60
ranks=3
seed=""
keep=""
program=${EQT_PROGRAM:-$EQT_DEFAULT_PROGRAM}
declare -A options=(
  [--minutes]="natural minutes" [--ranks]="natural ranks" [--seed]="natural seed" [--keep]="text keep"
  [--program]="text program"
)
read_all_options "$@"
[[ $ranks -ge 2 ]] || fail 2 "--ranks needs at least 2: one breaks and one sees it."
seed=${seed:-$((RANDOM + 1))}
RANDOM=$seed
keep=${keep:-$(mktemp -d "${TMPDIR:-/tmp}/equant-soak.XXXXXX")}
mkdir -p "$keep"
export EQT_PROGRAM=$program
steps=60
limit=120  # time limit of a start [seconds]

cat >"$keep/config.json" <<'JSON'
{
  "name": "soak", "threads_per_rank": 1,
  "model": {"name": "resnet20"},
  "data": {"name": "synthetic", "augment": true, "limit_train": 240, "limit_test": 24},
  "train": {"epochs": 100, "steps": 60, "batch_size": 4, "evaluate_every": 2},
  "optimizer": {"learning_rate": 0.02},
  "synchronization": {"timeout_seconds": 5, "bucket_mib": 0.1},
  "checkpoint": {"every_steps": 7},
  "output": {"progress": "off"}
}
JSON

# All of these repeat exactly, unlike asynchronous training.
ways=("allreduce dense none" "allreduce scatter-reduce qsgd" "allreduce ring qsgd"
  "allreduce sparse topk" "allreduce auto powersgd" "local-sgd scatter-reduce qsgd" "d-psgd auto none"
  "choco-sgd auto qsgd" "deep-squeeze auto qsgd" "sgp auto none")

# train FOLDER WAY ARGUMENTS: one start; sets its exit code.
train() {
  local folder=$1 algorithm collective compressor
  read -r algorithm collective compressor <<<"$2"
  shift 2
  [[ $collective == auto ]] || set -- --set "synchronization.collective=$collective" "$@"
  code=0
  timeout --kill-after=10 "$limit" "$EQT_ROOT/scripts/run_local.sh" --ranks "$ranks" -- \
    --config "$keep/config.json" --out "$folder" --set "synchronization.algorithm=$algorithm" \
    --set "compressor.name=$compressor" "$@" >"$folder.log" 2>&1 || code=$?
}

hash_of() { sed -n 's/.*"parameter_hash": *"\([0-9a-f]*\)".*/\1/p' "$1/summary.json"; }

pick() { printf '%s' "${@:RANDOM % $# + 1:1}"; }

broken() {
  printf 'FAILED: %s\n' "$*"
  tail -n 20 "$keep/run.log" 2>/dev/null || true
  fail 1 "$* (the run is in $keep; --seed $seed repeats the faults)."
}

say "Faults for $minutes minutes from seed $seed, $ranks ranks; everything is in $keep"
until_second=$((SECONDS + 60 * minutes)) runs=0 faults=0
declare -A expected=()
while [[ $SECONDS -lt $until_second ]]; do
  way=${ways[runs % ${#ways[@]}]}
  if [[ -z ${expected[$way]:-} ]]; then
    rm -rf "$keep/whole"
    train "$keep/whole" "$way"
    [[ $code -eq 0 ]] || broken "$way, undisturbed: expected exit code 0, found $code"
    expected[$way]=$(hash_of "$keep/whole")
  fi
  rm -rf "$keep/run"
  again=()
  for ((start = 1; ; start++)); do
    fault=""
    if [[ $start -le 6 ]]; then
      fault="$(pick kill stop throw nan flip truncate-message):rank=$((RANDOM % ranks))"
      fault+=",step=$((RANDOM % steps))"
      [[ $fault == flip* || $fault == truncate* ]] || fault+=$(pick "" "" ,phase=evaluation ,phase=checkpoint)
      faults=$((faults + 1))
    fi
    EQT_FAULT=$fault
    if [[ -n $fault ]]; then export EQT_FAULT; else unset EQT_FAULT; fi
    train "$keep/run" "$way" ${again[@]+"${again[@]}"}
    unset EQT_FAULT
    again=(--resume)
    case $code in
      0) break ;;
      124 | 137) [[ $fault == kill* ]] || broken "$way, start $start with $fault: it did not end" ;;
      2 | 3 | 74) broken "$way, start $start with \"$fault\": exit code $code" ;;
    esac
    [[ $start -le 6 ]] || broken "$way, start $start without a fault: exit code $code"
  done
  found=$(hash_of "$keep/run")
  [[ $found == "${expected[$way]}" ]] ||
    broken "$way: expected parameters ${expected[$way]} after $start starts, found $found"
  runs=$((runs + 1))
  printf '%s: right after %s starts (%s runs, %s faults so far)\n' "$way" "$start" "$runs" "$faults"
done
say "$runs runs ended with the right parameters through $faults faults"
[[ $keep != "${TMPDIR:-/tmp}"/equant-soak.* ]] || rm -rf "$keep"
