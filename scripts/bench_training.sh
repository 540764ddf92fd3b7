#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures training over slow links: seconds per step of several ways to synchronise, with every
# rank on its own host (netlab.sh), compared with PyTorch DDP on Gloo on the same links. Prints a
# Markdown table for a document, with the machine, the bursts and the baseline of the speed-ups.
#
#   scripts/bench_training.sh [options] [-- --set KEY=JSON ...]
#
#   --config FILE    the config to train; its compressor is used by the way "best"
#                    [configs/cifar10_resnet20/e-elastiquant.json]
#   --rows LIST      comma-separated MODEL:BATCH@RATE: network, images per rank and step, rate of netlab.sh
#                    [resnet18:8@100mbit,resnet18:16@100mbit,resnet18:16@1gbit,resnet20:4@100mbit,
#                    resnet20:4@1gbit,resnet20:64@100mbit]
#   --ranks N        [2]
#   --pixels N       side of the pictures, at most 32 [32]
#   --ways LIST      comma-separated columns [all of these]:
#                      mpi            float32, one blocking MPI_Allreduce of the whole gradient, after backward
#                      mpi-buckets    float32, a blocking MPI_Allreduce per fusion bucket, during backward
#                      ddp            PyTorch DistributedDataParallel on Gloo, float32, channels_last
#                      ddp-buckets    the same with the gradient in 16 buckets, as ours
#                      none           float32, our pipeline, during backward
#                      bf16-blocking  bf16, after backward
#                      bf16           bf16, during backward
#                      best           the config's compressor, during backward
#                      alone          no communication: a lower bound
#   --steps S        measured steps of a run, after 2 warm-up steps [6]
#   --rounds R       every way is run R times, alternating [1]
#   --out FILE       the table goes to FILE and the steps to FILE.csv [stdout only]
#   --add            adds to the steps in FILE.csv: a long table in several short calls
#   --help           this text
#
# A figure is the median of all steps; the time of a step is that of its slowest rank. Images are
# synthetic. Each rank has one computing thread, also with DDP. Arguments after -- are passed to
# equant-train.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

config=$EQT_ROOT/configs/cifar10_resnet20/e-elastiquant.json
rows=resnet18:8@100mbit,resnet18:16@100mbit,resnet18:16@1gbit
rows+=,resnet20:4@100mbit,resnet20:4@1gbit,resnet20:64@100mbit
ranks=2
pixels=32
ways=mpi,mpi-buckets,ddp,ddp-buckets,none,bf16-blocking,bf16,best,alone
steps=6
rounds=1
out=""
add=0
declare -A options=(
  [--config]="text config" [--rows]="text rows" [--ranks]="natural ranks" [--pixels]="natural pixels"
  [--ways]="text ways"
  [--steps]="natural steps" [--rounds]="natural rounds" [--out]="text out" [--add]="flag add"
)
read_options "$@"
[[ ${rest[0]:---} == -- ]] || fail 2 "unknown argument \"${rest[0]}\"; see --help."
sets=("${rest[@]:1}")
[[ -r $config ]] || fail 2 "cannot read the config \"$config\"."
[[ $add -eq 0 || -n $out ]] || fail 2 "--add needs --out FILE, whose FILE.csv it adds to."
for row in ${rows//,/ }; do
  [[ $row =~ ^[a-z0-9-]+:[1-9][0-9]*@[0-9.]+[kmg]?bit$ ]] ||
    fail 2 "--rows needs MODEL:BATCH@RATE such as resnet18:16@100mbit, found \"$row\"."
done
program=${EQT_PROGRAM:-$EQT_DEFAULT_PROGRAM}
[[ -x $program ]] || fail 2 "expected the program at $program: $EQT_PROGRAM_REMEDY, or set EQT_PROGRAM."
python=${PYTHON:-/usr/bin/python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Synthetic images: no data set is needed.
"$program" check --full --config "$config" ${sets[0]+"${sets[@]}"} --set data.name=synthetic --set data.path=null \
  >"$work/config.json" 2>"$work/log" || { cat "$work/log" >&2; exit 2; }
compressor=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["compressor"]["name"])' "$work/config.json")
raw=(--set compressor.name=none --set compressor.coding=fixed --set compressor.levels=sinh
  --set compressor.elasticity=auto --set synchronization.error_feedback=auto)

# arguments WAY: prints its settings. 64 MiB: more than any of these gradients.
arguments() {
  local mpi=("${raw[@]}" --set synchronization.collective=mpi-allreduce)
  case $1 in
    mpi) printf '%s\n' "${mpi[@]}" --set synchronization.overlap=false --set synchronization.bucket_mib=64 ;;
    mpi-buckets) printf '%s\n' "${mpi[@]}" ;;
    none) printf '%s\n' "${raw[@]}" --set synchronization.collective=dense ;;
    bf16-blocking) printf '%s\n' "${raw[@]}" --set compressor.name=bf16 --set synchronization.overlap=false ;;
    bf16) printf '%s\n' "${raw[@]}" --set compressor.name=bf16 ;;
    best) ;;
    alone) printf '%s\n' "${raw[@]}" --set synchronization.algorithm=none ;;
    *) fail 2 "unknown way \"$1\"; see --help." ;;
  esac
}

# burst_used: prints the burst of the links of the last run.
burst_used() {
  "$python" -c 'import json, sys; print(json.loads(open(sys.argv[1]).readline())["burst_bytes"])' "$work/counters"
}

# ours MODEL BATCH RATE WAY ROUND: appends a line for each step.
ours() {
  local extra=() images words
  words=$(arguments "$4") || exit 2
  mapfile -t extra <<<"$words"
  [[ -n $words ]] || extra=()
  images=$((2 * ranks * $2 * (steps + 2)))
  OMP_NUM_THREADS=1 "$EQT_ROOT/scripts/netlab.sh" --ranks "$ranks" --rate "$3" --counters "$work/counters" -- \
    "$program" --config "$work/config.json" --quiet --out "$work/run" --overwrite --set "model.name=$1" \
    --set "train.batch_size=$2" --set "data.limit_train=$images" --set data.limit_test=16 \
    --set train.steps=$((steps + 2)) --set train.evaluate_every=0 --set threads_per_rank=1 \
    --set data.resize="$pixels" --set output.progress=off ${extra[0]+"${extra[@]}"} >"$work/log" 2>&1 || {
    tail -n 5 "$work/log" >&2
    fail 1 "training $1 with \"$4\" at $3 failed; its last words stand above."
  }
  "$python" - "$work/run/metrics.jsonl" "$1,$2,$3,$(burst_used),$4,$5" >>"$work/steps.csv" <<'PYTHON'
import json, sys
for line in open(sys.argv[1]):
    record = json.loads(line)
    if record["type"] == "step" and record["step"] > 2:
        print(f'{sys.argv[2]},{record["step"]},{record["seconds"]["total"]}')
PYTHON
}

# theirs MODEL BATCH RATE WAY ROUND: the same by DDP.
theirs() {
  local buckets=0
  [[ $4 == ddp ]] || buckets=16
  OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0 "$EQT_ROOT/scripts/netlab.sh" --no-mpi --ranks "$ranks" --rate "$3" \
    --counters "$work/counters" -- "$python" "$EQT_ROOT/tests/bench/ddp_baseline.py" --model "$1" --batch "$2" \
    --ranks "$ranks" --pixels "$pixels" --warmup 2 --steps "$steps" --buckets "$buckets" --channels-last --join >"$work/ddp" 2>"$work/log" || {
    tail -n 5 "$work/log" >&2
    fail 1 "$1 with \"$4\" at $3 failed; its last words stand above."
  }
  "$python" - "$work/ddp" "$1,$2,$3,$(burst_used),$4,$5" >>"$work/steps.csv" <<'PYTHON'
import json, sys
for line in open(sys.argv[1]):
    if line.startswith("{"):
        for step, seconds in enumerate(json.loads(line)["step_seconds"]):
            print(f"{sys.argv[2]},{step + 3},{seconds}")
PYTHON
}

echo "model,batch,rate,burst_bytes,way,round,step,seconds" >"$work/steps.csv"
[[ $add -eq 0 || ! -e $out.csv ]] || cp "$out.csv" "$work/steps.csv"
for ((round = 1; round <= rounds; ++round)); do
  for row in ${rows//,/ }; do
    model=${row%%:*} rate=${row#*@} batch=${row#*:}
    batch=${batch%@*}
    for way in ${ways//,/ }; do
      say "round $round, $model, batch $batch, $rate, $way" >&2
      if [[ $way == ddp || $way == ddp-buckets ]]; then
        theirs "$model" "$batch" "$rate" "$way" "$round"
      else
        ours "$model" "$batch" "$rate" "$way" "$round"
      fi
    done
  done
done

"$python" "$EQT_ROOT/scripts/lib/training_table.py" "$work/steps.csv" --compressor "$compressor" --ranks "$ranks" \
  --pixels "$pixels" >"$work/table"
cat "$work/table"
if [[ -n $out ]]; then
  cp "$work/table" "$out"
  cp "$work/steps.csv" "$out.csv"
fi
