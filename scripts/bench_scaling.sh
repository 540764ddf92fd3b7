#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures how synchronization scales with the number of emulated boards: a fixed global batch is
# divided among more and more boards, each on its own host behind a shaped link (netlab.sh). A board
# waits instead of computing (train.emulate_compute); encoding, sending and decoding are real.
# Writes a Markdown table and a CSV file.
#
#   scripts/bench_scaling.sh [options]
#
#   --models LIST    networks whose published layout is synchronized [resnet34,resnet50]
#   --boards LIST    numbers of boards [2,4,7]
#   --rate RATE      of every link [100mbit]
#   --compute S      seconds of computing per step on 2 boards; N boards take 2 S / N
#                    [0 = as long as 2 boards need to send the float32 gradient at that rate]
#   --schemes LIST   [sgd-mpi,sgd,8-bit,4-bit,e-elastiquant]
#                      sgd-mpi        float32, one blocking MPI_Allreduce of the whole gradient (64 MiB at a time)
#                      sgd            float32, our pipeline
#                      8-bit, 4-bit   elastiquant with 8 or 4 bits, fixed length
#                      e-elastiquant  elastiquant with entropy coding
#   --steps S        measured steps of a run, after one warm-up step [3]
#   --out FILE       the table goes to FILE and the steps to FILE.csv [stdout only]
#   --help           this text
#
# Columns, medians in seconds per step of rank 0: Cp computing, En encoding, De decoding, Tx
# waiting for the network (nothing overlaps), T in total, Sp the change of T with more boards.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

models=resnet34,resnet50
boards=2,4,7
rate=100mbit
compute=0
schemes=sgd-mpi,sgd,8-bit,4-bit,e-elastiquant
steps=3
out=""
declare -A options=(
  [--models]="text models" [--boards]="text boards" [--rate]="text rate" [--compute]="text compute"
  [--schemes]="text schemes" [--steps]="natural steps" [--out]="text out"
)
read_all_options "$@"
for n in ${boards//,/ }; do natural --boards "$n"; done
program=${EQT_PROGRAM:-$EQT_DEFAULT_PROGRAM}
[[ -x $program ]] || fail 2 "expected the program at $program: $EQT_PROGRAM_REMEDY, or set EQT_PROGRAM."
python=${PYTHON:-/usr/bin/python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# arguments SCHEME: prints its settings.
arguments() {
  case $1 in
    sgd-mpi) printf '%s\n' --set compressor.name=none --set synchronization.collective=mpi-allreduce \
      --set synchronization.bucket_mib=1024 ;;
    sgd) printf '%s\n' --set compressor.name=none --set synchronization.collective=dense ;;
    8-bit) printf '%s\n' --set compressor.name=elastiquant --set compressor.bits=8 ;;
    4-bit) printf '%s\n' --set compressor.name=elastiquant --set compressor.bits=4 ;;
    e-elastiquant) printf '%s\n' --set compressor.name=e-elastiquant ;;
    *) fail 2 "unknown scheme \"$1\"; see --help." ;;
  esac
}

# per_board MODEL BOARDS: prints the seconds that each of that many boards computes.
per_board() {
  "$python" - "$1" "$2" "$compute" "$rate" <<'PYTHON'
import re, sys
model, boards, compute, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
parameters = {"resnet18": 11689512, "resnet34": 21797672, "resnet50": 25557032}
if compute <= 0:
    if model not in parameters:
        sys.exit(f"the gradient of {model} is not known here: give --compute")
    number, unit = re.fullmatch(r"([0-9.]+)([kmg])bit", rate).groups()
    compute = 32 * parameters[model] / (float(number) * {"k": 1e3, "m": 1e6, "g": 1e9}[unit])
print(f"{compute * 2 / boards:.4f}")
PYTHON
}

# run MODEL SCHEME BOARDS: appends the measured steps.
run() {
  local extra=() seconds words
  words=$(arguments "$2") || exit 2
  mapfile -t extra <<<"$words"
  seconds=$(per_board "$1" "$3")
  printf '{"name":"scaling","model":{"name":"%s"},"train":{"emulate_compute":%s,"steps":%d}}\n' \
    "$1" "$seconds" $((steps + 1)) >"$work/config.json"
  "$EQT_ROOT/scripts/netlab.sh" --ranks "$3" --rate "$rate" --counters "$work/counters" -- \
    "$program" --config "$work/config.json" --quiet --out "$work/run" --overwrite \
    --set synchronization.overlap=false --set threads_per_rank=1 "${extra[@]}" >"$work/log" 2>&1 || {
    tail -n 5 "$work/log" >&2
    fail 1 "$1 with $2 on $3 boards failed; its last words stand above."
  }
  "$python" - "$work/run/metrics.jsonl" "$1,$2,$3" >>"$work/steps.csv" <<'PYTHON'
import json, sys
for line in open(sys.argv[1]):
    record = json.loads(line)
    if record["type"] == "step" and record["step"] > 1:
        s = record["seconds"]
        print(f'{sys.argv[2]},{record["step"]},{s["compute"]},{s["encode"]},'
              f'{s["decode"]},{s["transfer"]},{s["total"]}')
PYTHON
}

echo "model,scheme,boards,step,compute,encode,decode,transfer,total" >"$work/steps.csv"
for model in ${models//,/ }; do
  for scheme in ${schemes//,/ }; do
    for n in ${boards//,/ }; do
      say "$model, $scheme, $n boards" >&2
      run "$model" "$scheme" "$n"
    done
  done
done

"$python" - "$work/steps.csv" "$rate" "$work/counters" >"$work/table" <<'PYTHON'
import collections, csv, json, statistics, sys
rows = collections.defaultdict(list)
for row in csv.DictReader(open(sys.argv[1])):
    rows[row["model"], row["scheme"], int(row["boards"])].append(row)
median = lambda key, column: statistics.median(float(row[column]) for row in rows[key])
burst = json.loads(open(sys.argv[3]).readline())["burst_bytes"]
print(f"Links of {sys.argv[2]}, which pass {burst} bytes at once; seconds per step\n")
print("| model | scheme | boards | Cp | En | De | Tx | T | Sp | En / T |")
print("|---|---|---|---|---|---|---|---|---|---|")
before = {}
for key in rows:
    model, scheme, boards = key
    total, encode = median(key, "total"), median(key, "encode")
    change = f"{total - before[model, scheme]:+.2f}" if (model, scheme) in before else "-"
    before[model, scheme] = total
    print(f"| {model} | {scheme} | {boards} | {median(key, 'compute'):.2f} | {encode:.3f} "
          f"| {median(key, 'decode'):.3f} | {median(key, 'transfer'):.2f} | {total:.2f} | {change} | {100 * encode / total:.1f} % |")
PYTHON
cat "$work/table"
if [[ -n $out ]]; then
  cp "$work/table" "$out"
  cp "$work/steps.csv" "$out.csv"
fi
