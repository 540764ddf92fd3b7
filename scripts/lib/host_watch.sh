# SPDX-License-Identifier: Apache-2.0
# Which hosts are up: a shell on each of them says so twice a second, and one that falls silent is gone. Source it
# after hosts.sh and mpi.sh; it runs nothing. The script sets `state`, `shell`, `program`, `answer`, `silence`,
# `start_timeout`, and `standby`, how the paths of the sockets of processes in standby begin, "" for none; the end is the
# host's name, as hosts may share a folder.
# shellcheck shell=bash
# shellcheck disable=SC2154  # those, and `present`, come from the script

# Files in $state about a host: "up.NAME" while it is heard, with what it is (its versions), "asked.NAME" when it was
# asked once, "beat.NAME" as old as its last word, "watched.NAME" when somebody asks and listens, "refused.NAME" with
# the reason why it stays out.

declare -A losses=()     # by name: how often it was lost
declare -A last_loss=()  # by name: when, by $SECONDS

# A host says twice a second that it is alive; and, once it has loaded the program, what it is: the version of its MPI,
# and that of the program. Then a process in standby, which ends with this shell, has loaded the libraries for the ranks.
# shellcheck disable=SC2016  # the host's shell expands it
readonly EQT_WHAT='echo "$(mpirun --version 2>/dev/null | head -n 1), $("$@" --version 2>/dev/null | head -n 1)"'
# shellcheck disable=SC2016
readonly EQT_BEGIN='client=$(dirname "$0")/equant-standby socket=$1.$(uname -n) server='\
'; if [ -n "$1" ] && [ -x "$client" ]; then "$0" standby --parent $$ "$socket" </dev/null >/dev/null 2>&1 & server=$!; fi'
# shellcheck disable=SC2016
readonly EQT_SAY='while [ ! -S "$socket" ] && kill -0 $server; do sleep 0.05; done; '\
'if [ -S "$socket" ]; then set -- "$client" "$socket" "$0"; else set -- "$0"; fi; '$EQT_WHAT
# It is one line, which more shells take in quotes than several.
readonly EQT_ALIVE="$EQT_BEGIN; { $EQT_SAY; } 2>/dev/null & while echo .; do sleep 0.5; done"

# start_watching NAME: from now on, unless somebody watches it already.
start_watching() {
  ( set -C; : >"$state/watched.$1" ) 2>/dev/null || return 0
  if is_here "$1"; then
    if [[ -n $standby ]]; then "$program" standby --parent "$BASHPID" "$standby.$(uname -n)" </dev/null >/dev/null 2>&1 & fi
    sh -c "$EQT_WHAT" sh "$program" 2>/dev/null >"$state/said.$1" || true
    mv "$state/said.$1" "$state/up.$1"
    touch "$state/asked.$1"
    return
  fi
  keep_listening "$1" >/dev/null 2>&1 &
}

# keep_listening NAME: until this script ends. A host that cannot be reached is asked again. When a shell ends, as when
# its server starts anew, the host is up as long as it answers to the next one.
keep_listening() {
  local name=$1 words line process heard ended since limit=$answer
  trap - INT TERM HUP USR1 USR2 XCPU ALRM
  while kill -0 $$ 2>/dev/null && [[ -d $state ]]; do
    # A remote shell joins the words and divides them again.
    # shellcheck disable=SC2086  # the shell's command has words
    exec {words}< <(exec $shell "$name" "$(quoted sh -c "$EQT_ALIVE" "$program" "$standby")" </dev/null 2>/dev/null)
    process=$! heard=0 ended=0 since=$SECONDS
    while IFS= read -r -t "$limit" -n 400 -u "$words" line || { ended=$?; false; }; do
      kill -0 $$ || break
      heard=1 limit=$silence
      if [[ $line == . ]]; then
        : >"$state/beat.$name"
        [[ $((SECONDS - since)) -lt $start_timeout ]] || touch "$state/asked.$name"  # its program hangs
      elif [[ ! -e $state/up.$name ]]; then
        printf '%s\n' "$line" >"$state/said.$name" && mv "$state/said.$name" "$state/up.$name"
        touch "$state/asked.$name"
      fi
    done
    kill "$process" 2>/dev/null || true
    exec {words}<&-
    limit=1
    [[ $heard -eq 0 || $ended -ne 1 ]] || { sleep 0.2; continue; }  # the shell's end, not silence
    rm -f "$state/up.$name"
    touch "$state/asked.$name" 2>/dev/null || true
    limit=$answer
    sleep 1
  done
}

is_up() { [[ -e $state/up.$1 ]]; }

# await_answers: until every host has answered or was asked in vain.
await_answers() {
  local host
  for host in "${hosts[@]%%:*}"; do
    until [[ -e $state/asked.$host ]]; do sleep 0.05; done
  done
}

# is_fit NAME: whether the host that is up has the MPI and the program of the others. Says once what is wrong with one
# that has not. Before the first start another MPI ends the script.
is_fit() {
  local what
  [[ ! -e $state/refused.$1 ]] || return 1
  what=$(<"$state/up.$1") 2>/dev/null || return 1
  [[ $start -gt 0 ]] || require_same_mpi "$1" "$(mpi_in "$what")"
  if [[ $what == *", " ]]; then
    refuse "$1" "it has no executable $program"
  elif [[ $what != "${fit:=$what}" ]]; then
    refuse "$1" "expected \"$fit\", as on the others, found \"$what\"; install the same packages there"
  else
    return 0
  fi
  return 1
}

# refuse NAME REASON: it stays out from now on.
refuse() {
  printf '%s\n' "$2" >"$state/refused.$1"
  say "warning: $1 stays out: $2" >&2
}

# mpi_in WORDS: prints the version of MPI in what a host has said of itself.
mpi_in() { sed -nE 's/^mpirun \([^)]*\) ([^ ,]+).*/\1/p' <<<"$1"; }

# wait_of NAME: prints the seconds for which it must be heard before it is taken in: none after the first loss, then
# twice as many each time, at most ten minutes.
wait_of() {
  local count=${losses[$1]:-0} seconds=5
  [[ $count -ge 2 ]] || { echo 0; return; }
  for ((; count > 1 && seconds < 600; count--)); do seconds=$((2 * seconds)); done
  echo "$((seconds < 600 ? seconds : 600))"
}

# has_waited NAME: whether a host that was lost before has been heard for long enough.
has_waited() {
  local seconds since
  seconds=$(wait_of "$1")
  [[ $seconds -gt 0 ]] || return 0
  since=$(stat -c %Y "$state/up.$1" 2>/dev/null) || return 1
  [[ $(($(date +%s) - since)) -ge $seconds ]]
}

# is_welcome NAME: whether it can be taken in now.
is_welcome() { is_up "$1" && is_fit "$1" && has_waited "$1"; }

# most_are_down: whether fewer than half of the hosts that trained are heard.
most_are_down() {
  local name up=0
  for name in "${present[@]%%:*}"; do ! is_up "$name" || up=$((up + 1)); done
  [[ $((2 * up)) -lt ${#present[@]} ]]
}

# note_lost_hosts: after a failure: counts the losses of hosts that are down. Hosts whose silence may explain the
# failure are given the time to speak.
note_lost_hosts() {
  local host name now count wait mark
  mark=$state/failure
  : >"$mark"
  if [[ ! -e $state/silent && ($code -eq 205 || $code -eq 6 || $code -eq 7) ]]; then
    for name in "${present[@]%%:*}"; do
      is_here "$name" && continue
      for ((count = 0; count < 20 * silence; count++)); do
        ! is_up "$name" || [[ $state/beat.$name -nt $mark ]] || { sleep 0.05; continue; }
        break
      done
    done
  fi
  # So many at once are not lost: this machine or the network stood still, and they are asked again.
  for ((count = 0; count < 20 * answer; count++)); do
    most_are_down || break
    sleep 0.05
  done
  for name in "${present[@]%%:*}"; do
    ! is_up "$name" || continue
    now=$SECONDS
    # A host that has trained for ten minutes is as good as new.
    [[ $((now - ${last_loss[$name]:-$now})) -lt 600 ]] || losses[$name]=0
    losses[$name]=$((${losses[$name]:-0} + 1))
    last_loss[$name]=$now
    wait=$(wait_of "$name")
    [[ $wait -eq 0 ]] || say "$name was lost ${losses[$name]} times: it is taken in when it has answered for $wait s"
  done
}
