# SPDX-License-Identifier: Apache-2.0
# Lists of hosts and how to reach them. Source it after common.sh; it runs nothing.
# shellcheck shell=bash

# hosts_of_file OPTION FILE: prints the hosts of a file with lines NAME or NAME slots=K as a list with
# commas: NAME or NAME:K. It may be a pipe; one that nobody writes to, and a device, may never end.
hosts_of_file() {
  local text code=0
  [[ -r $2 && ! -d $2 ]] || fail 2 "$1: expected a readable file, found none at $2."
  text=$(timeout --foreground 10 head -c 1048577 "$2" 2>/dev/null | tr -d '\0') || code=$?
  [[ $code -eq 0 && ${#text} -le 1048576 ]] ||
    fail 2 "$1: expected a file of hosts that ends within 10 s and 1 MiB, found another at $2; name a file with a line NAME slots=K for each host."
  sed 's/#.*//; s/[[:space:]]*slots[[:space:]]*=[[:space:]]*/:/; s/^[[:space:]]*//; s/[[:space:]]*$//' <<<"$text" |
    grep -v '^$' | paste -sd, || fail 2 "$1: expected a line NAME slots=K for each host, found none in $2."
}

# check_host_names WORDS HOST...: exits with an error unless each is NAME or NAME:K; WORDS say what was expected.
check_host_names() {
  local host expected=$1
  shift
  for host in "$@"; do
    [[ $host =~ ^[A-Za-z0-9][A-Za-z0-9._-]*(:[1-9][0-9]{0,3})?$ ]] || fail 2 "$expected, found \"$host\"."
    [[ $host != *_* ]] ||
      fail 2 "expected host names of letters, digits, hyphens and dots, found \"$host\": Open MPI's daemon crashes on \"_\"; give the host another name in /etc/hosts or ~/.ssh/config, or its address."
  done
}

# require_each_once WHERE REMEDY HOST...: exits with an error if a host is named twice.
require_each_once() {
  local where=$1 remedy=$2 twice
  shift 2
  twice=$(printf '%s\n' "${@%%:*}" | sort | uniq -d | head -n 1)
  [[ -z $twice ]] || fail 2 "expected each host once$where, found $twice twice; give it more ranks $remedy."
}

# words_of_host: passes on what a host has said, without what bash cannot keep, and with an end.
words_of_host() { head -c 65536 | tr -d '\0'; }

# require_number HOST WHAT ANSWER: exits with an error unless the host's answer is a whole number.
require_number() {
  is_number "$3" || fail 6 "host $1: expected a whole number for $2, found \"${3:0:80}\"; see what it answers to ssh."
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
    timeout "$seconds" $shell "$host" "$(quoted "$@")" </dev/null | words_of_host
  fi
}

# at_host SECONDS HOST TEXT: the shell there runs TEXT, within that time. Its input and output are this function's, of
# any bytes.
at_host() {
  if is_here "$2"; then
    timeout "$1" sh -c "$3"
  else
    # shellcheck disable=SC2086,SC2154  # the shell's command has words; the script sets it
    timeout "$1" $shell "$2" "$3"
  fi
}

# ask SECONDS HOST TEXT: likewise, for words. What it prints may be anything.
ask() {
  if is_here "$2"; then
    at_host "$@"
  else
    at_host "$@" | words_of_host
  fi
}

# quoted WORD...: prints them as that many words for the shell of a host. printf %q would write bytes that are not of the
# locale as only bash reads them.
quoted() {
  local word words=()
  for word in "$@"; do words+=("'${word//"'"/"'\\''"}'"); done
  printf '%s' "${words[*]}"
}
