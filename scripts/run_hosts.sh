#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs equant-train on several hosts under Open MPI and returns its exit code. Checks first that
# every host answers and has the program and the interface. With --elastic it keeps the run going:
# a host that is lost is left out, one that comes back or is new is taken in.
#
#   scripts/run_hosts.sh [options] CONFIG.json [equant-train arguments]
#   scripts/run_hosts.sh [options] -- equant-train arguments
#
#   --hosts LIST      host names with commas between them; NAME:K has K ranks
#   --hostfile FILE   instead of --hosts: a line NAME or NAME slots=K for each host
#   --elastic         keeps the run going until it is finished; see below
#   --ranks N         MPI processes, at most the ranks of all hosts [all of them]
#   --threads T       threads per rank [the program's default]
#   --interface NAME  the network to use: eth0, or 192.168.1.0/24 [all that Open MPI finds]
#   --bind WHAT       none: the system places threads [default]
#                     core: T cores of its own for each rank; needs --threads
#   --answer SECONDS  how long a host may take to answer before the start [5]
#   --silence SECONDS a host that says nothing for so long is gone; until then a cut only pauses the
#                     run [20; with --elastic, where a start costs little, 3]
#   --shell COMMAND   reaches a host, also for mpirun: COMMAND HOST WORDS... [ssh]
#   --mca KEY VALUE   passed on to mpirun; may be repeated
#   --program FILE    the executable, at the same place on every host [$EQT_PROGRAM, or
#                     build/release/equant-train]
#   --help            this text
#
#   scripts/run_hosts.sh --hosts pi0,pi1,pi2,pi3 --interface eth0 configs/quickstart.json
#   scripts/run_hosts.sh --hostfile rack --elastic configs/quickstart.json --out runs/rack
#
# Without --elastic the job ends with exit code 205 if a host is gone.
#
# With --elastic the run starts on the hosts that answer, and after a failure again, from the newest
# state. Hosts keep their state in memory every second (checkpoint.memory_seconds, unless the config or
# --set says otherwise). A file of hosts is read again while the run goes on: hosts can be added.
#
#   --no-standby      keeps no process on each host that has loaded the libraries, from which ranks start
#                     sooner; each needs some 60 MB, which its ranks share
#   --no-join         hosts that come back or are new stay out
#   --batch WHAT      all: the batch of all ranks together stays when their number changes [default]
#                     rank: each rank's batch stays; so does the learning rate
#   --least N         hosts needed; fewer are an error with exit code 6 at the first start [1]
#   --wait SECONDS    how long so many hosts are awaited at a later one [600]
#   --tries N         starts in a row of which none trains for a minute, at most [5]
#   --start-timeout SECONDS  how long mpirun may take to start the first rank [60]
#   --patience SECONDS       how long mpirun may take to end after a rank has failed [15]
#
# A start that takes too long is ended; if the same hosts answer after it, the exit code is 6. After
# exit code 2, 3, 4, 70, 74 or 75 there is no other start, unless a host has joined for it: another
# host would not help, or the run was stopped. SIGTERM and Ctrl-C end the run after a step, with its
# state saved and exit code 75. Run this on a host that stays up; it need not train.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/mpi.sh
source "$EQT_ROOT/scripts/lib/mpi.sh"
# shellcheck source=scripts/lib/hosts.sh
source "$EQT_ROOT/scripts/lib/hosts.sh"
# shellcheck source=scripts/lib/host_watch.sh
source "$EQT_ROOT/scripts/lib/host_watch.sh"
# shellcheck source=scripts/lib/elastic.sh
source "$EQT_ROOT/scripts/lib/elastic.sh"
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
elastic=0
no_join=0
no_standby=0
standby=""
batch=all
least=1
wait=600
silence=""
tries=5
start_timeout=60
patience=15
declare -A options=(
  [--elastic]="flag elastic" [--no-join]="flag no_join" [--no-standby]="flag no_standby" [--batch]="text batch" [--least]="natural least"
  [--wait]="natural wait" [--silence]="natural silence" [--tries]="natural tries"
  [--start-timeout]="natural start_timeout" [--patience]="natural patience"
  [--hosts]="text list" [--hostfile]="text hostfile" [--ranks]="natural ranks" [--threads]="natural threads"
  [--interface]="text interface" [--bind]="text bind" [--answer]="natural answer" [--shell]="text shell"
  [--mca]="passed2 mca" [--program]="text program"
)
read_options "$@"
[[ $elastic -eq 0 || ${#rest[@]} -eq 0 || ${rest[0]} != -- ]] || fail 2 "--elastic needs a config file, found --; see --help."
given=${rest[0]:-}
arguments=("${rest[@]:1}")
program_arguments
set -- "${rest[@]}"
[[ -n $list || -n $hostfile ]] || fail 2 "--hosts or --hostfile is missing; see --help."
[[ -z $list || -z $hostfile ]] || fail 2 "expected --hosts or --hostfile, found both."
[[ $bind == none || $bind == core ]] || fail 2 "--bind needs none or core, found \"$bind\"."
[[ $bind == none || -n $threads ]] || fail 2 "--bind core needs --threads: how many cores a rank gets."
[[ $batch == all || $batch == rank ]] || fail 2 "--batch needs all or rank, found \"$batch\"."
[[ $elastic -eq 0 || -z $ranks ]] || fail 2 "--elastic has as many ranks as the hosts that answer, found --ranks $ranks; leave it out."
require_mpirun

# read_hosts: sets the array `hosts`; exits with an error unless they are names, each of them once.
read_hosts() {
  [[ -z $hostfile ]] || list=$(hosts_of_file --hostfile "$hostfile")
  IFS=, read -r -a hosts <<<"$list"
  check_host_names "expected hosts such as pi0, or pi0:2 (in a file pi0 slots=2)" "${hosts[@]}"
  require_each_once "" "by NAME:K (in a file slots=K)" "${hosts[@]}"
}

# choose_mpirun RANKS LIST: sets the array `mpirun`, the command that starts RANKS on the hosts of LIST.
choose_mpirun() {
  mpirun=(mpirun -np "$1" --host "$2" ${mca[@]+"${mca[@]}"})
  if [[ $bind == core ]]; then
    mpirun+=(--map-by "slot:PE=$threads" --bind-to core)
  else
    mpirun+=(--bind-to none)
  fi
  [[ -z $threads ]] || mpirun+=(-x "OMP_NUM_THREADS=$threads")
}

read_hosts
slots=0
for host in "${hosts[@]}"; do slots=$((slots + $(slots_of "$host"))); done
ranks=${ranks:-$slots}
[[ $ranks -le $slots ]] ||
  fail 2 "expected at most $slots ranks on ${#hosts[@]} hosts, found $ranks; give hosts more of them: NAME:K, or slots=K."
# MPI's daemons ask after 2 seconds without a word, and then every second. The option goes before the environment.
probes=set_mpi
if [[ -z $silence ]]; then
  probes=default_mpi
  silence=$([[ $elastic -eq 1 ]] && echo 3 || echo 20)
fi
"$probes" keepalive_probes $((silence > 5 ? silence - 2 : 3))
prepare_mpi
set_mpi remote_shell "$shell"
[[ -z $interface ]] || set_mpi interface "$interface"

if [[ $elastic -eq 1 ]]; then
  require_room_for_mpi run_hosts "$ranks"
  config=$(readable_again "$given" "$state")
  [[ -z $threads ]] || arguments=(--set "threads_per_rank=$threads" ${arguments[@]+"${arguments[@]}"})
  run_elastically
fi

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

choose_mpirun "$ranks" "$list"
if [[ -n $threads ]]; then
  [[ $1 != -* || " $* " != *" --config"* ]] || set -- --set "threads_per_rank=$threads" "$@"
fi
require_room_for_mpi run_hosts "$ranks"
code=0
start_ranks "$program" "$@" || code=$?
# mpirun's own codes: a rank did not start, a host was lost, a host could not be reached.
case $code in
  205) fail "$code" "mpirun lost a host: it was cut off or is down; with --elastic the run goes on without it." ;;
esac
! is_own_code "$code" || fail_as_mpirun "$code"
exit "$code"
