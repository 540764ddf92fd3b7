# SPDX-License-Identifier: Apache-2.0
# Functions that the scripts share. Source it; it runs nothing.
# shellcheck shell=bash

EQT_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
# The program, and what to do where it is missing. In a checkout it is in the build tree; scripts that are
# installed in PREFIX/share/equant-train find it in PREFIX/bin.
EQT_DEFAULT_PROGRAM=$EQT_ROOT/build/release/equant-train
EQT_PROGRAM_REMEDY="build it with scripts/quickstart.sh or \"cmake --preset release && cmake --build --preset release\""
EQT_INSTALLED=false
if [[ ! -e $EQT_ROOT/CMakeLists.txt ]]; then
  EQT_INSTALLED=true
  EQT_DEFAULT_PROGRAM=$(dirname "$(dirname "$EQT_ROOT")")/bin/equant-train
  EQT_PROGRAM_REMEDY="install equant-train again"
fi

# plain WORDS...: prints them as one line, with ? for each control character: what hosts answer and what files are
# called must not steer a terminal.
plain() {
  local LC_ALL=C words="$*"
  words=${words//[$'\x01'-$'\x1f\x7f']/?}
  printf '%s\n' "${words//$'\xc2'[$'\x80'-$'\x9f']/?}"
}

say() { plain "== $*"; }

# fail CODE SENTENCE...: prints the error on stderr and exits with CODE.
fail() {
  local code=$1
  shift
  plain "$(basename "$0"): $*" >&2
  exit "$code"
}

# usage: prints the comment at the beginning of the running script, its help text.
usage() {
  awk 'NR > 1 && !/^#/ { exit } NR > 1 && !/SPDX-License/ { sub(/^# ?/, ""); print }' "$0" | installed_paths
}

# installed_paths: passes a text on; where scripts are installed, with the paths that its files have there.
installed_paths() {
  if ! $EQT_INSTALLED; then cat; return; fi
  sed -E -e "s#(^|[^/[:alnum:]])(scripts|configs|docs)/#\\1$EQT_ROOT/\\2/#g" \
    -e "s#build/release/equant-train#$EQT_DEFAULT_PROGRAM#g"
}

# value_of OPTION COUNT: exits with an error if OPTION is the last of COUNT arguments.
value_of() { [[ $2 -ge 2 ]] || fail 2 "$1 needs a value; see --help."; }

# is_number TEXT [DIGITS]: whether it is a whole number of at most that many digits [18, which bash can add]. Any other
# text in arithmetic, or beside -ge and -lt in [[ ]], is an expression, whose $(COMMANDS) bash runs.
is_number() { [[ $1 =~ ^(0|[1-9][0-9]*)$ && ${#1} -le ${2:-18} ]]; }

# natural OPTION TEXT: exits with an error unless TEXT is a whole number of at least 1 and of at most 9 digits.
natural() {
  { is_number "$2" 9 && [[ $2 != 0 ]]; } || fail 2 "$1 needs a whole number from 1 to 999999999, found \"$2\"."
}

# read_options ARGUMENT...: sets variables of the script by its options. The script declares them in an
# associative array `options`: [--OPTION]="KIND VARIABLE". The kinds of options:
#   text     one word
#   natural  one word, a whole number from 1 to 999999999
#   list     one word, which is added to an array
#   passed   one word; it is added to an array after the option itself, to be passed on
#   passed2  two words, likewise
#   flag     nothing; the variable becomes 1
# --help prints the help text and exits. Reading stops at -- and at a word that is no option; `rest`
# gets that word and all words after it.
read_options() {
  local kind variable
  while [[ ${1:-} == -* && $1 != -- ]]; do
    if [[ $1 == --help || $1 == -h ]]; then usage; exit 0; fi
    read -r kind variable <<<"${options[$1]:-unknown none}"
    case $kind in
      flag) printf -v "$variable" 1; shift; continue ;;
      text | list | passed) value_of "$1" $# ;;
      natural) value_of "$1" $#; natural "$1" "$2" ;;
      passed2) [[ $# -ge 3 ]] || fail 2 "$1 needs a key and a value; see --help." ;;
      *) fail 2 "unknown option \"$1\"; see --help." ;;
    esac
    case $kind in
      list) append_to "$variable" "$2"; shift 2 ;;
      passed) append_to "$variable" "$1" "$2"; shift 2 ;;
      passed2) append_to "$variable" "$1" "$2" "$3"; shift 3 ;;
      *) printf -v "$variable" %s "$2"; shift 2 ;;
    esac
  done
  # shellcheck disable=SC2034  # scripts read it
  rest=("$@")
}

# append_to ARRAY WORD...
append_to() {
  local -n appended_array=$1
  shift
  appended_array+=("$@")
}

# read_all_options ARGUMENT...: likewise, for a script that has only options.
read_all_options() {
  read_options "$@"
  [[ ${#rest[@]} -eq 0 ]] || fail 2 "unknown argument \"${rest[0]}\"; see --help."
}

# program_arguments: turns `rest`, a config file and arguments or -- and arguments, into the program's arguments.
program_arguments() {
  if [[ ${rest[0]:-} == -- ]]; then
    rest=("${rest[@]:1}")
  elif [[ ${#rest[@]} -gt 0 ]]; then
    rest=(--config "${rest[@]}")
  fi
  [[ ${#rest[@]} -gt 0 ]] || fail 2 "a config file or -- and arguments are missing; see --help."
}

cores() { nproc 2>/dev/null || echo 1; }

# require_few RANKS: exits with an error if they are far more than this machine can start.
require_few() {
  local all most
  all=$(nproc --all)  # whatever OMP_NUM_THREADS says
  most=$((16 * all > 128 ? 16 * all : 128))
  [[ $1 -le $most ]] ||
    fail 2 "--ranks: expected at most $most on this machine with $all cores, found $1; start fewer, or play them in one process with equant-train --simulate N."
}

# build PRESET TARGET: configures if needed, and builds what has changed. Two cores can need 4 GiB
# for the files that include LibTorch, so small machines use fewer jobs.
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

# readable_again CONFIG FOLDER: prints a path under which ranks, and later starts, can read CONFIG: its
# own, or that of a copy in FOLDER when it can be read only once or only by this script.
readable_again() {
  case $1 in
    /dev/stdin | /dev/fd/* | /proc/*) ;;
    *) [[ -e $1 && ! -f $1 && ! -d $1 ]] || { printf '%s\n' "$1"; return; } ;;
  esac
  # One byte more than the program accepts, so that the program reports a file that is too long.
  { timeout --foreground 60 head -c 1048577 "$1" >"$2/config.json"; } 2>/dev/null ||
    fail 2 "expected a readable config at $1 that ends within 60 s, found none; name a file."
  printf '%s\n' "$2/config.json"
}

# run_gracefully COMMAND...: runs mpirun and returns its exit code, 75 if a signal has stopped it. Signals that
# would end the script are sent to mpirun as the signal that it passes on to ranks; a second one ends them at
# once. Then the script is to end: further signals are ignored. Without a signal it is as after end_on_signals.
# If after_start names a function, it runs at the same time, with mpirun's process number as its argument;
# with SIGALRM to the script it asks the run to end, too.
run_gracefully() {
  local code before wakings=0 beside="" repeating="" tether=()
  signals_seen=0
  asked_by=""
  # When this script is killed, mpirun ends its ranks.
  ! command -v setpriv >/dev/null || tether=(setpriv --pdeathsig TERM)
  set -m  # its own process group, which Ctrl-C does not reach
  ${tether[@]+"${tether[@]}"} "$@" </dev/null &
  graceful_job=$!
  set +m
  if [[ -n ${after_start:-} ]]; then
    "$after_start" "$graceful_job" &
    beside=$!
  fi
  trap 'pass_signal_on anew' INT TERM HUP USR1
  trap 'pass_signal_on again' USR2 XCPU
  trap 'pass_signal_on again beside' ALRM
  while :; do
    before=$wakings code=0
    { wait "$graceful_job" || code=$?; } 2>/dev/null  # bash would say that the job was killed
    # A signal ends only `wait`, not the job.
    [[ $wakings -ne $before ]] || break
  done
  if [[ $signals_seen -gt 0 ]]; then
    trap '' INT TERM HUP USR1 USR2 XCPU ALRM
  else
    end_on_signals
  fi
  kill ${beside:+"$beside"} ${repeating:+"$repeating"} 2>/dev/null || true
  if [[ $signals_seen -gt 0 ]] && ended_by_request "$code"; then
    say "Stopped by a signal"
    code=75
  fi
  return "$code"
}

# ended_by_request CODE: whether SIGUSR1 or SIGUSR2 has ended mpirun, or a rank: these do not expect them before
# the ranks have started, and mpirun does not after they have ended.
ended_by_request() { [[ $1 -eq 138 || $1 -eq 140 ]]; }

# end_on_signals: from now on a signal ends the script with exit code 75, as it ends a run, after the command
# that it waits for. For scripts that call run_gracefully, before it.
end_on_signals() {
  trap : ALRM  # it comes too late
  trap 'say "Stopped by a signal while no rank was running"; exit 75' INT TERM HUP USR1 USR2 XCPU
}

# pass_signal_on anew|again [WHO]: a signal that comes again, like SIGXCPU every second, is the same request. asked_by
# says who was the first: WHO, or "user".
pass_signal_on() {
  wakings=$((wakings + 1))
  [[ $1 == anew || $signals_seen -eq 0 ]] || return 0
  signals_seen=$((signals_seen + 1))
  asked_by=${asked_by:-${2:-user}}
  if [[ $signals_seen -gt 1 ]]; then
    kill -TERM "$graceful_job" 2>/dev/null || true
    return
  fi
  ask_to_stop "$graceful_job"
  repeating=$!
}

# ask_to_stop JOB: sends SIGUSR1, and SIGUSR2 every second until JOB has ended, in a process $! of its own. mpirun
# loses a signal that comes while it starts the ranks; to a rank that is told already SIGUSR2 says nothing new.
ask_to_stop() {
  kill -USR1 "$1" 2>/dev/null || true
  while sleep 1 && kill -USR2 "$1"; do :; done >/dev/null 2>&1 3>&- &
}

# half_a_second: waits; false if this script was killed, which ends mpirun, too.
half_a_second() { sleep 0.5 && kill -0 $$ 2>/dev/null; }

# wait_here SECONDS: false if this script was killed.
wait_here() {
  local end=$((SECONDS + $1))
  while [[ $SECONDS -lt $end ]]; do half_a_second || return; done
}

# end_job JOB: SIGTERM, and SIGKILL 5 seconds later.
end_job() {
  kill -TERM "$1" 2>/dev/null || return 0
  sleep 5
  kill -KILL "$1" 2>/dev/null || true
}
