#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# equant-train compared with PyTorch DDP + Gloo: same model, same batch, 2 ranks with one thread
# each, DDP with channels_last, rounds interleaved so that both have the same conditions. Prints
# each round, then medians and their ratio.
#
# usage: tests/bench/compare_ddp.sh CONFIG [ROUNDS [STEPS]]
# PROGRAM, PYTHON and MPIRUN in the environment replace the defaults. Root under Open MPI needs
# OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1.
set -eu

if [ $# -lt 1 ]; then
  echo "usage: $0 CONFIG [ROUNDS [STEPS]]" >&2
  exit 2
fi
config=$1
rounds=${2:-5}
steps=${3:-60}
here=$(cd "$(dirname "$0")" && pwd)
program=${PROGRAM:-$here/../../build/release/equant-train}
python=${PYTHON:-/usr/bin/python3}
mpirun=${MPIRUN:-mpirun}
ranks=2

if [ ! -x "$program" ]; then
  echo "expected the program at $program: build it (cmake --build build/release) or set PROGRAM" >&2
  exit 2
fi
if ! "$python" -c 'import torch' 2>/dev/null; then
  echo "expected PyTorch in $python: install python3-torch or set PYTHON" >&2
  exit 2
fi

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
trap 'exit 1' INT TERM

# The resolved config decides model and batch for both sides.
"$program" check --full --config "$config" --set data.name=synthetic --set data.path=null >"$out/config.json"
field() { "$python" -c 'import functools, json, sys
print(functools.reduce(lambda node, key: node[key], sys.argv[2].split("."), json.load(open(sys.argv[1]))))' "$1" "$2"; }
model=$(field "$out/config.json" model.name)
batch=$(field "$out/config.json" train.batch_size)

ours() {
  OMP_NUM_THREADS=1 "$mpirun" -np $ranks "$program" --config "$config" --set data.name=synthetic \
    --set train.steps="$steps" --set train.evaluate_every=0 --set threads_per_rank=1 \
    --set output.progress=off --out "$out/run.$1" --quiet >"$out/log" 2>&1 ||
    { cat "$out/log" >&2; exit 1; }
  field "$out/run.$1/summary.json" images_per_second
}
theirs() {
  OMP_NUM_THREADS=1 "$python" "$here/ddp_baseline.py" --model "$model" --batch "$batch" --ranks $ranks \
    --steps "$steps" --channels-last >"$out/ddp.json" || exit 1
  field "$out/ddp.json" images_per_second
}

echo "$model, batch $batch, $ranks ranks, $steps steps; load $(cut -d' ' -f1 /proc/loadavg)"
echo "round equant-train ddp   [images/s]"
round=1
while [ "$round" -le "$rounds" ]; do
  a=$(ours "$round")
  b=$(theirs)
  echo "$round $a $b" | tee -a "$out/table"
  round=$((round + 1))
done

"$python" - "$out/table" <<'PYTHON'
import statistics, sys
rows = [[float(v) for v in line.split()[1:]] for line in open(sys.argv[1])]
ours, ddp = (statistics.median(column) for column in zip(*rows))
print(f"median {ours:.1f} {ddp:.1f}")
print(f"ratio {ours / ddp:.2f} against DDP with channels_last")
PYTHON
