#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several boards on one machine: runs CMD under mpirun, every rank on its own host behind a link of
# limited rate, prints each link's traffic, and returns CMD's exit code.
#
#   scripts/netlab.sh [options] -- CMD...
#
#   --ranks N            MPI processes [2]
#   --ranks-per-host K   ranks that share a host, its memory and its link [1]
#   --rate RATE          what a host may send, and what it may receive, per second: 100mbit,
#                        2.5gbit, ..., or unlimited [100mbit]
#   --rate-of RANK=RATE  another rate for that rank's host; may be repeated
#   --change SECONDS:RATE  from so many seconds after CMD's start on, every host's link has this
#                        rate; may be repeated, in the order of time; all rates must be numbers
#   --burst BYTES        what an idle link passes at once, before the rate applies: a number, or
#                        32k, 1m [4k up to 50 Mb/s, 8k up to 200, 32k up to 1000, 96k above: the
#                        smallest that reach the rate while both cores compute]
#   --latency TIME       the longest wait in a link's queue; later packets are dropped [200ms]
#   --loss PERCENT       how many of the packets that a host receives are lost, at random: 1, 0.5
#                        (needs nft) [none]
#   --cores SHARE        how much of a core the processes of each host get: 0.5, 1, 2 (needs root and the kernel's
#                        control group "cpu") [no limit]
#   --mca KEY VALUE      passed on to mpirun; may be repeated
#   --no-mpi             start CMD once per rank without mpirun; RANK, WORLD_SIZE, LOCAL_RANK,
#                        MASTER_ADDR and MASTER_PORT tell it where it is
#   --once               start CMD once, on host 0, ready to call mpirun itself: NETLAB_HOSTS has the
#                        hosts' names with commas between them
#   --cut HOST=SECONDS[-UNTIL]
#                        takes the link of that host (0, 1, ...) down that long after the start, and
#                        up again UNTIL seconds after the start
#   --counters FILE      the links' counters as JSON lines into FILE, not as a table on stderr
#   --timeout S          end everything after S seconds with exit code 124 [never]
#   --check              build one, run nothing: exit code 0, or 1 and an error
#   --help               this text
#
#   scripts/netlab.sh --ranks 4 --rate 100mbit -- build/release/equant-train --config FILE
#   scripts/netlab.sh --no-mpi -- sh -c 'if [ "$RANK" = 0 ]; then iperf3 -s -1;
#     else sleep 1; iperf3 -c "$MASTER_ADDR" --bidir; fi'
#
# SIGUSR1 is passed on, so that a run saves its state; SIGTERM and Ctrl-C end everything.
# Hosts are called board0, board1, ... and have the addresses 10.77.0.1, 10.77.0.2, ... on eth0.
# Everything is in separate namespaces, so several laboratories can run at the same time, and the
# kernel removes all of one when this script ends, even by kill -9. Needs root, or a kernel that
# lets users make namespaces. Each laboratory has its own /dev/shm. CMD finds what the links are in
# EQT_LABORATORY, which equant-train copies into the run's records.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/mpi.sh
source "$EQT_ROOT/scripts/lib/mpi.sh"
trap 'exit 75' USR1  # until something runs that could be asked

ranks=2
per_host=1
rate=100mbit
burst=""
latency=200ms
no_mpi=0
once=0
loss=""
share=""
cut=""
cut_host=""
cut_after=""
cut_until=""
counters=""
seconds=""
only_check=0
rates_of=()
changes=()
mca=()

valid_rate() {
  [[ $2 == unlimited || $2 =~ ^[0-9]*[1-9][0-9]*(\.[0-9]+)?[kmg]?bit$ ]] ||
    fail 2 "$1 needs a rate such as 100mbit or 2.5gbit, or unlimited, found \"$2\"."
}

# bytes TEXT: prints 1500, 32k, 1m as a number, or nothing.
bytes() {
  local unit=1
  [[ $1 =~ ^([1-9][0-9]{0,9})([km]?)b?$ ]] || return 0
  case ${BASH_REMATCH[2]} in k) unit=1024 ;; m) unit=1048576 ;; esac
  echo $((BASH_REMATCH[1] * unit))
}

# bits RATE: prints bits per second as a whole number; nothing for "unlimited".
bits() {
  awk -v rate="$1" 'BEGIN {
    if (rate !~ /bit$/) exit
    unit = substr(rate, length(rate) - 3, 1)
    printf "%.0f", rate * (unit == "g" ? 1e9 : unit == "m" ? 1e6 : unit == "k" ? 1e3 : 1)
  }'
}

# burst_for RATE: prints the bytes of its token bucket; 0 for unlimited. A bucket holds a batch of
# packets and the bytes that become due while a timer is late, some 150 us.
burst_for() {
  local rate
  rate=$(bits "$1")
  if [[ -z $rate ]]; then
    echo 0
  elif [[ -n $burst ]]; then
    bytes "$burst"
  elif [[ $rate -le 50000000 ]]; then
    echo 4096
  elif [[ $rate -le 200000000 ]]; then
    echo 8192
  elif [[ $rate -le 1000000000 ]]; then
    echo 32768
  else
    echo 98304
  fi
}

# make_groups: makes a control group for each host that limits its processes to the share, and prints their folder.
make_groups() {
  local root=/sys/fs/cgroup period=10000 quota file folder host
  quota=$(awk -v share="$share" -v period=$period 'BEGIN { printf "%d", share * period }')
  if [[ -e $root/cgroup.controllers ]]; then
    file=cpu.max
    echo +cpu >"$root/cgroup.subtree_control" || true  # it may be so already; without it the limit below fails
  else
    root+=/cpu file=cpu.cfs_quota_us
  fi 2>/dev/null
  folder=$(mktemp -d "$root/netlab.XXXXXX" 2>/dev/null) ||
    fail 1 "--cores needs the control group \"cpu\" of the kernel, which $root does not let this user make: run as root."
  for ((host = 0; host < hosts; host++)); do
    if ! {
      [[ $file != cpu.max ]] || echo +cpu >"$folder/cgroup.subtree_control"
      mkdir "$folder/board$host"
      if [[ $file == cpu.max ]]; then
        echo "$quota $period" >"$folder/board$host/$file"
      else
        echo $period >"$folder/board$host/cpu.cfs_period_us"
        echo "$quota" >"$folder/board$host/$file"
      fi
    } 2>/dev/null; then
      rmdir "$folder"/board* "$folder" 2>/dev/null || true
      fail 1 "--cores $share was refused by the kernel in $folder/board$host/$file: run where control groups may be made."
    fi
  done
  printf '%s\n' "$folder"
}

inside=0
groups=""  # the folder of the hosts' control groups
if [[ ${1:-} == --inside ]]; then
  inside=1
  groups=$2
  shift 2
fi
arguments=("$@")
declare -A options=(
  [--ranks]="natural ranks" [--ranks-per-host]="natural per_host" [--rate]="text rate"
  [--rate-of]="list rates_of" [--change]="list changes" [--burst]="text burst" [--latency]="text latency" [--mca]="passed2 mca"
  [--no-mpi]="flag no_mpi" [--once]="flag once" [--cut]="text cut" [--loss]="text loss" [--cores]="text share" [--counters]="text counters"
  [--timeout]="natural seconds" [--check]="flag only_check"
)
read_options "$@"
set -- ${rest[@]+"${rest[@]}"}
if [[ ${1:-} == -- ]]; then
  shift
elif [[ $# -gt 0 ]]; then
  fail 2 "unknown argument \"$1\"; the command comes after --."
fi
[[ $# -gt 0 || $only_check -eq 1 ]] || fail 2 "-- and a command are missing; see --help."
valid_rate --rate "$rate"
for entry in ${rates_of[@]+"${rates_of[@]}"}; do
  [[ $entry =~ ^(0|[1-9][0-9]*)=(.+)$ ]] || fail 2 "--rate-of needs RANK=RATE, found \"$entry\"."
  valid_rate --rate-of "${BASH_REMATCH[2]}"
done
last_change=0
for entry in ${changes[@]+"${changes[@]}"}; do
  [[ $entry =~ ^([0-9]{1,6}(\.[0-9]{1,3})?):(.+)$ ]] ||
    fail 2 "--change needs SECONDS:RATE such as 60:10mbit, found \"$entry\"."
  valid_rate --change "${BASH_REMATCH[3]}"
  [[ $entry != *unlimited && "$rate ${rates_of[*]-}" != *unlimited* ]] ||
    fail 2 "--change needs numbers in --rate, --rate-of and --change, found unlimited."
  awk -v a="$last_change" -v b="${entry%%:*}" 'BEGIN { exit !(a < b) }' ||
    fail 2 "--change $entry does not come after $last_change seconds; give changes in the order of time."
  last_change=${entry%%:*}
done
if [[ -n $loss ]]; then
  [[ $loss =~ ^[0-9]{1,2}(\.[0-9]{1,2})?$ ]] || fail 2 "--loss needs a percentage such as 1 or 0.5, found \"$loss\"."
  command -v nft >/dev/null || fail 1 "--loss needs nft: install Debian's nftables."
fi
if [[ -n $share ]]; then
  [[ $share =~ ^([1-9][0-9]{0,2}(\.[0-9]{1,2})?|0\.[0-9]{1,2})$ && $share =~ [1-9] ]] ||
    fail 2 "--cores needs a share of a core such as 0.5, or several such as 2, found \"$share\"."
fi
if [[ -n $cut ]]; then
  [[ $cut =~ ^([0-9]+)=([1-9][0-9]{0,5})(-([1-9][0-9]{0,5}))?$ ]] || fail 2 "--cut needs HOST=SECONDS or HOST=SECONDS-UNTIL, found \"$cut\"."
  cut_host=${BASH_REMATCH[1]} cut_after=${BASH_REMATCH[2]} cut_until=${BASH_REMATCH[4]}
  [[ -z $cut_until || $cut_until -gt $cut_after ]] || fail 2 "--cut needs an end after its beginning, found \"$cut\"."
fi
hosts=$(((ranks + per_host - 1) / per_host))
[[ $hosts -le 250 ]] || fail 2 "--ranks $ranks makes $hosts hosts; there are addresses for 250."
require_few "$ranks"
[[ -z $cut_host || $cut_host -lt $hosts ]] ||
  fail 2 "--cut $cut_host names a host that is not there; hosts are 0 to $((hosts - 1))."
[[ -z $burst || $(bytes "$burst") -ge 1600 ]] ||
  fail 2 "--burst needs a number of bytes that holds a packet (at least 1600), found \"$burst\"."
[[ $latency =~ ^[1-9][0-9]*(us|ms|s)$ ]] ||
  fail 2 "--latency needs a time such as 200ms, found \"$latency\"."
host_rates=()
for ((host = 0; host < hosts; host++)); do host_rates+=("$rate"); done
for entry in ${rates_of[@]+"${rates_of[@]}"}; do
  [[ ${entry%%=*} -lt $ranks ]] ||
    fail 2 "--rate-of $entry names a rank that is not there; ranks are 0 to $((ranks - 1))."
  host_rates[${entry%%=*} / per_host]=${entry#*=}
done
host_bursts=()
for ((host = 0; host < hosts; host++)); do host_bursts+=("$(burst_for "${host_rates[host]}")"); done
change_bursts=()
for entry in ${changes[@]+"${changes[@]}"}; do change_bursts+=("$(burst_for "${entry#*:}")"); done

if [[ $inside -eq 1 ]]; then
  # shellcheck source=scripts/lib/netlab_inside.sh
  source "$EQT_ROOT/scripts/lib/netlab_inside.sh"
  run_laboratory "$@"
fi

for tool in ip tc unshare nsenter setpriv mount hostname; do
  command -v "$tool" >/dev/null || PATH=$PATH:/usr/sbin:/sbin
  command -v "$tool" >/dev/null ||
    fail 1 "$tool was not found: install Debian's iproute2, util-linux, mount and hostname."
done
if [[ $no_mpi -eq 0 && $only_check -eq 0 ]]; then
  require_mpirun
  require_files "$ranks"
fi
if [[ -n $counters ]]; then
  { exec 3>"$counters"; } 2>/dev/null || fail 74 "--counters: $counters cannot be written."
fi

# pdeathsig and kill-child: if this script is killed, the first process inside is killed, too, and
# the kernel then removes every process and link.
enter=(setpriv --pdeathsig KILL
  unshare --mount --net --pid --fork --kill-child=KILL --mount-proc)
if ! "${enter[@]}" true 2>/dev/null; then
  enter=(unshare --user --map-root-user "${enter[@]}")
  "${enter[@]}" true 2>/dev/null ||
    fail 1 "the kernel refuses new network, mount and process namespaces here: run as root (in a" \
      "container with --privileged), or allow users to (sysctl kernel.unprivileged_userns_clone=1)."
fi

if [[ -n $share ]]; then
  groups=$(make_groups) || exit
  trap 'rmdir "$groups"/* "$groups" 2>/dev/null || true' EXIT  # empty by then; what kill -9 leaves uses nothing
fi
"${enter[@]}" bash "${BASH_SOURCE[0]}" --inside "$groups" "${arguments[@]}" <&0 &
laboratory=$!
signalled=""

# first_inside: prints the number that the first process inside has here.
first_inside() {
  local first=""
  { read -r first _ <"/proc/$laboratory/task/$laboratory/children"; } 2>/dev/null || true
  printf '%s\n' "${first:-$laboratory}"
}

# end_on CODE: asks the first process inside to finish, and kills it after 10 seconds.
end_on() {
  local tick
  trap '' INT TERM HUP
  signalled=$1
  kill -TERM "$(first_inside)" 2>/dev/null || true
  for ((tick = 0; tick < 100; tick++)); do
    kill -0 "$laboratory" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -KILL "$laboratory" 2>/dev/null || true
}
trap 'end_on 129' HUP
trap 'end_on 130' INT
trap 'end_on 143' TERM
# ask_again: the kernel keeps signals from the first process inside until it expects them, but not from the one that
# starts it.
ask_again() {
  local first
  while kill -0 "$laboratory"; do
    first=$(first_inside)
    [[ $first == "$laboratory" ]] || kill -USR1 "$first" || true
    sleep 1
  done
}

asked=0
trap 'asked=$((asked + 1)); [[ $asked -gt 1 ]] || ask_again >/dev/null 2>&1 3>&- & ' USR1
while :; do
  before=$asked code=0
  wait "$laboratory" || code=$?
  # A signal ends only `wait`, not the laboratory.
  [[ $asked -ne $before ]] || break
done
exit "${signalled:-$code}"
