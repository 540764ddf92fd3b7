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
