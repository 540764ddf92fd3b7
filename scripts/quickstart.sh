#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains a ResNet on Fashion-MNIST with MPI ranks that send compressed gradients: installs the
# Debian packages that are missing, builds build/release/equant-train, trains with
# configs/quickstart.json and prints a table of results. A second call builds only what has changed.
#
#   scripts/quickstart.sh [--ranks N] [equant-train arguments]
#
#   --ranks N   MPI processes on this machine [2]
#   --help      this text
#
# All other arguments are passed to the program:
#   scripts/quickstart.sh --set compressor.name=none --set train.epochs=2
# Results are in runs/quickstart, or in --out DIR; those of an earlier run are replaced.
# EQT_SKIP_INSTALL=1 installs nothing.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/packages.sh
source "$EQT_ROOT/scripts/lib/packages.sh"

ranks=2
arguments=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --ranks) value_of "$1" $#; natural "$1" "$2"; ranks=$2; shift 2 ;;
    --help | -h) usage; exit 0 ;;
    --set | --out) value_of "$1" $#; arguments+=("$1" "$2"); shift 2 ;;
    --config | --set=* | --out=* | --config=* | --quiet | --resume | --overwrite) arguments+=("$1"); shift ;;
    -*) fail 2 "unknown option \"$1\"; see --help, and build/release/equant-train --help for the program's." ;;
    *) arguments+=("$1"); shift ;;
  esac
done

say "equant-train quick start: packages, build, training with $ranks MPI ranks, results"
install_packages "${EQT_BUILD_PACKAGES[@]}" "${EQT_DATA_PACKAGES[@]}"
installed=$SECONDS
build release equant-train
built=$SECONDS

say "Training with configs/quickstart.json on $ranks ranks; results go to runs/quickstart"
cd "$EQT_ROOT"
status=0
scripts/run_local.sh --ranks "$ranks" -- --config configs/quickstart.json --out runs/quickstart \
  --overwrite ${arguments[@]+"${arguments[@]}"} || status=$?
[[ $status -eq 0 ]] ||
  fail "$status" "training ended with exit code $status; its own message stands above, and docs/rack.md" \
    "says what each code means."
say "Done in $SECONDS s: installing $installed s, building $((built - installed)) s," \
  "training $((SECONDS - built)) s"
