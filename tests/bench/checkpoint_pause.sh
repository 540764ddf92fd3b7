#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The cost of checkpoints: the pause of a save compared with the steps between two saves, and the
# time of a step during writing compared with other steps.
#
#   tests/bench/checkpoint_pause.sh [MODEL [BATCH_SIZE [EVERY [SAVES]]]]     resnet18 8 50 4, 2 ranks
#
# The model trains with error feedback, so a rank saves parameters, momentum and residual. Prints one
# line; verifies first that the newest set is complete.
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
model=${1:-resnet18} batch=${2:-8} every=${3:-50} saves=${4:-4}
RUN_LIMIT=1200
train 2 pause --set "model.name=$model" --set "train.batch_size=$batch" --set "train.steps=$((every * saves))" \
  --set "checkpoint.every_steps=$every" --set compressor.name=topk --set data.limit_train=0 \
  --set synchronization.timeout_seconds=300 --set train.evaluate_every=0
expect_code 0 "the run"
[[ -s $RUN/checkpoints/step-$(printf %08d $((every * saves)))/manifest.json ]] || wrong "the newest set is not complete"
python3 - "$RUN/metrics.jsonl" "$every" <<'PY'
import json, re, statistics, sys
records = [json.loads(line) for line in open(sys.argv[1])]
every = int(sys.argv[2])
note = next(r["text"] for r in records if r["type"] == "note" and "paused training" in r["text"])
count, megabytes, total, most = re.match(
    r"(\d+) checkpoints of ([\d.]+) MB a rank paused training for ([\d.e-]+) s, at most ([\d.e-]+) s", note).groups()
steps = [r for r in records if r["type"] == "step"]
seconds = {r["step"]: r["seconds"]["total"] for r in steps}
median = statistics.median(seconds.values())
after = [seconds[s] for s in seconds if s % every in (1, 2) and s > every]
pause = float(total) / int(count)
print(f"{megabytes} MB a rank; median step {median:.3f} s; pause {pause * 1e3:.1f} ms a save, at most "
      f"{float(most) * 1e3:.1f} ms: {100 * pause / median:.2f} % of one step, "
      f"{100 * pause / (every * median):.4f} % of the {every} between two saves; the two steps beside "
      f"writing take {statistics.mean(after) / median if after else float('nan'):.3f} of the median")
PY
finish
