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
#   --ways LIST      comma-separated columns [mpi,mpi-buckets,ddp,ddp-buckets,none,bf16-blocking,bf16,best,alone]:
#                      mpi            float32, one blocking MPI_Allreduce of the whole gradient, after backward
#                      mpi-buckets    float32, a blocking MPI_Allreduce per fusion bucket, during backward
#                      ddp            PyTorch DistributedDataParallel on Gloo, float32, channels_last
#                      ddp-buckets    the same with the gradient in 16 buckets, as ours
#                      ddp-tuned      the same in 2, 4, 8, 16 or 32 buckets, as is fastest in a trial of each
#                      none           float32, our pipeline, during backward
#                      bf16-blocking  bf16, after backward
#                      bf16           bf16, during backward
#                      best           the config's compressor, during backward
#                      alone          no communication: a lower bound
#                    and others that train another way, or with fewer rounds:
#                      ddp-fp16       DDP with PyTorch's hook for IEEE half precision, buckets as ddp-tuned
#                      ddp-bf16       the same for bfloat16, which Gloo of PyTorch 1.13 does not send
#                      ddp-powersgd   DDP with PyTorch's PowerSGD hook, rank 2, in one bucket
#                      ddp-equant     DDP with equant.DDPHook of python/, E-ElastiQuant with error feedback
#                      ddp-accumulate DDP, a step for 4 batches, buckets as ddp-tuned
#                      ddp-local      PyTorch, parameters averaged after every 4 steps (post-local SGD)
#                      torch          PyTorch in one process with as many threads as there are ranks, and all their
#                                     images: no link
#                      accumulate     as best, a step for 4 batches
#                      local          as best, local SGD: models averaged after every 4 steps
#   --steps S        measured steps of a run, after 2 warm-up steps [6]
#   --rounds R       every way is run R times, alternating [1]
#   --out FILE       the table goes to FILE and the steps to FILE.csv [stdout only]
#   --add            adds to the steps in FILE.csv: a long table in several short calls; what it has already of these
#                    rows and ways are earlier rounds
#   --help           this text
#
# A figure is the median of all steps, of batches where a step has 4, and of a fourth of the time of 4
# steps where these share a round; the time of a step is that of its slowest rank. Images are
# synthetic. Each rank has one computing thread, also with DDP. PYTHON names the interpreter whose
# PyTorch is measured [/usr/bin/python3]. Arguments after -- are passed to equant-train.
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
export EQUANT_CODEC_LIBRARY=${EQUANT_CODEC_LIBRARY:-$EQT_ROOT/build/release/libequant_codec.so}  # for ddp-equant
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
    accumulate) printf '%s\n' --set train.accumulate=4 ;;
    local) printf '%s\n' --set synchronization.algorithm=local-sgd --set synchronization.local_steps=4 ;;
    alone) printf '%s\n' "${raw[@]}" --set synchronization.algorithm=none ;;
    *) fail 2 "unknown way \"$1\"; see --help." ;;
  esac
}

# burst_used: prints the burst of the links of the last run.
burst_used() {
  "$python" -c 'import json, sys; print(json.loads(open(sys.argv[1]).readline())["burst_bytes"])' "$work/counters"
}

# ours MODEL BATCH RATE WAY ROUND: appends a line for each step, or for each round of 4 steps.
ours() {
  local extra=() images words batches=1 rounds_of=1
  words=$(arguments "$4") || exit 2
  mapfile -t extra <<<"$words"
  [[ -n $words ]] || extra=()
  [[ $4 != accumulate ]] || batches=4
  [[ $4 != local ]] || rounds_of=4
  images=$((2 * ranks * $2 * batches * rounds_of * (steps + 2)))
  OMP_NUM_THREADS=1 "$EQT_ROOT/scripts/netlab.sh" --ranks "$ranks" --rate "$3" --counters "$work/counters" -- \
    "$program" --config "$work/config.json" --quiet --out "$work/run" --overwrite --set "model.name=$1" \
    --set "train.batch_size=$2" --set "data.limit_train=$images" --set data.limit_test=16 \
    --set train.steps=$((rounds_of * (steps + 2))) --set train.evaluate_every=0 --set threads_per_rank=1 \
    --set data.resize="$pixels" --set output.progress=off ${extra[0]+"${extra[@]}"} >"$work/log" 2>&1 || {
    tail -n 5 "$work/log" >&2
    fail 1 "training $1 with \"$4\" at $3 failed; its last words stand above."
  }
  "$python" - "$work/run/metrics.jsonl" "$1,$2,$3,$(burst_used),$4,$5" $batches $rounds_of >>"$work/steps.csv" <<'PYTHON'
import json, sys
batches, steps = map(int, sys.argv[3:])
records = [json.loads(line) for line in open(sys.argv[1])]
seconds = [record["seconds"]["total"] for record in records if record["type"] == "step"]
for first in range(2 * steps, len(seconds), steps):
    print(f"{sys.argv[2]},{first + steps},{sum(seconds[first:first + steps]) / steps / batches}")
PYTHON
}

declare -A fastest=()  # by row: the number of DDP's buckets

# find_buckets MODEL BATCH RATE: sets fastest of the row.
find_buckets() {
  local best="" buckets seconds
  [[ -z ${fastest[$1:$2@$3]:-} ]] || return 0
  for buckets in 2 4 8 16 32; do
    by_torch "$1" "$2" "$3" 3 --buckets "$buckets"
    seconds=$("$python" -c 'import json, statistics, sys
print(statistics.median(json.loads([line for line in open(sys.argv[1]) if line[0] == "{"][-1])["step_seconds"]))' \
      "$work/ddp")
    [[ -n $best && $(printf '%s\n' "$best" "$seconds" | sort -g | head -n 1) == "$best" ]] || {
      best=$seconds
      fastest[$1:$2@$3]=$buckets
    }
  done
  say "DDP is fastest in ${fastest[$1:$2@$3]} buckets" >&2
}

# by_torch MODEL BATCH RATE STEPS ARGUMENT...: runs PyTorch with every rank on a host of its own; in one process with
# as many threads if an argument is --threads. Its report is in $work/ddp.
by_torch() {
  local model=$1 batch=$2 rate=$3 count=$4 processes=$ranks threads=1
  shift 4
  [[ " $* " != *" --threads "* ]] || { processes=1 threads=$ranks; }
  OMP_NUM_THREADS=$threads GLOO_SOCKET_IFNAME=eth0 "$EQT_ROOT/scripts/netlab.sh" --no-mpi --ranks "$processes" --rate "$rate" \
    --counters "$work/counters" -- "$python" "$EQT_ROOT/tests/bench/ddp_baseline.py" --model "$model" \
    --batch "$batch" --ranks "$processes" --pixels "$pixels" --warmup 3 --steps "$count" --channels-last --join "$@" \
    >"$work/ddp" 2>"$work/log" || {
    tail -n 5 "$work/log" >&2
    fail 1 "$model with DDP at $rate ($*) failed; its last words stand above."
  }
}

# theirs MODEL BATCH RATE WAY ROUND: the same by PyTorch.
theirs() {
  case $4 in
    ddp) by_torch "$1" "$2" "$3" "$steps" ;;
    ddp-buckets) by_torch "$1" "$2" "$3" "$steps" --buckets 16 ;;
    # Its callbacks wait for messages in Gloo's own two threads, which would wait for each other with two buckets.
    ddp-powersgd) by_torch "$1" "$2" "$3" "$steps" --hook powersgd --buckets 1 ;;
    ddp-equant) by_torch "$1" "$2" "$3" "$steps" --hook e-elastiquant --warmup 8 ;;
    ddp-local) by_torch "$1" "$2" "$3" "$steps" --local 4 ;;
    torch) by_torch "$1" $((ranks * $2)) "$3" "$steps" --threads "$ranks" ;;
    *)
      find_buckets "$1" "$2" "$3"
      set -- "$@" --buckets "${fastest[$1:$2@$3]}"
      case $4 in
        ddp-tuned) ;;
        ddp-fp16 | ddp-bf16) set -- "$@" --hook "${4#ddp-}" ;;
        ddp-accumulate) set -- "$@" --accumulate 4 ;;
        *) fail 2 "unknown way \"$4\"; see --help." ;;
      esac
      by_torch "$1" "$2" "$3" "$steps" "${@:6}"
      ;;
  esac
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
# The last round of these rows and ways in the file that is added to.
before=$(awk -F, -v rows="$rows" -v ways="$ways" '
  BEGIN { split(rows, row, ","); split(ways, way, ","); for (i in row) for (j in way) wanted[row[i] "," way[j]] }
  ($1 ":" $2 "@" $3 "," $5) in wanted && $6 > last { last = $6 } END { print last + 0 }' "$work/steps.csv")
for ((round = before + 1; round <= before + rounds; ++round)); do
  for row in ${rows//,/ }; do
    model=${row%%:*} rate=${row#*@} batch=${row#*:}
    batch=${batch%@*}
    for way in ${ways//,/ }; do
      say "round $round, $model, batch $batch, $rate, $way" >&2
      if [[ $way == ddp || $way == ddp-* || $way == torch ]]; then
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
