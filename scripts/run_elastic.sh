#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs equant-train on several hosts. If one fails or is cut off, starts it again from the newest
# checkpoint on the hosts that answer.
#
#   scripts/run_elastic.sh [options] CONFIG.json [equant-train arguments]
#
#   --hosts LIST          host names with commas between them; NAME:K has K ranks [required]
#   --tries N             starts at most, with the first one [5]
#   --least N             hosts needed; fewer are an error with exit code 6 [1]
#   --answer SECONDS      how long a host may take to answer before a start [5]
#   --start-timeout SECONDS
#                         how long mpirun may take to start the first rank [60]
#   --patience SECONDS    how long mpirun may take to end after a rank has failed [15]
#   --shell COMMAND       reaches a host, also for mpirun: COMMAND HOST WORDS... [ssh]
#   --mca KEY VALUE       passed on to mpirun; may be repeated
#   --program FILE        the executable, at the same place on every host [$EQT_PROGRAM, or
#                         build/release/equant-train]
#   --help                this text
#
#   scripts/run_elastic.sh --hosts pi0,pi1,pi2,pi3 configs/quickstart.json --out runs/rack \
#     --set checkpoint.every_steps=50 --set synchronization.timeout_seconds=30
#
# A start that takes too long is ended; if the same hosts answer after it, the exit code is 6. After
# exit code 2, 3, 4, 70, 74 or 75 there is no other start: another host would not help, or the run
# was stopped. 205 is mpirun's code for a lost host. SIGTERM and Ctrl-C end the run after a
# step, with its state saved and exit code 75. Run this on a host that stays up; it need not train.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/mpi.sh
source "$EQT_ROOT/scripts/lib/mpi.sh"
# shellcheck source=scripts/lib/hosts.sh
source "$EQT_ROOT/scripts/lib/hosts.sh"

list=""
tries=5
least=1
answer=5
start_timeout=60
patience=15
shell=$(mpi_remote_shell)
program=${EQT_PROGRAM:-$EQT_DEFAULT_PROGRAM}
mca=()
declare -A options=(
  [--hosts]="text list" [--tries]="natural tries" [--least]="natural least" [--answer]="natural answer"
  [--start-timeout]="natural start_timeout" [--patience]="natural patience" [--shell]="text shell" [--mca]="passed2 mca" [--program]="text program"
)
read_options "$@"
set -- ${rest[@]+"${rest[@]}"}
[[ $# -gt 0 && $1 != -- ]] || fail 2 "a config file is missing; see --help."
[[ -n $list ]] || fail 2 "--hosts is missing; see --help."
given=$1
shift
IFS=, read -r -a hosts <<<"$list"
check_host_names "--hosts needs names such as pi0 or pi0:2 with commas between them" "${hosts[@]}"
require_mpirun

require_room_for_mpi run_elastic "${#hosts[@]}"
config=$(readable_again "$given" "$state")
prepare_mpi
set_mpi remote_shell "$shell"

# answering: prints the hosts that answer in the order of their ranks, which is that of --hosts, but for
# this machine: mpirun begins with it. Asks all at the same time.
answering() {
  local host
  rm -f "$state"/answers.*
  for host in "${hosts[@]}"; do
    { on_host "$answer" "$shell" "${host%%:*}" sh -c 'mpirun --version; :' >"$state/said.$host" 2>/dev/null &&
      mv "$state/said.$host" "$state/answers.$host"; } 2>/dev/null &
  done
  wait
  for host in "${hosts[@]}"; do
    ! is_here "${host%%:*}" || [[ ! -e $state/answers.$host ]] || printf '%s\n' "$host"
  done
  for host in "${hosts[@]}"; do
    is_here "${host%%:*}" || [[ ! -e $state/answers.$host ]] || printf '%s\n' "$host"
  done
}

# say_absent: names the hosts that do not answer.
say_absent() {
  local host names=""
  for host in "${hosts[@]}"; do
    [[ -e $state/answers.$host ]] || names+="${names:+, }${host%%:*}"
  done
  [[ -z $names ]] || say "Left out, for they do not answer within $answer s: $names"
}

# end_shells JOB: ends what mpirun has started, which reaches other hosts for it.
end_shells() {
  local process words
  for process in /proc/[0-9]*/stat; do
    # Number, (name), state, parent.
    { read -r words <"$process"; } 2>/dev/null || continue
    [[ ! ${words##*) } =~ ^[A-Z]\ $1\  ]] || kill -TERM "${words%% *}" 2>/dev/null || true
  done
}

# limit JOB: ends mpirun if it does not start a rank, because it waits for a host whose daemon does
# not start, or if it does not end after a failure, because it may wait for a lost host.
limit() {
  local tick=0
  for (( ; tick < 2 * start_timeout; tick++)); do
    [[ ! -e $state/started && ! -e $state/failed ]] || break
    half_a_second || return
  done
  if [[ ! -e $state/started && ! -e $state/failed ]]; then
    touch "$state/stuck"
    end_shells "$1"
    end_job "$1"
    return
  fi
  until [[ -e $state/failed ]]; do half_a_second || return; done
  wait_here "$patience" || return
  end_job "$1"
}

arguments=("$@")
asked_to_resume=0
stuck_on=""
end_on_signals
for word in "$@"; do [[ $word != --resume ]] || asked_to_resume=1; done
for ((try = 1; try <= tries; try++)); do
  mapfile -t present < <(answering)
  say_absent
  [[ ${#present[@]} -ge $least && ${#present[@]} -gt 0 ]] ||
    fail 6 "${#present[@]} of ${#hosts[@]} hosts answer, at least $least are needed."
  ranks=0
  for host in "${present[@]}"; do
    require_same_mpi "${host%%:*}" "$(version_of_mpirun <"$state/answers.$host")"
    ranks=$((ranks + $(slots_of "$host")))
  done
  with=$(IFS=,; printf '%s' "${present[*]}")
  [[ $with != "$stuck_on" ]] ||
    fail 6 "mpirun started no rank on $with within $start_timeout seconds: Open MPI's daemon must start on each and write to its folder for temporary files, /tmp; see --start-timeout."
  say "Start $try of at most $tries: $ranks ranks on $with"
  mpirun=(mpirun -np "$ranks" --host "$with" --bind-to none ${mca[@]+"${mca[@]}"})
  rm -f "$state/stuck"
  code=0 after_start=limit
  start_ranks "$program" --config "$config" ${arguments[@]+"${arguments[@]}"} || code=$?
  ! is_own_code "$code" || code=6
  case $code in
    0) exit 0 ;;
    2 | 3 | 4 | 70 | 74 | 75) exit "$code" ;;
  esac
  [[ $signals_seen -eq 0 ]] || exit "$code"
  if [[ -e $state/stuck ]]; then
    say "mpirun started no rank within $start_timeout seconds"
    stuck_on=$with code=6
    continue
  fi
  say "The run ended with exit code $code"
  # With --overwrite it begins again: the checkpoints may be those of the run that is to be replaced.
  [[ $asked_to_resume -eq 1 || " ${arguments[*]-} " == *" --overwrite "* ]] || arguments+=(--resume)
  asked_to_resume=1
done
[[ $code -ne 6 || -z $stuck_on ]] || fail 6 "mpirun started no rank within $start_timeout seconds; see --start-timeout."
fail "$code" "the run failed $tries times; see --tries."
