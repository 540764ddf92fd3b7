# Words that every script here uses. Source it; it runs nothing.
# shellcheck shell=bash

EQT_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

say() { printf '%s\n' "== $*"; }

# fail CODE SENTENCE...: says what went wrong on stderr and leaves with CODE.
fail() {
  local code=$1
  shift
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit "$code"
}

# usage: prints the comment at the head of the running script (its help text).
usage() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }

# value_of OPTION COUNT: leaves with a sentence when OPTION is the last word of COUNT arguments.
value_of() { [[ $2 -ge 2 ]] || fail 2 "$1 needs a value; see --help."; }

# natural OPTION TEXT: leaves with a sentence unless TEXT is a whole number of at least 1.
natural() { [[ $2 =~ ^[1-9][0-9]*$ ]] || fail 2 "$1 needs a whole number of at least 1, found \"$2\"."; }

cores() { nproc 2>/dev/null || echo 1; }

# build PRESET TARGET: configures when needed and builds; a second call rebuilds nothing.
# Two cores can need 4 GiB for the files that include LibTorch, so small machines use fewer jobs.
build() {
  local preset=$1 target=$2 jobs memory_kib
  jobs=$(cores)
  memory_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null || true)
  if [[ -n $memory_kib && $((memory_kib / 2000000)) -lt $jobs ]]; then
    jobs=$((memory_kib / 2000000 > 1 ? memory_kib / 2000000 : 1))
  fi
  local log="$EQT_ROOT/build/$preset.configure.log"
  mkdir -p "$EQT_ROOT/build"
  say "Configuring build/$preset"
  (cd "$EQT_ROOT" && cmake --preset "$preset") >"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    fail 1 "CMake could not configure build/$preset; the whole output is in build/$preset.configure.log."
  }
  say "Building $target in build/$preset with $jobs jobs"
  cmake --build "$EQT_ROOT/build/$preset" --target "$target" --parallel "$jobs" ||
    fail 1 "The build of $target in build/$preset failed; the first error stands above."
}

# run_gracefully COMMAND...: runs mpirun, passes on its exit code, and makes of the signals that end a
# script the one that mpirun passes on to its ranks. A second one ends them at once. Where after_start
# names a function, that runs beside it, told its process.
run_gracefully() {
  local code before beside="" tether=()
  signals_seen=0
  # When this script is killed, mpirun ends its ranks.
  ! command -v setpriv >/dev/null || tether=(setpriv --pdeathsig TERM)
  set -m  # a process group of its own, out of reach of Ctrl-C
  ${tether[@]+"${tether[@]}"} "$@" </dev/null &
  graceful_job=$!
  set +m
  if [[ -n ${after_start:-} ]]; then
    "$after_start" "$graceful_job" &
    beside=$!
  fi
  trap pass_signal_on INT TERM HUP
  while :; do
    before=$signals_seen code=0
    wait "$graceful_job" || code=$?
    # A signal ends `wait`, not the job.
    [[ $signals_seen -ne $before ]] || break
  done
  trap - INT TERM HUP
  [[ -z $beside ]] || kill "$beside" 2>/dev/null || true
  return "$code"
}

pass_signal_on() {
  local signal=TERM
  signals_seen=$((signals_seen + 1))
  [[ $signals_seen -gt 1 ]] || signal=USR1
  kill -"$signal" "$graceful_job" 2>/dev/null || true
}
