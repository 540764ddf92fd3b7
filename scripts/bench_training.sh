#!/usr/bin/env bash
# Measures training behind slow links: images per second of several ways to synchronise at several
# link rates, every rank on a host of its own (netlab.sh), beside PyTorch DDP on Gloo on the same
# links. Writes a Markdown table and a CSV file.
#
#   scripts/bench_training.sh --config FILE [options] [-- --set KEY=JSON ...]
#
#   --config FILE    whose model, batch and compressor are used; its compressor is the row "best"
#   --ranks N        [2]
#   --rates LIST     comma-separated rates for netlab.sh [100mbit,1gbit]
#   --ways LIST      comma-separated rows [mpi,none,bf16-blocking,bf16,best,alone,ddp]:
#                      mpi            float32, MPI_Allreduce, after backward
#                      none           float32, our pipeline, hidden behind backward
#                      bf16-blocking  bf16, after backward
#                      bf16           bf16, hidden behind backward
#                      best-blocking  the config's compressor, after backward
#                      best           the config's compressor, hidden behind backward
#                      alone          no communication: what the links can cost at most
#                      ddp            PyTorch DistributedDataParallel on Gloo, float32
#   --steps S        measured steps of a run, after 2 that are not [6]
#   --rounds R       every row is run R times, in turns [1]
#   --out FILE       the table goes to FILE and the steps to FILE.csv [stdout only]
#   --help           this text
#
# A row's figure is images over the median step time; a step lasts as long as its slowest rank's. Images
# are synthetic, one thread computes per rank. What stands behind -- goes to equant-train.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

config=""
ranks=2
rates=100mbit,1gbit
ways=mpi,none,bf16-blocking,bf16,best,alone,ddp
steps=6
rounds=1
out=""
while [[ $# -gt 0 ]]; do
  case $1 in
    --config) value_of "$1" $#; config=$2; shift 2 ;;
    --ranks) value_of "$1" $#; natural "$1" "$2"; ranks=$2; shift 2 ;;
    --rates) value_of "$1" $#; rates=$2; shift 2 ;;
    --ways) value_of "$1" $#; ways=$2; shift 2 ;;
    --steps) value_of "$1" $#; natural "$1" "$2"; steps=$2; shift 2 ;;
    --rounds) value_of "$1" $#; natural "$1" "$2"; rounds=$2; shift 2 ;;
    --out) value_of "$1" $#; out=$2; shift 2 ;;
    --help | -h) usage; exit 0 ;;
    --) shift; break ;;
    *) fail 2 "unknown argument \"$1\"; see --help." ;;
  esac
done
sets=("$@")
[[ -n $config ]] || fail 2 "--config FILE is missing; see --help."
[[ -r $config ]] || fail 2 "cannot read the config \"$config\"."
program=${EQT_PROGRAM:-$EQT_ROOT/build/release/equant-train}
[[ -x $program ]] || fail 2 "expected the program at $program: build it (cmake --build build/release) or set EQT_PROGRAM."
python=${PYTHON:-/usr/bin/python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$program" check --config "$config" ${sets[0]+"${sets[@]}"} >"$work/config.json"
field() { "$python" -c 'import functools, json, sys
print(functools.reduce(lambda node, key: node[key], sys.argv[2].split("."), json.load(open(sys.argv[1]))))' "$work/config.json" "$1"; }
batch=$(field train.batch_size)
model=$(field model.name)
raw=(--set compressor.name=none --set compressor.coding=fixed --set compressor.levels=sinh
  --set compressor.elasticity=auto --set synchronization.error_feedback=auto)

# arguments WAY: the settings that make it.
arguments() {
  case $1 in
    mpi) printf '%s\n' "${raw[@]}" --set synchronization.collective=mpi-allreduce --set synchronization.overlap=false ;;
    none) printf '%s\n' "${raw[@]}" --set synchronization.collective=dense ;;
    bf16-blocking) printf '%s\n' "${raw[@]}" --set compressor.name=bf16 --set synchronization.overlap=false ;;
    bf16) printf '%s\n' "${raw[@]}" --set compressor.name=bf16 ;;
    best-blocking) printf '%s\n' --set synchronization.overlap=false ;;
    best) ;;
    alone) printf '%s\n' "${raw[@]}" --set synchronization.algorithm=none ;;
    *) fail 2 "unknown way \"$1\"; see --help." ;;
  esac
}

# ours WAY RATE ROUND: appends "WAY,RATE,ROUND,STEP,SECONDS" lines.
ours() {
  local extra=()
  mapfile -t extra < <(arguments "$1")
  OMP_NUM_THREADS=1 "$EQT_ROOT/scripts/netlab.sh" --ranks "$ranks" --rate "$2" --counters /dev/null -- \
    "$program" --config "$work/config.json" --quiet --out "$work/run" --overwrite \
    --set data.name=synthetic --set data.path=null --set data.limit_train=0 --set data.limit_test=0 \
    --set train.steps=$((steps + 2)) --set train.evaluate_every=0 --set threads_per_rank=1 \
    --set output.progress=off ${extra[0]+"${extra[@]}"} >"$work/log" 2>&1 || {
    tail -n 5 "$work/log" >&2
    fail 1 "training with \"$1\" at $2 failed; its last words stand above."
  }
  "$python" - "$work/run/metrics.jsonl" "$1,$2,$3" >>"$work/steps.csv" <<'PYTHON'
import json, sys
for line in open(sys.argv[1]):
    record = json.loads(line)
    if record["type"] == "step" and record["step"] > 2:
        print(f'{sys.argv[2]},{record["step"]},{record["seconds"]["total"]}')
PYTHON
}

# theirs RATE ROUND: the same by DDP.
theirs() {
  OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0 "$EQT_ROOT/scripts/netlab.sh" --no-mpi --ranks "$ranks" --rate "$1" \
    --counters /dev/null -- "$python" "$EQT_ROOT/tests/bench/ddp_baseline.py" --model "$model" --batch "$batch" \
    --ranks "$ranks" --warmup 2 --steps "$steps" --join >"$work/ddp" 2>"$work/log" || {
    tail -n 5 "$work/log" >&2
    fail 1 "DDP at $1 failed; its last words stand above."
  }
  "$python" - "$work/ddp" "ddp,$1,$2" >>"$work/steps.csv" <<'PYTHON'
import json, sys
for line in open(sys.argv[1]):
    if line.startswith("{"):
        for step, seconds in enumerate(json.loads(line)["step_seconds"]):
            print(f"{sys.argv[2]},{step + 3},{seconds}")
PYTHON
}

echo "way,rate,round,step,seconds" >"$work/steps.csv"
for ((round = 1; round <= rounds; ++round)); do
  for rate in ${rates//,/ }; do
    for way in ${ways//,/ }; do
      say "round $round, $rate, $way" >&2
      if [[ $way == ddp ]]; then theirs "$rate" "$round"; else ours "$way" "$rate" "$round"; fi
    done
  done
done

"$python" - "$work/steps.csv" "$ranks" "$batch" "$model" "$(field compressor.name)" >"$work/table" <<'PYTHON'
import collections, csv, statistics, sys
steps = collections.defaultdict(list)
for row in csv.DictReader(open(sys.argv[1])):
    steps[row["rate"], row["way"]].append(float(row["seconds"]))
images = int(sys.argv[2]) * int(sys.argv[3])
rate_of = lambda key: images / statistics.median(steps[key]) if key in steps else None
ratio = lambda a, b: "-" if a is None or b is None else f"{a / b:.2f}"
print(f"{sys.argv[4]}, batch {sys.argv[3]} a rank, {sys.argv[2]} ranks, best = {sys.argv[5]}\n")
print("| link | way | s/step | images/s | over mpi | over bf16-blocking | slower than alone |")
print("|---|---|---|---|---|---|---|")
for (rate, way), seconds in steps.items():
    mine = rate_of((rate, way))
    print(f"| {rate} | {way} | {statistics.median(seconds):.3f} | {mine:.1f} "
          f"| {ratio(mine, rate_of((rate, 'mpi')))} | {ratio(mine, rate_of((rate, 'bf16-blocking')))} "
          f"| {ratio(rate_of((rate, 'alone')), mine)} |")
PYTHON
cat "$work/table"
if [[ -n $out ]]; then
  cp "$work/table" "$out"
  cp "$work/steps.csv" "$out.csv"
fi
