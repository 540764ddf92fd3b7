# SPDX-License-Identifier: Apache-2.0
# Starts ranks under mpirun and says how they have ended. The names of Open MPI's two runtimes are here, and nowhere
# else in the scripts: ORTE of Open MPI 4.1, whose daemon is orted, and PRRTE of Open MPI 5.0, whose daemon is prted.
# Source it after common.sh; it runs nothing.
# shellcheck shell=bash
# shellcheck disable=SC2154  # mpirun and state come from the scripts

# Settings by their purpose: the variables that both runtimes, and the MPI library, read. Each ignores the other's.
declare -A EQT_MPI_VARIABLES=(
  [remote_shell]="OMPI_MCA_plm_rsh_agent PRTE_MCA_plm_ssh_agent"
  [each_from_here]="OMPI_MCA_plm_rsh_no_tree_spawn PRTE_MCA_plm_ssh_no_tree_spawn"
  [interface]="OMPI_MCA_btl_tcp_if_include OMPI_MCA_oob_tcp_if_include PRTE_MCA_prte_if_include"
  [keepalive_time]="OMPI_MCA_oob_tcp_keepalive_time PRTE_MCA_oob_tcp_keepalive_time"
  [keepalive_interval]="OMPI_MCA_oob_tcp_keepalive_intvl PRTE_MCA_oob_tcp_keepalive_intvl"
  [keepalive_probes]="OMPI_MCA_oob_tcp_keepalive_probes PRTE_MCA_oob_tcp_keepalive_probes"
  [whole_host_names]="OMPI_MCA_orte_keep_fqdn_hostnames PRTE_MCA_prte_keep_fqdn_hostnames"
  [folder]="OMPI_MCA_orte_tmpdir_base PRTE_MCA_prte_tmpdir_base"
  [quiet]="OMPI_MCA_orte_execute_quiet"
  [kill_at_once]="OMPI_MCA_odls_base_sigkill_timeout PRTE_MCA_odls_base_sigkill_timeout"
  [transports]="OMPI_MCA_btl"
  [yield]="OMPI_MCA_mpi_yield_when_idle"
)

# set_mpi PURPOSE VALUE: for all later commands, whatever the user has set.
set_mpi() {
  local variable
  for variable in ${EQT_MPI_VARIABLES[$1]}; do export "$variable=$2"; done
}

# default_mpi PURPOSE VALUE: likewise, unless the user has set it.
default_mpi() {
  local variable
  for variable in ${EQT_MPI_VARIABLES[$1]}; do export "$variable=${!variable:-$2}"; done
}

# mpi_remote_shell: prints the command with which mpirun reaches hosts.
mpi_remote_shell() { printf '%s\n' "${PRTE_MCA_plm_ssh_agent:-${OMPI_MCA_plm_rsh_agent:-ssh -o BatchMode=yes}}"; }

# is_open_mpi: whether this machine's mpirun is Open MPI's.
is_open_mpi() { [[ $(mpirun --version 2>/dev/null) =~ ^mpirun\ \((Open MPI|OpenRTE|Open RTE)\) ]]; }

# version_of_mpirun: prints the last word of the first line of "mpirun --version".
version_of_mpirun() { sed -n '1s/.* //p'; }

# require_same_mpi HOST VERSION: exits with an error unless the host's MPI, if it has said which, is the version of
# this machine: daemons of different versions do not understand each other.
require_same_mpi() {
  : "${mpi_here:=$(mpirun --version 2>/dev/null | version_of_mpirun)}"
  [[ -z $2 || $2 == "$mpi_here" ]] ||
    fail 6 "expected MPI $mpi_here on every host, as here, found ${2:0:40} on $1; install the same release of Debian, or the same MPI, on all."
}

# require_mpirun: exits with an error without it. Gives it a home, as a service of systemd has none, and Open MPI 5.0
# does not start without.
require_mpirun() {
  command -v mpirun >/dev/null || fail 6 "mpirun was not found here: install Debian's openmpi-bin."
  export HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
}

# prepare_mpi: the settings of every job.
prepare_mpi() {
  [[ $(id -u) -ne 0 ]] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  # A rank that fails prints its error; mpirun's own report would hide it. PRRTE cannot be told, see watch_words.
  default_mpi quiet 1
  # Without it mpirun waits forever if a host is cut off; with it, mpirun ends the job after 5 seconds without an answer.
  default_mpi keepalive_time 2
  default_mpi keepalive_interval 1
  default_mpi keepalive_probes 3
  # Else names are cut at the first dot, and node.rack1.lan and node.rack2.lan are one host.
  default_mpi whole_host_names 1
}

# copy_through_memory: containers forbid reading another process's memory, and Open MPI warns once per message.
copy_through_memory() { export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_smsc=^cma,xpmem,knem; }

# require_files RANKS: exits with an error if mpirun may open too few files for them; it would crash or hang.
require_files() {
  local files=$((48 + 6 * $1)) limit
  limit=$(ulimit -Sn)
  [[ $limit == unlimited || $limit -ge $files ]] || ulimit -Sn "$files" 2>/dev/null ||
    fail 6 "expected a limit of at least $files open files, which mpirun needs for $1 ranks, found $(ulimit -Hn); raise it (ulimit -n), or start fewer."
}

# require_room_for_mpi NAME RANKS: makes `state`, a folder for temporary files that goes when the script ends. Exits with
# an error where mpirun could not start RANKS: it ends without a sentence, crashes or hangs.
require_room_for_mpi() {
  local parent=${TMPDIR:-/tmp}
  state=$(mktemp -d "$parent/$1.XXXXXX" 2>/dev/null) ||
    fail 6 "expected a folder for temporary files, which MPI needs, that this user can write at $parent, found none; set TMPDIR to another."
  trap 'rm -rf "$state"' EXIT
  { head -c 12582912 /dev/zero >"$state/room"; } 2>/dev/null ||
    fail 6 "expected 12 MiB for MPI's temporary files at $parent, found less; make room there, or set TMPDIR to another folder."
  rm "$state/room"
  require_files "$2"
}

# The first rank says this on stderr when mpirun has started it.
readonly STARTED="mpirun has started the ranks"
# shellcheck disable=SC2016  # for the shell of each rank
readonly SAY_STARTED='[ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" != 0 ] || echo "$0" >&2; exec "$@"'

# start_ranks PROGRAM ARGUMENT...: run_gracefully for the command in the array `mpirun`. Files in the folder $state
# say that ranks have `started`, that one has `failed`, and, of PRRTE, which host was `lost`; `said` has mpirun's own
# report.
# Until every host has a daemon of Open MPI it starts no rank, and a signal may end it with code 0, or one of its own:
# that becomes 75.
# After a lost host ORTE ends with code 205, PRRTE with any, also 0: that becomes 205.
start_ranks() {
  local code=0 words watcher
  rm -f "$state"/{started,failed,lost,said}
  exec {words}> >(watch_words)
  watcher=$!
  run_gracefully "${mpirun[@]}" sh -c "$SAY_STARTED" "$STARTED" "$@" 2>&"$words" {words}>&- || code=$?
  exec {words}>&-
  await_words "$watcher"
  if [[ $signals_seen -gt 0 && ! -e $state/started ]] && { [[ $code -eq 0 ]] || is_own_code "$code"; }; then
    say "Stopped by a signal"
    code=75
  fi
  ! ended_by_loss "$code" || code=205
  return "$code"
}

# await_words WATCHER: until it has read all that the job said. A process on the way to a lost host may keep the pipe open.
await_words() {
  local tick
  for ((tick = 0; tick < 20; tick++)); do
    kill -0 "$1" 2>/dev/null || break
    sleep 0.05
  done
}

# ended_by_loss CODE: whether a host was lost after the start, and no rank has said what it was waiting for.
ended_by_loss() { [[ -e $state/lost && -e $state/started && ($1 -eq 0 || $1 -ge 128) ]]; }

# The lines before and after what the runtime has to say.
readonly EQT_RULE=--------------------------------------------------------------------------

# Lines that mean nothing: on a busy machine, after a launch that was faster than expected; and, of Open MPI 5.0
# where a network has IPv4 and IPv6, that an address of one does not reach one of the other.
readonly EQT_NOISE='plm:(rsh|ssh): Warning: setpgid\(|Unable to find reachable pairing between local and remote interfaces'

# watch_words: copies the job's stderr to its own, without mpirun's report of a rank that has failed.
watch_words() {
  local line block="" inside=0
  while IFS= read -r line || [[ -n $line ]]; do
    if [[ $line == "$EQT_RULE" ]]; then
      inside=$((1 - inside))
      [[ $inside -eq 1 ]] || end_of_block "$block"
      block=""
    elif [[ $inside -eq 1 ]]; then
      block+=$line$'\n'
    elif [[ $line == "$STARTED" ]]; then
      touch "$state/started"
    elif [[ ! $line =~ $EQT_NOISE ]]; then
      printf '%s\n' "$line" >&2
      [[ ! $line =~ ^equant-train:\ (timeout|mpi|wire): ]] || touch "$state/failed"
    fi
  done
  [[ -z $block ]] || end_of_block "$block"
}

# end_of_block TEXT: keeps a report of the runtime, and passes its other words on.
end_of_block() {
  case $1 in
    "prterun detected that "* | "prterun noticed that "* | "prterun has exited due to "*) ;;
    "mpirun noticed that "* | "MPI_ABORT was invoked"*) ;;
    "PRTE has lost communication"*)
      printf '%s' "$1" | sed -nE 's/^ *Remote daemon: .* on node //p' >"$state/lost"
      plain "$(basename "$0"): mpirun lost the host $(head -c 200 "$state/lost"): it was cut off or is down" >&2
      ;;
    *) printf '%s\n%s%s\n' "$EQT_RULE" "$1" "$EQT_RULE" >&2 ;;
  esac
  printf '%s' "$1" | tr -s '\0\n ' ' ' >"$state/said"
}

# is_own_code CODE: whether that is a code of mpirun's own, for ranks that it could not start or that were ended. Its
# negative errors come as numbers below 256.
is_own_code() { [[ $1 -eq 1 || ($1 -ge 183 && $1 -ne 205) ]]; }

# fail_as_mpirun CODE: exits with an error after mpirun has ended with a code of its own.
fail_as_mpirun() {
  local more="OMPI_MCA_orte_execute_quiet=0 in front of the script makes it say more"
  [[ ! -s $state/said ]] || more="it said: \"$(head -c 400 "$state/said")\""
  fail 6 "mpirun ended with exit code $1: it could not start a rank, or was ended; $more."
}
