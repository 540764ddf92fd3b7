# SPDX-License-Identifier: Apache-2.0
# What scripts/rack.sh asks of its hosts, and what it requires of them.
# shellcheck shell=bash
# shellcheck disable=SC2154  # hosts, shell, answer, program, state, ... come from rack.sh

# probe_text: the question to each host; the answer has lines KEY=VALUE.
probe_text() {
  printf 'program=%s\n' "$(quoted "$program")"
  cat <<'SH'
PATH=$PATH:/usr/sbin:/sbin
echo "architecture=$(dpkg --print-architecture 2>/dev/null || uname -m)"
echo "debian=$(cat /etc/debian_version 2>/dev/null)"
echo "memory=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)"
echo "free=$(df -B1 --output=avail / | tail -n 1 | tr -d ' ')"
set -- $SSH_CONNECTION
echo "address=$3"
[ -z "$3" ] || echo "interface=$(ip -o address show to "$3" 2>/dev/null | awk '{ print $2; exit }')"
echo "interfaces=$(ls /sys/class/net | tr '\n' ' ')"
echo "mpi=$(mpirun --version 2>/dev/null | sed -n '1s/.* //p')"
echo "rsync=$(command -v rsync)"
[ ! -e "$program" ] || echo "there=1"
echo "version=$("$program" --version 2>/dev/null | sed -n '1s/^[^ ]* //p')"
if [ "$(id -u)" = 0 ]; then echo root=yes; elif sudo -n true 2>/dev/null; then echo root=sudo; else echo root=no; fi
echo end=1
SH
}

# probe HOST: writes its answers, and the times before and after the first one, into $state. On a busy
# board the other answers take longer than --answer allows: a program with LibTorch is started for its version.
probe() {
  local file=$state/$1
  date +%s.%N >"$file.before"
  # shellcheck disable=SC2016  # the host expands it
  ask "$answer" "$1" 'echo "now=$(date +%s.%N)"' </dev/null >"$file.said" 2>"$file.error" || return 0
  date +%s.%N >"$file.after"
  ask $((answer + 60)) "$1" "$(probe_text)" </dev/null >>"$file.said" 2>"$file.error" || true
}

# found HOST KEY: prints that part of its answer, in one line.
found() { sed -n "/^$2=/{s///p;q}" "$state/$1.said"; }

# probe_hosts: asks all hosts at the same time. Hosts that do not answer end the script, or are left
# out of `hosts`. Sets `names`, the hosts without their ranks.
probe_hosts() {
  local host said present=()
  for host in "${hosts[@]%%:*}"; do probe "$host" & done
  wait
  for host in "${hosts[@]}"; do
    if [[ $(found "${host%%:*}" end) == 1 ]]; then
      present+=("$host")
      continue
    fi
    said=$(grep -v '^[[:space:]]*$' "$state/${host%%:*}.error" | tail -n 1 | tr -d '\r' || true)
    said="host ${host%%:*} does not answer to \"$shell ${host%%:*} true\" within $answer s${said:+ ($said)}"
    [[ $leave_out -eq 1 ]] ||
      fail 6 "$said; check its name, that it is up, and that it lets you in without a password, or leave it out with --leave-out."
    say "$said; it is left out"
  done
  [[ ${#present[@]} -gt 0 ]] || fail 6 "none of the ${#hosts[@]} hosts answers."
  [[ ${#present[@]} -ge $least ]] ||
    fail 6 "${#present[@]} of ${#hosts[@]} hosts answer, at least $least are needed; see --least."
  hosts=("${present[@]}")
  names=("${hosts[@]%%:*}")
  # shellcheck disable=SC2034  # rack_phases.sh reads it
  list=$(IFS=,; printf '%s' "${hosts[*]}")
}

# clock_difference HOST: prints the seconds by which its clock is ahead of this one's, 0.0 if its
# answer fits into the time of the question.
clock_difference() {
  awk -v before="$(<"$state/$1.before")" -v after="$(<"$state/$1.after")" -v now="$(found "$1" now)" 'BEGIN {
    printf "%+.1f", (now < before ? now - before : (now > after ? now - after : 0))
  }'
}

gigabytes() { awk -v bytes="$1" 'BEGIN { printf "%.1f GB", bytes / 1e9 }'; }

# deb_for NAME ARCHITECTURE: prints the file among --deb that has this package for this architecture.
deb_for() {
  local deb
  for deb in ${debs[@]+"${debs[@]}"}; do
    [[ $(dpkg-deb --field "$deb" Package) == "$1" ]] || continue
    case $(dpkg-deb --field "$deb" Architecture) in "$2" | all) printf '%s\n' "$deb"; return ;; esac
  done
}

# require_room HOST FREE BYTES WHERE WHAT: exits with an error unless the host's answer FREE is a number of at least BYTES.
require_room() {
  require_number "$1" "the bytes free at $4" "$2"
  [[ $2 -ge $3 ]] || fail 74 "host $1 has $2 bytes free at $4, $5 needs $3; make room there, or leave the host out of the file."
}

require_interface() {
  local host
  [[ -n $interface && $interface != */* ]] || return 0
  for host in "${names[@]}"; do
    [[ " $(found "$host" interfaces)" == *" $interface "* ]] ||
      fail 2 "host $host has no network interface $interface, but $(found "$host" interfaces); see --interface."
  done
}

# require_one_mpi: hosts that have MPI have the version of this machine.
require_one_mpi() {
  local host
  for host in "${names[@]}"; do require_same_mpi "$host" "$(found "$host" mpi)"; done
}

# require_ready: every host has Open MPI and the same version of the program.
require_ready() {
  local host version first=""
  require_one_mpi
  for host in "${names[@]}"; do
    [[ -n $(found "$host" mpi) ]] || fail 6 "host $host has no mpirun: install Debian's openmpi-bin there."
    [[ -n $(found "$host" there) ]] ||
      fail 2 "host $host has no executable $program; give its package ($(found "$host" architecture)) with --deb, or name it with --program."
    version=$(found "$host" version)
    [[ -n $version ]] || fail 2 "host $host: $program --version fails; run it there to see why, or install its package with --deb."
    first=${first:-$version}
    [[ $version == "$first" ]] ||
      fail 2 "expected the same equant-train on every host, found $first on ${names[0]} and $version on $host; install one version with --deb."
  done
}

need_rsync() {
  local host
  command -v rsync >/dev/null || fail 2 "rsync was not found here: install Debian's rsync."
  for host in "${names[@]}"; do
    [[ -n $(found "$host" rsync) ]] || fail 2 "host $host has no rsync: run \"apt-get install rsync\" there."
  done
}
