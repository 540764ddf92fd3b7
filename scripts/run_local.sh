#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs equant-train on this machine under MPI and passes its exit code on.
#
#   scripts/run_local.sh [options] CONFIG.json [equant-train arguments]
#   scripts/run_local.sh [options] -- equant-train arguments
#
#   --ranks N       MPI processes [2]
#   --threads T     threads per rank [cores / ranks, at least 1]
#   --timeout S     end the job after S seconds with exit code 124, its state saved [never]
#   --bind WHAT     none: the system places threads [default]
#                   core: T cores of its own for each rank
#   --program FILE  the executable [$EQT_PROGRAM, or build/release/equant-train]
#   --help          this text
#
# SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGXCPU and Ctrl-C end the run after a step, with its state saved and
# exit code 75; --resume continues it. A second signal, or one before training, ends it at once.
# CONFIG.json may be a pipe: <(COMMAND), or /dev/stdin.
#
#   scripts/run_local.sh --ranks 4 --threads 1 configs/quickstart.json --set train.epochs=2
#   scripts/run_local.sh --ranks 2 -- list compressors
# For several machines see docs/rack.md.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/mpi.sh
source "$EQT_ROOT/scripts/lib/mpi.sh"
end_on_signals

ranks=2
threads=""
seconds=""
bind=none
program=${EQT_PROGRAM:-$EQT_DEFAULT_PROGRAM}
declare -A options=(
  [--ranks]="natural ranks" [--threads]="natural threads" [--timeout]="natural seconds" [--bind]="text bind"
  [--program]="text program"
)
read_options "$@"
program_arguments
set -- "${rest[@]}"
[[ $bind == none || $bind == core ]] || fail 2 "--bind needs none or core, found \"$bind\"."
[[ -x $program ]] || fail 2 "$program is not an executable: $EQT_PROGRAM_REMEDY, or name it with" \
  "--program."
require_mpirun

share=$(($(cores) / ranks))
computing=${threads:-$((share > 1 ? share : 1))}
[[ $bind == none || $((ranks * computing)) -le $(cores) ]] ||
  fail 2 "--bind core: $ranks ranks with $computing threads each need $((ranks * computing)) cores, this machine has $(cores); use fewer, or --bind none."
require_few "$ranks"
require_room_for_mpi run_local "$ranks"
arguments=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --config=*) set -- --config "${1#*=}" "${@:2}" ;;
  esac
  if [[ $1 == --config && $# -ge 2 ]]; then
    path=$(readable_again "$2" "$state")
    arguments+=(--config "$path")
    shift 2
  else
    arguments+=("$1")
    shift
  fi
done
set -- "${arguments[@]}"

# --threads becomes a part of the config, so that config.json has it; a later --set replaces it.
if [[ -n $threads && $1 == -* && " $* " == *" --config"* ]]; then
  set -- --set "threads_per_rank=$threads" "$@"
fi
export OMP_NUM_THREADS=$computing

mpirun=(mpirun -np "$ranks")
prepare_mpi
if is_open_mpi; then
  # Open MPI counts physical cores and refuses more ranks than those.
  mpirun+=(--oversubscribe)
  if [[ $bind == core ]]; then
    mpirun+=(--map-by "slot:PE=$computing" --bind-to core)
  else
    mpirun+=(--bind-to none)
  fi
  # A rank that spins while it waits uses the core that the other rank needs.
  [[ $ranks -le $(cores) ]] || set_mpi yield 1
  [[ ! -e /.dockerenv && ! -e /run/.containerenv ]] || copy_through_memory
elif [[ $bind == core ]]; then
  mpirun+=(-bind-to "core:$computing")
fi

# Ranks get pipes from mpirun; this is the terminal for their progress bar.
unset EQT_TERMINAL
if [[ -t 2 ]] && EQT_TERMINAL=$(tty <&2); then export EQT_TERMINAL; fi

# end_after_limit JOB: a state of gigabytes takes a card minutes to save.
end_after_limit() {
  wait_here "$seconds" || return
  touch "$state/late"
  kill -ALRM $$
  wait_here 300 || return
  end_job "$1"
}

# mpirun passes SIGUSR1 on to every rank, which then ends after a step with its state saved; after
# SIGTERM it ends the job within a second. It has its own process group, because Ctrl-C reaches a
# whole group.
[[ -z $seconds ]] || after_start=end_after_limit
code=0
start_ranks "$program" "$@" || code=$?
if [[ -e $state/late && ($code -eq 75 || $code -eq 137 || $code -eq 143) ]]; then
  fail 124 "the run was ended after $seconds s (--timeout)."
fi
! is_own_code "$code" || fail_as_mpirun "$code"
exit "$code"
