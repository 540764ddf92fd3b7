# SPDX-License-Identifier: Apache-2.0
# The inside of scripts/netlab.sh, which sources it as the first process of fresh mount, network
# and process namespaces and has set the variables that its options name. This network namespace is
# the switch; every host has its own network namespace and host name.
# shellcheck shell=bash
# shellcheck disable=SC2154  # ranks, per_host, hosts, host_rates, host_bursts, change_bursts, ... come from netlab.sh

state=/dev/shm/netlab
started=()
filter=""

# must WHAT COMMAND...: exits with an error if COMMAND fails.
must() {
  local what=$1 said
  shift
  said=$("$@" 2>&1) || fail 1 "could not $what: ${said//$'\n'/ } (\"$*\")."
}

# on HOST COMMAND...: runs COMMAND on that host.
on() { (exec_on "$@"); }
exec_on() {
  local host=$1
  shift
  [[ -z $groups ]] || echo "$BASHPID" >"$groups/board$host/cgroup.procs"
  exec nsenter --net="$state/board$host.net" --uts="$state/board$host.uts" -- "$@"
}

# limit RATE BURST COMMAND...: limits the device that COMMAND's tc configures to RATE.
limit() {
  local rate=$1 burst_bytes=$2
  shift 2
  if [[ $rate == unlimited ]]; then
    must "watch a link" "$@" root pfifo limit 10000
  else
    must "shape a link (the kernel needs sch_tbf)" \
      "$@" root tbf rate "$rate" burst "$burst_bytes" latency "$latency"
  fi
}

add_host() {
  local host=$1 rate=$2 burst=$3 net="$state/board$1.net" uts="$state/board$1.uts"
  local smallest later
  touch "$net" "$uts"
  must "make a host" unshare --net="$net" --uts="$uts" \
    hostname "board$host"
  must "make a link" ip link add "port$host" type veth peer name eth0 netns "$net"
  must "join a link to the bridge" ip link set "port$host" master switch up
  on "$host" sh -c 'echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
    cd /proc/sys/net/ipv4
    echo cubic >tcp_congestion_control || echo reno >tcp_congestion_control' 2>/dev/null || true
  must "give a host its address" on "$host" sh -c "ip link set lo up &&
    ip address add 10.77.0.$((host + 1))/24 dev eth0 && ip link set eth0 up"
  # The kernel hands over batches of packets, up to 64 KiB. If the shaper must cut a batch, each of
  # its packets takes a timer on the cores that should compute, so batches are made to fit into the
  # bucket, and into those of later rates.
  smallest=$burst
  for later in ${change_bursts[@]+"${change_bursts[@]}"}; do
    [[ $later -ge $smallest ]] || smallest=$later
  done
  if [[ $smallest -gt 0 && $smallest -lt 65536 ]]; then
    must "limit batches of packets" ip link set "port$host" gso_max_size $((smallest * 3 / 4))
    must "limit batches of packets" on "$host" ip link set eth0 gso_max_size $((smallest * 3 / 4))
  fi
  limit "$rate" "$burst" on "$host" tc qdisc add dev eth0
  limit "$rate" "$burst" tc qdisc add dev "port$host"
  [[ -z $loss ]] || lose_packets "$host"
  echo "10.77.0.$((host + 1)) board$host" >>"$state/hosts"
}

# lose_packets HOST: the host drops that share of what it receives. Batches would be lost as a whole, so there are none.
lose_packets() {
  local share
  share=$(awk -v percent="$loss" 'BEGIN { printf "%d", 100 * percent + 0.5 }')
  must "send single packets" ip link set "port$1" gso_max_segs 1
  must "send single packets" on "$1" ip link set eth0 gso_max_segs 1
  must "lose packets (the kernel needs nf_tables)" on "$1" nft "table ip netlab {
    chain lossy { type filter hook input priority 0; iifname \"eth0\" numgen random mod 10000 < $share drop; }
  }"
}

# change_rates SECONDS:RATE BURST: changes every link that long after the start.
change_rates() {
  local host
  sleep "${1%%:*}"
  for ((host = 0; host < hosts; host++)); do
    limit "${1#*:}" "$2" on "$host" tc qdisc change dev eth0
    limit "${1#*:}" "$2" tc qdisc change dev "port$host"
  done
}

# laboratory_text: what the links are, in one line.
laboratory_text() {
  local text
  text="hosts=$hosts ranks_per_host=$per_host rates=$(IFS=,; echo "${host_rates[*]}")"
  text+=" queue=$latency"
  [[ -z $loss ]] || text+=" loss=$loss%"
  [[ -z $share ]] || text+=" cores=$share"
  [[ ${#changes[@]} -eq 0 ]] || text+=" changes=$(IFS=,; echo "${changes[*]}")"
  echo "$text"
}

# Makes the host names and the links.
build_laboratory() {
  local host
  must "mount a memory file system on /dev/shm" mount -t tmpfs -o mode=1777 netlab /dev/shm
  mkdir "$state"
  echo "127.0.0.1 localhost" >"$state/hosts"
  echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6 2>/dev/null || true
  echo 0 >/proc/sys/net/bridge/bridge-nf-call-iptables 2>/dev/null || true
  must "make a bridge" ip link add switch type bridge stp_state 0 forward_delay 0 mcast_snooping 0
  must "start the bridge" ip link set switch up
  for ((host = 0; host < hosts; host++)); do add_host "$host" "${host_rates[host]}" "${host_bursts[host]}"; done
  must "name the hosts in /etc/hosts" mount --bind "$state/hosts" /etc/hosts
  cat >"$state/agent" <<SH
#!/bin/sh
host=\$1
shift
[ ! -e $state/\$host.cut ] || { echo "\$host cannot be reached" >&2; exit 255; }
[ -z "$groups" ] || echo \$\$ >"$groups/\$host/cgroup.procs"
case "\$*" in *rted*) ;; *) echo \$\$ >>"$state/\$host.shells" ;; esac
exec nsenter --net="$state/\$host.net" --uts="$state/\$host.uts" -- sh -c "\$*"
SH
  chmod +x "$state/agent"
}

# shaped COMMAND...: "bytes packets dropped" of the shaper that COMMAND shows. A shaper counts a
# header for every packet, as on a wire; a device counts one for a whole batch.
shaped() { "$@" 2>/dev/null | awk '$1 == "Sent" { sub(",", "", $7); print $2, $4, $7; exit }'; }

# link_counters HOST: ten numbers. The device's bytes sent and received (the switch's end of a link
# has received what the host sent), then the shapers' bytes, packets and drops, sent and received.
link_counters() {
  awk -v port="port$1:" '{ sub(":", ": ") } $1 == port { printf "%d %d ", $2, $10 }' /proc/net/dev
  shaped on "$1" tc -s qdisc show dev eth0 | tr '\n' ' '
  shaped tc -s qdisc show dev "port$1"
}

# shellcheck disable=SC2059  # the formats are in one place
print_counters() {
  local host first last row tcp
  local text='%-9s %-7s %-9s %-7s %13s %13s %13s %13s %9s %9s %8s\n'
  local json='{"host": "board%d", "ranks": [%d, %d], "rate": "%s", "burst_bytes": %d, "tcp": "%s"'
  json+=', "sent_bytes": %d, "received_bytes": %d'
  json+=', "sent_wire_bytes": %d, "sent_packets": %d, "sent_dropped": %d'
  json+=', "received_wire_bytes": %d, "received_packets": %d, "received_dropped": %d}\n'
  [[ -n $counters ]] || printf "$text" host ranks rate burst "bytes sent" "received" "on wire sent" \
    received "packets" received dropped >&2
  for ((host = 0; host < hosts; host++)); do
    first=$((host * per_host))
    last=$((first + per_host < ranks ? first + per_host - 1 : ranks - 1))
    read -r -a row < <(link_counters "$host")
    if [[ -n $counters ]]; then
      read -r tcp < <(on "$host" cat /proc/sys/net/ipv4/tcp_congestion_control)
      printf "$json" "$host" "$first" "$last" "${host_rates[host]}" "${host_bursts[host]}" "$tcp" \
        "${row[@]}" >&3
    else
      printf "$text" "board$host" "$first-$last" "${host_rates[host]}" "${host_bursts[host]}" \
        "${row[@]:0:3}" "${row[5]}" "${row[3]}" "${row[6]}" "$((row[4] + row[7]))" >&2
    fi
  done
}

# end_with CODE: gives running processes 3 seconds to finish; the kernel ends the rest.
end_with() {
  local process tick=0
  trap '' TERM USR1 ALRM
  kill -TERM ${started[@]+"${started[@]}"} 2>/dev/null || true
  for process in ${started[@]+"${started[@]}"} $filter; do
    for (( ; tick < 60; tick++)); do
      kill -0 "$process" 2>/dev/null || break
      sleep 0.05
    done
  done
  print_counters
  exit "$1"
}

# stop_softly: lets a run save its state, as run_gracefully does.
stop_softly() {
  local process
  trap '' USR1
  asked_to_stop=1
  for process in ${started[@]+"${started[@]}"}; do
    ask_to_stop "$process"
  done
}

# cut_link HOST SECONDS [UNTIL]: disconnects that host after so many seconds, as if its cable were pulled, and connects it
# again UNTIL seconds after the start. Shells on it do not go through the link, so they end; MPI's daemon notices by
# itself.
cut_link() {
  local process
  sleep "$2"
  touch "$state/board$1.cut"
  ip link set "port$1" down
  while read -r process; do pkill -KILL -P "$process" || kill -KILL "$process"; done 2>/dev/null <"$state/board$1.shells" || true
  [[ -n ${3:-} ]] || return 0
  sleep $(($3 - $2))
  rm "$state/board$1.cut" "$state/board$1.shells" 2>/dev/null || true
  ip link set "port$1" up
}

start_under_mpi() {
  local list="" host slots
  for ((host = 0; host < hosts; host++)); do
    slots=$((ranks - host * per_host < per_host ? ranks - host * per_host : per_host))
    list+=${list:+,}board$host:$slots
  done
  prepare_mpi
  set_mpi remote_shell "$state/agent"
  set_mpi each_from_here 1
  set_mpi interface eth0
  # Names of MPI's files contain host names and process numbers, which are the same in two laboratories.
  set_mpi folder "$state"
  set_mpi transports "$([[ $per_host -eq 1 ]] && echo tcp,self || echo tcp,self,vader)"
  # A rank that spins while it waits uses the core that the other rank needs.
  [[ $ranks -le $(cores) ]] || set_mpi yield 1
  if [[ $once -eq 1 ]]; then
    export NETLAB_HOSTS=$list
    exec_on 0 "$@" <&0 &
    started+=($!)
    return
  fi
  exec {words}> >(watch_words)
  filter=$!
  exec_on 0 mpirun -np "$ranks" --host "$list" --oversubscribe --bind-to none ${mca[@]+"${mca[@]}"} \
    sh -c "$SAY_STARTED" "$STARTED" "$@" <&0 2>&"$words" {words}>&- &
  started+=($!)
  exec {words}>&-
}

start_without_mpi() {
  local rank
  for ((rank = 0; rank < ranks; rank++)); do
    exec_on $((rank / per_host)) env RANK="$rank" WORLD_SIZE="$ranks" LOCAL_RANK=$((rank % per_host)) \
      MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 GLOO_SOCKET_IFNAME=eth0 "$@" <&0 &
    started+=($!)
  done
}

# ended_without_ranks CODE: whether mpirun ended with 0 because it was asked before it had started a rank.
ended_without_ranks() { [[ $1 -eq 0 && $no_mpi -eq 0 && $once -eq 0 && ! -e $state/started ]]; }

# run_laboratory CMD...: never returns. The first rank that fails ends the others.
run_laboratory() {
  local code=0 job ended change asked_to_stop=0
  build_laboratory
  [[ $only_check -eq 0 ]] || exit 0
  trap 'end_with 143' TERM
  trap 'printf "%s: ended after %s s (--timeout)\n" netlab.sh "$seconds" >&2; end_with 124' ALRM
  if [[ -n $seconds ]]; then
    { sleep "$seconds" && kill -ALRM 1; } 3>&- &
  fi
  [[ -z $cut_host ]] || cut_link "$cut_host" "$cut_after" "$cut_until" 3>&- &
  EQT_LABORATORY=$(laboratory_text)
  export EQT_LABORATORY
  if [[ $no_mpi -eq 1 ]]; then start_without_mpi "$@"; else start_under_mpi "$@"; fi
  trap stop_softly USR1  # until now it ends the laboratory, in which nothing runs yet
  for change in ${changes[@]+"${!changes[@]}"}; do
    { (change_rates "${changes[change]}" "${change_bursts[change]}") || kill -TERM 1; } 3>&- &
  done
  while [[ ${#started[@]} -gt 0 && $code -eq 0 ]]; do
    wait -n -p ended "${started[@]}" || code=$?
    # A signal ends only `wait`.
    [[ -n ${ended:-} ]] || code=0
    for job in "${!started[@]}"; do
      [[ ${started[job]} != "${ended:-}" ]] || unset "started[job]"
    done
  done
  if [[ $asked_to_stop -eq 1 ]] && { ended_by_request "$code" || ended_without_ranks "$code"; }; then code=75; fi
  [[ -z $filter ]] || await_words "$filter"
  ! ended_by_loss "$code" || code=205
  end_with "$code"
}
