#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs equant-train on several hosts under Open MPI and returns its exit code. Checks first that
# every host answers and has the program and the interface.
#
#   scripts/run_hosts.sh [options] CONFIG.json [equant-train arguments]
#   scripts/run_hosts.sh [options] -- equant-train arguments
#
#   --hosts LIST      host names with commas between them; NAME:K has K ranks
#   --hostfile FILE   instead of --hosts: a line NAME or NAME slots=K for each host
#   --ranks N         MPI processes, at most the ranks of all hosts [all of them]
#   --threads T       threads per rank [the program's default]
#   --interface NAME  the network to use: eth0, or 192.168.1.0/24 [all that Open MPI finds]
#   --bind WHAT       none: the system places threads [default]
#                     core: T cores of its own for each rank; needs --threads
#   --answer SECONDS  how long a host may take to answer before the start [5]
#   --shell COMMAND   reaches a host, also for mpirun: COMMAND HOST WORDS... [ssh]
#   --mca KEY VALUE   passed on to mpirun; may be repeated
#   --program FILE    the executable, at the same place on every host [$EQT_PROGRAM, or
#                     build/release/equant-train]
#   --help            this text
#
#   scripts/run_hosts.sh --hosts pi0,pi1,pi2,pi3 --interface eth0 configs/quickstart.json
#
# If a host is cut off, the job ends with exit code 205. scripts/run_elastic.sh starts it again on
# the other hosts.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/mpi.sh
source "$EQT_ROOT/scripts/lib/mpi.sh"
# shellcheck source=scripts/lib/hosts.sh
source "$EQT_ROOT/scripts/lib/hosts.sh"
end_on_signals

list=""
hostfile=""
ranks=""
threads=""
interface=""
bind=none
answer=5
shell=$(mpi_remote_shell)
program=${EQT_PROGRAM:-$EQT_DEFAULT_PROGRAM}
mca=()
declare -A options=(
  [--hosts]="text list" [--hostfile]="text hostfile" [--ranks]="natural ranks" [--threads]="natural threads"
  [--interface]="text interface" [--bind]="text bind" [--answer]="natural answer" [--shell]="text shell"
  [--mca]="passed2 mca" [--program]="text program"
)
read_options "$@"
program_arguments
set -- "${rest[@]}"
[[ -n $list || -n $hostfile ]] || fail 2 "--hosts or --hostfile is missing; see --help."
[[ -z $list || -z $hostfile ]] || fail 2 "expected --hosts or --hostfile, found both."
[[ $bind == none || $bind == core ]] || fail 2 "--bind needs none or core, found \"$bind\"."
[[ $bind == none || -n $threads ]] || fail 2 "--bind core needs --threads: how many cores a rank gets."
require_mpirun

[[ -z $hostfile ]] || list=$(hosts_of_file --hostfile "$hostfile")
IFS=, read -r -a hosts <<<"$list"
check_host_names "expected hosts such as pi0, or pi0:2 (in a file pi0 slots=2)" "${hosts[@]}"
slots=0
for host in "${hosts[@]}"; do slots=$((slots + $(slots_of "$host"))); done
ranks=${ranks:-$slots}
[[ $ranks -le $slots ]] ||
  fail 2 "expected at most $slots ranks on ${#hosts[@]} hosts, found $ranks; give hosts more of them: NAME:K, or slots=K."

# on HOST WORDS...: runs WORDS there, within the time that a host may take.
on() { on_host "$answer" "$shell" "$@"; }

for host in "${hosts[@]%%:*}"; do
  on "$host" true >/dev/null 2>&1 ||
    fail 6 "host $host does not answer to \"$shell $host true\" within $answer s; check its name, that it is up, and that it lets you in without a password."
  on "$host" test -x "$program" >/dev/null 2>&1 ||
    fail 2 "host $host has no executable $program; build, install or copy it there, or name it with --program."
  require_same_mpi "$host" "$(on "$host" mpirun --version 2>/dev/null | version_of_mpirun)"
  if [[ $bind == core ]]; then
    has=$(on "$host" nproc 2>/dev/null || echo 0)
    require_number "$host" "its cores, of nproc" "$has"
    [[ $has -ge $threads ]] || fail 2 "host $host has $has cores, fewer than a rank's --threads $threads; use fewer, or --bind none."
  fi
  if [[ -n $interface && $interface != */* ]]; then
    on "$host" test -e "/sys/class/net/$interface" >/dev/null 2>&1 ||
      fail 2 "host $host has no network interface $interface, but $(on "$host" ls /sys/class/net 2>/dev/null | paste -sd' '); see --interface."
  fi
done

prepare_mpi
set_mpi remote_shell "$shell"
[[ -z $interface ]] || set_mpi interface "$interface"
mpirun=(mpirun -np "$ranks" --host "$list" ${mca[@]+"${mca[@]}"})
if [[ $bind == core ]]; then
  mpirun+=(--map-by "slot:PE=$threads" --bind-to core)
else
  mpirun+=(--bind-to none)
fi
if [[ -n $threads ]]; then
  mpirun+=(-x "OMP_NUM_THREADS=$threads")
  [[ $1 != -* || " $* " != *" --config"* ]] || set -- --set "threads_per_rank=$threads" "$@"
fi
require_room_for_mpi run_hosts "$ranks"
code=0
start_ranks "$program" "$@" || code=$?
# mpirun's own codes: a rank did not start, a host was lost, a host could not be reached.
case $code in
  205) fail "$code" "mpirun lost a host: it was cut off or is down; scripts/run_elastic.sh continues without it." ;;
esac
! is_own_code "$code" || fail_as_mpirun "$code"
exit "$code"
