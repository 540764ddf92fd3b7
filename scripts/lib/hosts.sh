# SPDX-License-Identifier: Apache-2.0
# Lists of hosts and how to reach them. Source it after common.sh; it runs nothing.
# shellcheck shell=bash

# hosts_of_file OPTION FILE: prints the hosts of a file with lines NAME or NAME slots=K as a list with
# commas: NAME or NAME:K.
hosts_of_file() {
  [[ -r $2 && ! -d $2 ]] || fail 2 "$1: expected a readable file, found none at $2."
  sed 's/#.*//; s/[[:space:]]*slots[[:space:]]*=[[:space:]]*/:/; s/^[[:space:]]*//; s/[[:space:]]*$//' "$2" |
    grep -v '^$' | paste -sd, || fail 2 "$1: expected a line NAME slots=K for each host, found none in $2."
}

# check_host_names WORDS HOST...: exits with an error unless each is NAME or NAME:K; WORDS say what was expected.
check_host_names() {
  local host expected=$1
  shift
  for host in "$@"; do
    [[ $host =~ ^[A-Za-z0-9][A-Za-z0-9._-]*(:[1-9][0-9]*)?$ ]] || fail 2 "$expected, found \"$host\"."
  done
}

# slots_of HOST: prints the K of NAME:K, or 1.
slots_of() { [[ $1 == *:* ]] && printf '%s\n' "${1##*:}" || echo 1; }

# is_here HOST: whether that is this machine.
is_here() { [[ $1 == localhost || $1 == 127.0.0.1 || $1 == "$(hostname)" ]]; }

# on_host SECONDS SHELL HOST WORDS...: runs WORDS there, within that time.
on_host() {
  local seconds=$1 shell=$2 host=$3
  shift 3
  if is_here "$host"; then
    "$@" </dev/null
  else
    # A remote shell joins the words and divides them again.
    # shellcheck disable=SC2086  # the shell's command has words
    timeout "$seconds" $shell "$host" "$(printf '%q ' "$@")" </dev/null
  fi
}

# The first rank says this on stderr when mpirun has started it.
readonly STARTED="mpirun has started the ranks"
# shellcheck disable=SC2016  # for the shell of each rank
readonly SAY_STARTED='[ "${OMPI_COMM_WORLD_RANK:-0}" != 0 ] || echo "$0" >&2; exec "$@"'

# start_on_hosts PROGRAM ARGUMENT...: run_gracefully for the command in the array `mpirun`. Files in the folder
# $state say that ranks have started, and that one has failed. Until every host has a daemon of Open MPI it
# starts none, and a signal may end it with code 0: that becomes 75.
start_on_hosts() {
  local code=0 words watcher tick
  rm -f "$state/started" "$state/failed"
  exec {words}> >(watch_words)
  watcher=$!
  run_gracefully "${mpirun[@]}" sh -c "$SAY_STARTED" "$STARTED" "$@" 2>&"$words" {words}>&- || code=$?
  exec {words}>&-
  # A process on the way to a lost host may keep the pipe open.
  for ((tick = 0; tick < 20; tick++)); do
    kill -0 "$watcher" 2>/dev/null || break
    sleep 0.05
  done
  if [[ $code -eq 0 && $signals_seen -gt 0 && ! -e $state/started ]]; then
    say "Stopped by a signal"
    code=75
  fi
  return "$code"
}

# watch_words: copies the job's stderr to its own.
watch_words() {
  local line
  while IFS= read -r line; do
    if [[ $line == "$STARTED" ]]; then
      touch "$state/started"
      continue
    fi
    printf '%s\n' "$line" >&2
    [[ ! $line =~ ^equant-train:\ (timeout|mpi|wire): ]] || touch "$state/failed"
  done
}
