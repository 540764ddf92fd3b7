#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Theory compared with training: the variance that a run records agrees with the analysis of its
# dumped gradient, and its messages are within their bounds.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

program schema
grep -q dump_gradients "$OUT" || skip "this program cannot dump gradients"

for compressor in elastiquant e-elastiquant qsgd-v; do
  train 1 "$compressor" --set "compressor.name=$compressor" --set train.steps=1 --set output.dump_gradients=1
  expect_code 0 "a step with $compressor"
  [[ $CODE -eq 0 ]] || finish
  gradient=$RUN/gradients/step00000001.rank0.npy
  program analyze variance --compressor "$compressor" --gradient "$gradient" --draws 30 --json
  expect_code 0 "analyze variance of $compressor's gradient"
  python3 - "$OUT" "$RUN/summary.json" <<'PY' || wrong "$compressor: recorded variance is not where theory says"
import json, sys
row = json.load(open(sys.argv[1]))
recorded = json.load(open(sys.argv[2]))["quantization_variance"]
print("recorded", recorded, "exact", row["exact"], "deviation of one draw", row["one_draw_deviation"])
assert abs(recorded - row["exact"]) <= 5 * row["one_draw_deviation"], row
assert row["exact"] <= row["worst_case"] <= row["theorem2"], row
PY
done
program analyze bits --compressor e-elastiquant --gradient "$gradient" --draws 5 --json
expect_code 0 "analyze bits of a gradient"
python3 - "$OUT" <<'PY' || wrong "e-elastiquant: a message of a real gradient exceeds its bound"
import json, sys
row = json.load(open(sys.argv[1]))
for coder in row["coders"]:
    assert coder["bound"] is None or coder["measured"] <= coder["bound"] + 1e-9, coder
PY
finish
