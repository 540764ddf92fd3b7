# SPDX-License-Identifier: Apache-2.0
# The phases of scripts/rack.sh. Each prints a line for each host, and leaves alone what is done.
# shellcheck shell=bash
# shellcheck disable=SC2154  # names, hosts, list, debs, config, data, out, ... come from rack.sh

line() { plain "$(printf '%-7s %s: %s' "$1" "$2" "$3")"; }

phase_check() {
  local host clock text
  for host in "${names[@]}"; do
    clock=$(clock_difference "$host")
    text="$(found "$host" architecture), Debian $(found "$host" debian), $(found "$host" memory) MiB of memory"
    text+=", $(gigabytes "$(found "$host" free)") free, clock $clock s"
    text+=", $(found "$host" interface) $(found "$host" address)"
    text+=", Open MPI $(found "$host" mpi | grep . || echo absent)"
    line check "$host" "$text, equant-train $(found "$host" version | grep . || echo absent)"
    awk -v clock="$clock" 'BEGIN { exit !(clock > 3 || clock < -3) }' || continue
    say "warning: the clock of $host differs by $clock s: times in records and of files will be wrong; start timesyncd or chrony there"
  done
  require_interface
  require_one_mpi
}

# install_deb HOST FILE: with what it depends on.
install_deb() {
  local host=$1 sudo="" there said
  [[ $(found "$host" root) != sudo ]] || sudo="sudo -n"
  there=/tmp/$(basename "$2")
  ask 600 "$host" "cat >$(quoted "$there")" <"$2" || fail 74 "host $host: $2 could not be copied to $there."
  said=$(ask 3600 "$host" "install() { $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install -y \
    --allow-downgrades --no-install-recommends $(quoted "$there"); }
    { install || { $sudo apt-get -qq update && install; }; } 2>&1
    code=\$?; rm -f $(quoted "$there"); exit \$code" </dev/null) ||
    fail 2 "host $host: apt-get could not install $(basename "$2"): $(tail -n 2 <<<"$said" | tr '\n' ' '); try it there by hand."
}

phase_install() {
  local host package deb want has did size packages=()
  mapfile -t packages < <(for deb in ${debs[@]+"${debs[@]}"}; do dpkg-deb --field "$deb" Package; done | sort -u)
  for host in "${names[@]}"; do
    did=""
    for package in ${packages[@]+"${packages[@]}"}; do
      deb=$(deb_for "$package" "$(found "$host" architecture)")
      [[ -n $deb ]] ||
        fail 2 "host $host needs $package for $(found "$host" architecture), none of --deb has it; build it there with \"cmake --build --preset release --target debian_packages\", and give it with --deb."
      want=$(dpkg-deb --field "$deb" Version)
      has=$(ask "$answer" "$host" "dpkg-query -W -f='\${db:Status-Status} \${Version}' $(quoted "$package") 2>/dev/null || true" </dev/null)
      [[ $has != "installed $want" ]] || continue
      [[ $(found "$host" root) != no ]] ||
        fail 2 "host $host: installing $package needs root, and sudo asks for a password there; log in as root, allow sudo without a password, or install $(basename "$deb") by hand."
      size=$(dpkg-deb --field "$deb" Installed-Size)
      is_number "$size" 15 || size=0
      require_room "$host" "$(found "$host" free)" $((size * 1024 + $(stat -c %s "$deb"))) / "$package"
      install_deb "$host" "$deb"
      has=${has#installed }
      did+="${did:+, }$package $want installed${has:+, was $has}"
    done
    line install "$host" "${did:-nothing to do}"
  done
  [[ ${#packages[@]} -eq 0 ]] || probe_hosts
  require_ready
}

# copy_with_rsync ARGUMENTS...: rsync; prints its list of changes.
copy_with_rsync() { rsync --itemize-changes --rsh="$shell" "$@" 2>"$state/rsync.error"; }

rsync_error() { grep -m 1 . "$state/rsync.error"; }

# send HOST PATH: a file or folder to the same path there; prints how many files changed.
send() {
  local host=$1 path=$2 folder bytes changed from=$2 to=$1:$2
  folder=$(dirname "$path")
  if [[ -d $path ]]; then folder=$path from=$path/ to=$to/; fi
  ask "$answer" "$host" "mkdir -p $(quoted "$folder")" </dev/null 2>"$state/rsync.error" ||
    fail 74 "host $host: the folder $folder cannot be made ($(rsync_error)); put $path where this user may write on every host."
  bytes=$(rsync -a --dry-run --stats --no-human-readable --rsh="$shell" "$from" "$to" 2>"$state/rsync.error" |
    sed -n 's/^Total transferred file size: \([0-9]*\).*/\1/p') ||
    fail 74 "host $host: rsync of $path failed ($(rsync_error))."
  require_room "$host" "$(ask "$answer" "$host" "df -B1 --output=avail $(quoted "$folder") | tail -n 1 | tr -d ' '" </dev/null)" \
    "${bytes:-0}" "$folder" "$path"
  changed=$(copy_with_rsync -a "$from" "$to") || fail 74 "host $host: rsync of $path failed ($(rsync_error))."
  grep -c '^<f' <<<"$changed" || true
}

phase_copy() {
  local host path files text
  for host in "${names[@]}"; do
    text=""
    for path in "$config" ${data:+"$data"}; do
      ! is_here "$host" || continue
      files=$(send "$host" "$path")
      [[ $files -eq 0 ]] || text+="${text:+, }$path copied ($files files)"
    done
    line copy "$host" "${text:-nothing to do}"
  done
}

phase_doctor() {
  local said row code=0
  require_ready
  said=$("$EQT_ROOT/scripts/run_hosts.sh" --hosts "$list" --shell "$shell" --answer "$answer" --program "$program" \
    ${interface:+--interface "$interface"} -- doctor) || code=$?
  [[ $code -eq 0 ]] || fail "$code" "equant-train doctor failed on $list; its words stand above."
  # The table of hosts with their speeds.
  while IFS= read -r row; do plain "$row"; done < <(sed -n '/^host  /,/^$/{/./p}' <<<"$said")
  while IFS= read -r row; do plain "$row"; done < <(grep '^warning:' <<<"$said")
  line doctor "$list" "$(tail -n 1 <<<"$said")"
}

# hosts_with FILE: prints the hosts on which it exists.
hosts_with() {
  local host
  for host in "${names[@]}"; do
    ! ask "$answer" "$host" "test -e $(quoted "$1")" </dev/null >/dev/null 2>&1 || printf '%s\n' "$host"
  done
}

# require_config: rank 0's host has the config. mpirun puts rank 0 on this machine, if that is one of the hosts.
require_config() {
  local host
  for host in "${names[@]}"; do ! is_here "$host" || return 0; done
  ask "$answer" "${names[0]}" "test -r $(quoted "$config")" </dev/null >/dev/null 2>&1 ||
    fail 2 "host ${names[0]} cannot read the config $config; send it there with --only copy."
}

phase_run() {
  local has code=0
  require_ready
  require_interface
  require_config
  has=$(hosts_with "$out/summary.json" | sed -n 1p)
  if [[ -n $has && " ${arguments[*]-} " != *" --overwrite "* && " ${arguments[*]-} " != *" --resume "* ]]; then
    line run "$has" "nothing to do: $out has a finished run; name another folder with --out, or give --overwrite"
    return
  fi
  if [[ " ${arguments[*]-} " != *" --overwrite "* && " ${arguments[*]-} " != *" --resume "* ]]; then
    # Without a checkpoint it begins again, in the same folder.
    has=$({ hosts_with "$out/checkpoints"; hosts_with "$out/metrics.jsonl"; } | awk '!seen[$0]++' | paste -sd' ')
    [[ -z $has ]] || { line run "$has" "a run in $out was stopped, it continues"; arguments+=(--resume); }
  fi
  [[ -z $interface ]] || set_mpi interface "$interface"
  run_gracefully "$EQT_ROOT/scripts/run_hosts.sh" --elastic "${all_hosts[@]}" --least "$least" --shell "$shell" \
    --answer "$answer" --program "$program" "$config" --out "$out" \
    ${arguments[@]+"${arguments[@]}"} || code=$?
  [[ $code -eq 0 ]] || exit "$code"
  end_on_signals
  line run "$out" "finished"
}

# The host with the summary comes first. Others have checkpoints of their own ranks, and records only if
# the first host was lost. Only files and folders are taken, and links within the run, with this user as their owner:
# what a host sends must not become a device here, or a way out of the folder.
phase_collect() {
  local host changed files first keep=()
  mapfile -t present < <(hosts_with "$out")
  [[ ${#present[@]} -gt 0 ]] || fail 2 "expected a run in $out on a host, found none; run it first, or name its folder with --out."
  first=$(hosts_with "$out/summary.json" | sed -n 1p)
  mkdir -p "$out" 2>/dev/null || fail 74 "--out: $out cannot be made here."
  for host in ${first:+"$first"} "${present[@]}"; do
    [[ $host != "$first" || ${#keep[@]} -eq 0 ]] || continue
    if ! is_here "$host"; then
      changed=$(copy_with_rsync -rlt --safe-links ${keep[@]+"${keep[@]}"} "$host:$out/" "$out/") ||
        fail 74 "host $host: rsync of $out failed ($(rsync_error))."
      files=$(grep -c '^>f' <<<"$changed" || true)
      [[ $files -eq 0 ]] && files="nothing to do" || files="$files files fetched to $out"
    else
      files="nothing to do: $out is here"
    fi
    line collect "$host" "$files"
    keep=(--ignore-existing)
  done
}
