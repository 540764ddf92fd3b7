#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Time of a report: makes run folders (25 compressors x 4 seeds x 30 epochs of 150 steps, as large
# as those of real runs) and reports them three times.
#
#   tests/bench/report_speed.sh [RUNS]        RUNS: how many folders [100]
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/common.sh"
[[ ${1:-} != --help && ${1:-} != -h ]] || { usage; exit 0; }
runs=${1:-100}
natural RUNS "$runs"
program=${EQT_PROGRAM:-$EQT_ROOT/build/release/equant-train}
[[ -x $program ]] || fail 2 "expected the program at $program: build it or set EQT_PROGRAM."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 - "$work" "$runs" <<'PYTHON'
import json, math, os, random, sys
work, runs = sys.argv[1], int(sys.argv[2])
draw = random.Random(1)
rooms = ("data", "compute", "encode", "transfer", "decode", "update", "total")
for number in range(runs):
    kind, seed = divmod(number, 4)
    folder = f"{work}/sweep/compressor-{kind:02d},seed={seed}"
    os.makedirs(folder)
    config = {"name": "speed", "seed": seed, "model": {"name": "resnet20"}, "data": {"name": "cifar10"},
              "train": {"epochs": 30, "batch_size": 64}, "compressor": {"name": f"codec{kind:02d}"}}
    json.dump(config, open(f"{folder}/config.json", "w"))
    with open(f"{folder}/metrics.jsonl", "w") as records:
        def write(record):
            records.write(json.dumps(record, separators=(",", ":")) + "\n")
        write({"type": "run", "schema": 1, "name": "speed", "version": "0", "host": "here", "ranks": 4,
               "model": "resnet20", "dataset": "cifar10", "compressor": f"codec{kind:02d}",
               "collective": "dense", "algorithm": "allreduce", "parameters": 272474,
               "train_samples": 50000, "test_samples": 10000,
               "class_histogram": [[draw.randrange(1000, 1500) for _ in range(10)] for _ in range(4)],
               "config": config})
        for epoch in range(1, 31):
            for step in range(150):
                seconds = {room: draw.random() for room in rooms}
                write({"type": "step", "step": 150 * (epoch - 1) + step + 1, "epoch": epoch,
                       "loss": draw.random(), "learning_rate": 0.1, "seconds": seconds,
                       "sent_bytes": 123456, "received_bytes": 123456})
            write({"type": "epoch", "epoch": epoch, "step": 150 * epoch,
                   "train_loss": 2 * math.exp(-epoch / 10) + draw.random() / 10,
                   "test_accuracy": 1 - math.exp(-epoch / 10) - draw.random() / 50, "test_loss": 1,
                   "images_per_second": 700, "seconds": {room: 1.0 for room in rooms},
                   "sent_bytes": 10**8 // (kind + 1), "compression_ratio": kind + 1,
                   "bits_per_value": 32 / (kind + 1), "quantization_variance": draw.random(),
                   "consensus_distance": draw.random()})
    json.dump({"epochs": 30, "steps": 4500, "train_loss": 0.1, "test_accuracy": 0.9 - draw.random() / 20,
               "sent_bytes": 3 * 10**9 // (kind + 1), "bits_per_value": 32 / (kind + 1)},
              open(f"{folder}/summary.json", "w"))
PYTHON
say "$(find "$work/sweep" -name metrics.jsonl | wc -l) run folders, $(du -sh "$work/sweep" | cut -f1)"
TIMEFORMAT='%R s (%U s of computing)'
for _ in 1 2 3; do
  time "$program" report "$work/sweep" --out "$work/report" >"$work/answer"
done
tail -n 1 "$work/answer" | sed "s|$work/||"
