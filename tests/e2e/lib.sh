# SPDX-License-Identifier: Apache-2.0
# Functions of the end-to-end tests. Source it with the executable in EQT_PROGRAM (CTest sets it).
# Each test is one script; it prints what it checks, and every failed check prints what it found.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the results of train and run are read by the tests

set -euo pipefail
EQT_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
: "${EQT_PROGRAM:?must name the equant-train executable}"
export EQT_PROGRAM OMP_NUM_THREADS=1
# shellcheck source=scripts/lib/common.sh
source "$EQT_ROOT/scripts/lib/common.sh"
# shellcheck source=scripts/lib/mpi.sh
source "$EQT_ROOT/scripts/lib/mpi.sh"
prepare_mpi
# Where a network has IPv4 and IPv6, Open MPI 5.0 prints lines that mean nothing, see EQT_NOISE.
export OMPI_MCA_btl_tcp_disable_family=6
WORK=$(mktemp -d "${TMPDIR:-/tmp}/equant-e2e.XXXXXX")
trap 'rm -rf "$WORK"' EXIT
cd "$WORK"
FAILURES=0

# A few steps of the smallest network on synthetic images: a few seconds per run, no files needed.
cat >"$WORK/tiny.json" <<JSON
{
  "name": "tiny",
  "seed": 1,
  "threads_per_rank": 1,
  "model": {"name": "resnet20"},
  "data": {"name": "synthetic", "augment": false, "limit_train": 256, "limit_test": 64},
  "train": {"epochs": 1, "steps": 4, "batch_size": 16},
  "optimizer": {"learning_rate": 0.05},
  "synchronization": {"timeout_seconds": 60},
  "output": {"progress": "off"}
}
JSON

# skip REASON: the test cannot be run here; CTest reports it as skipped.
skip() {
  echo "[eqt-skip] $*"
  exit 0
}

# run_by_rank [MPIRUN'S OPTION]... -- COMMAND [: COMMAND]...: runs the first command as rank 0, the next as rank 1.
# To mpirun they are one program: that of Open MPI 5.0.7 crashes when it is given several.
run_by_rank() {
  local options=() rank=0 word line
  while [[ $1 != -- ]]; do options+=("$1"); shift; done
  shift
  # shellcheck disable=SC2016  # the rank's shell expands it
  line='case $OMPI_COMM_WORLD_RANK in 0) exec'
  for word in "$@"; do
    if [[ $word == : ]]; then
      rank=$((rank + 1))
      line+=" ;; $rank) exec"
    else
      line+=" $(printf '%q' "$word")"
    fi
  done
  run mpirun --oversubscribe ${options[@]+"${options[@]}"} -np $((rank + 1)) bash -c "$line ;; esac"
}

# need_arrays: the test's Python, Debian's, writes arrays and TorchScript.
need_arrays() {
  /usr/bin/python3 -c 'import torch, numpy' 2>/dev/null || skip "python3-torch or python3-numpy is not installed"
}

# make_arrays: runs $WORK/make.py, which begins with arrays_head.py.
make_arrays() { PYTHONPATH=$EQT_ROOT/tests/e2e /usr/bin/python3 -B "$WORK/make.py" "$WORK"; }

wrong() {
  FAILURES=$((FAILURES + 1))
  printf 'FAILED: %s\n' "$*"
  [[ ! -s ${OUT:-} ]] || { echo "--- stdout:"; tail -n 20 "$OUT"; }
  [[ ! -s ${ERR:-} ]] || { echo "--- stderr:"; tail -n 20 "$ERR"; }
}

# finish: the last line of every test.
finish() {
  [[ $FAILURES -eq 0 ]] || { echo "$FAILURES checks failed"; exit 1; }
  echo "all checks hold"
}

# run COMMAND...: sets CODE, SECONDS_TAKEN and writes the files OUT and ERR; never ends the test.
# Open MPI's own files are in $WORK, because in a shared folder a job that ends removes files of
# others. Its reports of ranks that have failed are left out of ERR.
run() {
  local start
  OUT=$WORK/stdout ERR=$WORK/stderr CODE=0
  start=$(date +%s.%N)
  set_mpi folder "$WORK/mpi"
  timeout --kill-after=5 "${RUN_LIMIT:-120}" "$@" >"$OUT" 2>"$ERR" </dev/null || CODE=$?
  drop_reports
  SECONDS_TAKEN=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }')
}

# drop_reports: leaves mpirun's own words out of ERR, which ORTE does not print and PRRTE does.
drop_reports() {
  grep -qxF -e "$EQT_RULE" "$ERR" || return 0
  state=$WORK watch_words <"$ERR" 2>"$ERR.words"
  mv "$ERR.words" "$ERR"
}

# train RANKS FOLDER [ARGUMENTS]: one run of tiny.json under MPI into $WORK/FOLDER.
train() {
  local ranks=$1 folder=$2
  shift 2
  RUN=$WORK/$folder
  run "$EQT_ROOT/scripts/run_local.sh" --ranks "$ranks" -- \
    --config "$WORK/tiny.json" --out "$RUN" "$@"
}

# program ARGUMENTS: the executable alone, without mpirun.
program() { run "$EQT_PROGRAM" "$@"; }

# usual FUNCTION ARGUMENTS: one of the functions above, with LibTorch in a test that has the program without it.
usual() { EQT_PROGRAM=${EQT_USUAL_PROGRAM:-$EQT_PROGRAM} "$@"; }

expect_code() {
  [[ $CODE -eq $1 ]] || wrong "$2: expected exit code $1, found $CODE"
}

# expect_text REGEX WHAT: stderr has a line that matches, in any case.
expect_text() {
  grep -qiE -- "$1" "$ERR" || wrong "$2: expected stderr to match \"$1\""
}

# expect_one_sentence WHAT: an error is reported once, without a stack trace. Messages of ranks that
# mpirun ended do not count.
expect_one_sentence() {
  local lines
  lines=$(grep -v 'was ended by SIGTERM' "$ERR" | grep -cv '^[[:space:]]*$' || true)
  [[ $lines -ge 1 && $lines -le 2 ]] || wrong "$1: expected one sentence on stderr, found $lines lines"
  ! grep -qE 'terminate called|Signal:|Backtrace|#0 ' "$ERR" || wrong "$1: stderr shows a stack trace"
}

expect_within() {
  awk -v t="$SECONDS_TAKEN" -v limit="$1" 'BEGIN { exit !(t < limit) }' ||
    wrong "$2: expected the end within $1 s, took $SECONDS_TAKEN s"
}

# expect_failure CODE REGEX WHAT: the three properties of every failure.
expect_failure() {
  expect_code "$1" "$3"
  expect_text "$2" "$3"
  expect_one_sentence "$3"
}

# value FILE KEY: a member of a JSON object, as JSON ("null" when it is null, "absent" when it is not there).
value() {
  python3 - "$1" "$2" <<'PY'
import json, sys
found = json.load(open(sys.argv[1]))
for key in sys.argv[2].split("."):
    found = found.get(key, "absent") if isinstance(found, dict) else "absent"
print(found if isinstance(found, str) else json.dumps(found))
PY
}

summary() { value "$RUN/summary.json" "$1"; }

# expect_equal EXPECTED FOUND WHAT
expect_equal() { [[ $1 == "$2" ]] || wrong "$3: expected \"$1\", found \"$2\""; }

expect_different() { [[ $1 != "$2" ]] || wrong "$3: expected two values, both are \"$1\""; }

# expect_number NUMBER RELATION LIMIT WHAT: RELATION is awk's (>=, <, ...).
expect_number() {
  awk -v a="$1" -v b="$3" "BEGIN { exit !((a + 0 == a) && (a $2 b)) }" ||
    wrong "$4: expected a number $2 $3, found $1"
}

# refuse_config REGEX WHAT [ARGUMENTS]: wrong for any number of ranks, so `check` is used.
refuse_config() {
  local text=$1 what=$2
  shift 2
  program check --config "$WORK/tiny.json" "$@"
  expect_failure 2 "$text" "$what"
}

# start_fault ACT NAME KEY=VALUE...: of three ranks that train with these settings, rank 1 fails in
# the second bucket of step 2. Runs in the background, in its own folder, because it mostly waits.
start_fault() {
  local act=$1 name=$2 setting settings=()
  shift 2
  for setting in train.steps=4 synchronization.bucket_mib=0.1 data.limit_train=48 data.limit_test=3 \
    train.batch_size=2 synchronization.timeout_seconds=3 "$@"; do
    settings+=(--set "$setting")
  done
  (
    WORK=$WORK/$act-$name
    mkdir "$WORK"
    cp "$WORK/../tiny.json" "$WORK/"
    export EQT_FAULT="$act:rank=1,step=2,bucket=1"
    train 3 fault "${settings[@]}"
    echo "$CODE $SECONDS_TAKEN" >"$WORK/outcome"
  ) &
}

# collect_fault ACT NAME: checks every such failure; sets the same variables as run, and WHAT.
collect_fault() {
  local folder=$WORK/$1-$2 left
  WHAT="$2, rank 1: $1"
  OUT=$folder/stdout ERR=$folder/stderr
  read -r CODE SECONDS_TAKEN <"$folder/outcome"
  [[ $CODE -ne 0 ]] || wrong "$WHAT: expected a failure, found exit code 0"
  # Most of the time is starting. The test is that the messages are printed at all.
  expect_within 60 "$WHAT"
  [[ ! -e $folder/fault/summary.json ]] || wrong "$WHAT: a failed run wrote a summary"
  ! grep -qE 'terminate called|Signal:|Backtrace|#0 ' "$ERR" || wrong "$WHAT: stderr shows a stack trace"
  left=$(pgrep -f -- "--out $folder/fault" || true)
  [[ -z $left ]] || wrong "$WHAT: processes $left still run"
}
