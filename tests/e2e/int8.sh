#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training with 8-bit operands: with allreduce and with gossip, the same after a resume, also as float32 and
# back; what is not built is refused before training; bench convolutions.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
grep -Eq 'avx2|asimd' /proc/cpuinfo || skip "this processor has neither AVX2 nor NEON, so a step takes minutes"

eight=(--set model.precision=int8 --set train.batch_size=8 --set data.limit_test=32)
train 2 whole "${eight[@]}" --set compressor.name=e-elastiquant --set train.steps=6
expect_code 0 "allreduce"
expect_equal true "$(summary replicas_identical)" "allreduce: replicas"
grep -qE '"int8":\{"kernels":"[a-z0-9-]+","arena_bytes":[0-9]+,"saved_bytes":[0-9]+\}' "$RUN/metrics.jsonl" ||
  wrong "allreduce: no 8-bit kernels in the run record"
expect_equal 0 "$(summary clipped_values)" "allreduce: clipped values"
whole=$(summary parameter_hash)
train 2 float "${eight[@]}" --set model.precision=fp32 --set compressor.name=e-elastiquant --set train.steps=6
expect_code 0 "float32"
[[ $whole != "$(summary parameter_hash)" ]] || wrong "8 bits and float32 have the same weights"

stop=("${eight[@]}" --set compressor.name=e-elastiquant --set checkpoint.every_steps=3)
train 2 stopped "${stop[@]}" --set train.steps=3
expect_code 0 "a part of the run"
cp -r "$RUN" "$WORK/changed"
train 2 stopped "${stop[@]}" --set train.steps=6 --resume
expect_code 0 "resumed"
expect_equal "$whole" "$(summary parameter_hash)" "resumed: weights"
train 2 changed "${stop[@]}" --set train.steps=5 --set model.precision=fp32 --resume
expect_code 0 "resumed as float32"
expect_equal 5 "$(summary steps)" "resumed as float32: steps"
grep -q 'model.precision \\"fp32\\" instead of \\"int8\\".*parameters are float32' "$RUN/metrics.jsonl" ||
  wrong "resumed as float32: no note"

export EQT_FAULT=nan:rank=1,step=5
train 2 poisoned "${eight[@]}" --set train.steps=8
expect_failure 4 'rank 1/2.*step 5, conv1: weights: .*nan' "a weight that is no number"
train 2 recovered "${eight[@]}" --set train.steps=8 --set checkpoint.every_steps=2 --set train.on_divergence=rollback
unset EQT_FAULT
expect_code 0 "a rollback"
expect_equal 8 "$(summary steps)" "a rollback: steps"
grep -q 'rank 1: step 5, conv1: weights.*went back from step 6 to step 4' "$RUN/metrics.jsonl" || wrong "a rollback: no note"

train 2 gossip "${eight[@]}" --set model.normalization=range-evonorm --set compressor.name=int8 --set synchronization.algorithm=choco-sgd --set train.steps=4
expect_code 0 "gossip with 8-bit messages"
grep -q '"consensus_distance": [0-9]' "$RUN/summary.json" || wrong "gossip: no consensus distance"

program analyze memory "$WORK/whole" "$WORK/float" --json
expect_code 0 "analyze memory of runs"
python3 - "$OUT" <<'PY' || wrong "analyze memory: not what the runs recorded"
import json, sys
low, full = [json.loads(line) for line in open(sys.argv[1])]
assert (low["precision"], full["precision"]) == ("int8", "fp32"), (low, full)
assert 0 < low["recorded"]["saved"] < low["recorded"]["arena"] < low["modelled"]["step"] * 1.5, low
assert "arena" not in full["recorded"] and full["recorded"]["peak_rss"] > 0, full
assert 0 < low["recorded"]["sent_per_step"] < full["recorded"]["estimate"], low
PY
program analyze memory "$WORK/whole" --batch-size 4
expect_failure 2 'batch-size' "the batch size of runs"

run "$EQT_PROGRAM" evaluate "$WORK/whole" --set data.limit_test=32
expect_code 0 "evaluate"

# refuse REGEX WHAT [ARGUMENTS]: check ends with 2.
refuse() {
  local text=$1 what=$2
  shift 2
  program check --config tiny.json "${eight[@]}" "$@"
  expect_failure 2 "$text" "$what"
}
refuse 'model.int8 only with' "options of 8 bits without them" --set model.precision=bf16 --set model.int8.ranges=tensor
refuse 'model.freeze: expected patterns that match' "frozen layers that are none" --set 'model.freeze=["fd.*"]'

program bench convolutions --seconds 0.002 --json
expect_code 0 "bench convolutions"
python3 - "$OUT" <<'PY' || wrong "bench convolutions: see the exception"
import json, math, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert len(rows) >= 8, rows
for row in rows:
    numbers = [v for v in row.values() if isinstance(v, float)]
    assert numbers and all(math.isfinite(v) and v > 0 for v in numbers), row
PY
program bench convolutions --model airbench_small --seconds 0.002 --json
expect_code 0 "bench convolutions of a model"
python3 - "$OUT" <<'PY' || wrong "bench convolutions of a model: see the exception"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
first = rows[0]
layers = [(r["height"], r["in_channels"], r["out_channels"], r["kernel"]) for r in rows
          if r["kernels"] == first["kernels"]]
# Blocks of 32, 64 and 128 channels behind 24 whitened ones; images of 31 x 31, halved three times.
assert layers == [(31, 24, 32, 3), (15, 32, 32, 3), (15, 32, 64, 3), (7, 64, 64, 3), (7, 64, 128, 3),
                  (3, 128, 128, 3)], layers
PY
program bench convolutions --kernels nothing
expect_failure 2 'expected one of .*found nothing' "unknown kernels"
finish
