#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains a small network on Fashion-MNIST with MPI ranks that send compressed gradients: installs the
# Debian packages that are missing, builds build/release/equant-train, trains with
# configs/quickstart.json and prints a table of results. A second call builds only what has changed.
#
#   scripts/quickstart.sh [options]
#
#   --ranks N      MPI processes on this machine [2]
#   --out DIR      results; those of an earlier run are replaced [runs/quickstart]
#   --config FILE  what is trained [configs/quickstart.json]
#   --set KEY=JSON, --quiet   passed to the program
#   --help         this text
#
#   scripts/quickstart.sh --set compressor.name=none --set train.epochs=2
# EQT_SKIP_INSTALL=1 installs nothing.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/packages.sh
source "$EQT_ROOT/scripts/lib/packages.sh"

ranks=2
out=$EQT_ROOT/runs/quickstart
config=$EQT_ROOT/configs/quickstart.json
arguments=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --ranks) value_of "$1" $#; natural "$1" "$2"; ranks=$2; shift 2 ;;
    --help | -h) usage; exit 0 ;;
    --out | --config) value_of "$1" $#; declare "${1#--}=$(realpath -m -- "$2")"; shift 2 ;;
    --out=* | --config=*) name=${1%%=*}; declare "${name#--}=$(realpath -m -- "${1#*=}")"; shift ;;
    --set) value_of "$1" $#; arguments+=("$1" "$2"); shift 2 ;;
    --set=* | --quiet) arguments+=("$1"); shift ;;
    -*) fail 2 "unknown option \"$1\"; see --help, and build/release/equant-train --help for the program's." ;;
    *) arguments+=("$1"); shift ;;
  esac
done

say "equant-train quick start: packages, build, training with $ranks MPI ranks, results"
install_packages "${EQT_BUILD_PACKAGES[@]}" "${EQT_DATA_PACKAGES[@]}"
installed=$SECONDS
build release equant-train
built=$SECONDS

say "Training with ${config#"$EQT_ROOT/"} on $ranks ranks; results go to ${out#"$EQT_ROOT/"}"
[[ $PWD != "$EQT_ROOT" ]] || out=${out#"$EQT_ROOT/"}  # the program names it in commands to go on with
cd "$EQT_ROOT"
status=0
scripts/run_local.sh --ranks "$ranks" -- --config "${config#"$EQT_ROOT/"}" --out "$out" \
  --overwrite ${arguments[@]+"${arguments[@]}"} || status=$?
[[ $status -eq 0 ]] ||
  fail "$status" "training ended with exit code $status; its own message stands above, and docs/rack.md" \
    "says what each code means."
say "Done in $SECONDS s: installing $installed s, building $((built - installed)) s," \
  "training $((SECONDS - built)) s"
