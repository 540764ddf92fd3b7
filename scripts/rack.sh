#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a file of hosts to a finished run: checks the hosts, installs packages, copies the config and
# the data, measures the links, trains, and fetches the results. What is done already is left alone.
#
#   scripts/rack.sh [options] HOSTS CONFIG.json [equant-train arguments]
#
#   HOSTS             a file with a line NAME or NAME slots=K for each host, # before comments
#   --only PHASE      one of check, install, copy, doctor, run, collect [all, in this order]
#   --deb FILE        a package to install; repeat it for each name and each architecture
#   --data FOLDER     a folder to copy to the same path on every host, which data.path then names
#                     [data stay where they are]
#   --interface NAME  the network to use: eth0, or 192.168.1.0/24 [all that Open MPI finds]
#   --leave-out       go on without hosts that do not answer
#   --least N         but only if so many answer; fewer are an error with exit code 6 [1]
#   --answer SECONDS  how long a host may take to answer [5]
#   --shell COMMAND   reaches a host, also for mpirun: COMMAND HOST WORDS... [ssh]
#   --program FILE    the executable, at the same place on every host [/usr/bin/equant-train]
#   --help            this text
#
#   scripts/rack.sh --deb equant-train_0.2.0-1_arm64.deb --interface eth0 hosts configs/quickstart.json
#
#   check    a line for each host: architecture, Debian, memory, disk, clock, address, versions
#   install  packages whose version is another one there; needs root or sudo without a password
#   copy     CONFIG, and with --data the data, with rsync
#   doctor   each host's speed, and what "equant-train doctor" recommends, measured over the links
#   run      under run_hosts.sh --elastic, in the folder of --out [runs/ and CONFIG's name]; a run that was
#            stopped continues, a finished one is not repeated; SIGTERM and Ctrl-C end it after a
#            step, with its state saved and exit code 75
#   collect  the run folders of all hosts into the same folder here
#
# Only this machine needs to reach the others; it needs mpirun, and need not train.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/mpi.sh
source "$EQT_ROOT/scripts/lib/mpi.sh"
# shellcheck source=scripts/lib/hosts.sh
source "$EQT_ROOT/scripts/lib/hosts.sh"
# shellcheck source=scripts/lib/rack_hosts.sh
source "$EQT_ROOT/scripts/lib/rack_hosts.sh"
# shellcheck source=scripts/lib/rack_phases.sh
source "$EQT_ROOT/scripts/lib/rack_phases.sh"

only=""
debs=()
data=""
interface=""
leave_out=0
least=1
answer=5
shell=$(mpi_remote_shell)
program=/usr/bin/equant-train
declare -A options=(
  [--only]="text only" [--deb]="list debs" [--data]="text data" [--interface]="text interface"
  [--leave-out]="flag leave_out" [--least]="natural least" [--answer]="natural answer" [--shell]="text shell" [--program]="text program"
)
read_options "$@"
set -- ${rest[@]+"${rest[@]}"}
[[ $# -ge 1 && $1 != -- ]] || fail 2 "a file of hosts is missing; see --help."
[[ $# -ge 2 ]] || fail 2 "a config file is missing after the file of hosts; see --help."
case $only in
  "") phases=(check install copy doctor run collect) ;;
  check | install | copy | doctor | run | collect) phases=("$only") ;;
  *) fail 2 "--only needs check, install, copy, doctor, run or collect, found \"$only\"." ;;
esac
list=$(hosts_of_file HOSTS "$1")
# The run reads a file again, for hosts that are added.
all_hosts=(--hosts "$list")
[[ ! -f $1 ]] || all_hosts=(--hostfile "$(realpath -- "$1")")
IFS=, read -r -a hosts <<<"$list"
check_host_names "expected lines such as pi0, or pi0 slots=2, in $1" "${hosts[@]}"
require_each_once " in $1" "with slots=K" "${hosts[@]}"
[[ -f $2 && -r $2 ]] || fail 2 "expected a readable config file, found none at $2."
config=$(realpath -- "$2")
[[ -z $data || -d $data ]] || fail 2 "--data: expected a folder, found none at $data."
[[ -z $data ]] || data=$(realpath -- "$data")
shift 2
name=$(basename "$config" .json)
out=runs/$name
arguments=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --out) value_of "$1" $#; out=$2; shift 2 ;;
    --out=*) out=${1#--out=}; shift ;;
    *) arguments+=("$1"); shift ;;
  esac
done
out=$(realpath -m -- "$out")
[[ -z $data ]] || arguments=(--set "data.path=$data" ${arguments[@]+"${arguments[@]}"})
for deb in ${debs[@]+"${debs[@]}"}; do
  dpkg-deb --field "$deb" Package >/dev/null 2>&1 || fail 2 "--deb: expected a Debian package, found none at $deb."
done

require_mpirun
# mpirun reaches every host from here: they need no keys of each other.
set_mpi each_from_here 1
require_room_for_mpi rack "${#hosts[@]}"

probe_hosts
for phase in "${phases[@]}"; do
  case $phase in copy | collect) need_rsync ;; esac
  "phase_$phase"
done
