#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every collective with every compressor that works with it: STEPS steps on RANKS ranks with
# gradients of ResNet-20's layout (no network is run), and whether all replicas are identical at the
# end. Prints a table of milliseconds per step; exit code 1 if any pair failed or replicas differ.
#
# usage: tests/bench/collective_matrix.sh [RANKS [STEPS]]        8 and 20 by default
# EQT_PROGRAM is the executable, if not build/release/equant-train. Root under Open MPI needs
# OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/lib/common.sh
source "$root/scripts/lib/common.sh"

ranks=${1:-8}
steps=${2:-20}
natural RANKS "$ranks"
natural STEPS "$steps"
program=${EQT_PROGRAM:-$EQT_ROOT/build/release/equant-train}
[[ -x $program ]] || fail 2 "expected the program at $program: build it (cmake --build build/release) or set EQT_PROGRAM."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo '{"name": "matrix", "model": {"name": "resnet20"}}' >"$work/config.json"
names() { "$program" list "$1" --json | python3 -c 'import json, sys; print(*(n["name"] for n in json.load(sys.stdin)), sep="\n")'; }

pairs=0
failed=0
start=$SECONDS
mapfile -t collectives < <(names collectives | grep -vx auto)
mapfile -t compressors < <(names compressors)
printf '| compressor | auto |'
printf ' %s |' "${collectives[@]}"
printf '\n|---|---|'
printf -- '---|%.0s' "${collectives[@]}"
echo
for compressor in "${compressors[@]}"; do
  printf '| %s |' "$compressor"
  for collective in auto "${collectives[@]}"; do
    sets=(--set "compressor.name=$compressor" --set "synchronization.collective=$collective" --set "train.steps=$steps"
      --set train.emulate_compute=0)
    [[ $compressor != dgc ]] || sets+=(--set compressor.warmup_epochs=0)
    # Pairs that the config refuses are skipped; their error and exit code 2 are tested elsewhere.
    if ! "$program" check --config "$work/config.json" "${sets[@]}" >/dev/null 2>&1; then
      printf ' - |'
      continue
    fi
    pairs=$((pairs + 1))
    if OMP_NUM_THREADS=1 timeout 300 mpirun -np "$ranks" --oversubscribe --bind-to none "$program" \
      --config "$work/config.json" "${sets[@]}" --set threads_per_rank=1 --quiet --out "$work/run" --overwrite \
      >"$work/log" 2>&1 && python3 - "$work/run" <<'PYTHON'; then
import json, statistics, sys
summary = json.load(open(sys.argv[1] + "/summary.json"))
steps = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
seconds = [s["seconds"]["total"] for s in steps if s["type"] == "step"]
print(f" {1000 * statistics.median(seconds):.1f}", end=" |")
sys.exit(not summary["replicas_identical"])
PYTHON
      :
    else
      failed=$((failed + 1))
      printf ' FAILED |'
      { echo; echo "$compressor by $collective:"; tail -n 3 "$work/log"; } >&2
    fi
  done
  echo
done
echo
echo "$pairs pairs of $steps steps on $ranks ranks in $((SECONDS - start)) s, $failed failed"
[[ $failed -eq 0 ]]
