#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The compressor auto in whole runs: records and decisions, a measured link, replay, uneven batches,
# what it refuses, and notes about gradients whose noise is not what it seems.
# CTest gives it the program without LibTorch, which starts faster: what the compressor decides follows from
# gradients, whatever computes them. open_bits.sh decides by those of LibTorch.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

auto=(--set compressor.name=auto --set compressor.observe_every=2 --set compressor.decide_every=2
  --set train.steps=10 --set compressor.skip_below=500)

# A measured link: what it decides is recorded, and another run repeats it.
train 2 measured "${auto[@]}"
expect_code 0 "measured"
expect_equal true "$(summary replicas_identical)" "measured: replicas"
hash=$(summary parameter_hash)
python3 - "$RUN" <<'PY' || wrong "measured: records or decisions are not as documented"
import json, sys
records = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
lines = [json.loads(line) for line in open(sys.argv[1] + "/decisions.jsonl")]
noise = [r for r in records if r["type"] == "noise"]
# Steps 0, 1, 2, 3, 4, 6 and 8 are observed, every second observation decides. A decision that
# cannot wait, because links became slow or noise great, comes after any of them.
assert [r["step"] for r in noise] == [1, 2, 3, 4, 5, 7, 9], noise
steps = [d["step"] for d in lines]
assert steps == sorted(set(steps)) and {2, 4, 7} <= set(steps) <= {r["step"] for r in noise}, lines
for r in noise:
    assert set(r["gradient_noise"]) == set(r["grade"]) and len(r["grade"]) > 10, r
    assert r["noise_scale"] >= 0, r
at = {r["step"]: r for r in noise}
for d in lines:
    assert d["kind"] == "grades" and d["why"], d
    assert d["values"][1:] == list(at[d["step"]]["grade"].values()), d
    share = at[d["step"]]["noise_share"]
    assert share is None or share <= 1.25 * 0.1, at[d["step"]]
PY
program report "$RUN"
expect_code 0 "report of measured"
for file in added-noise.svg bytes-by-step.svg seconds-by-step.svg grades.svg; do
  [[ -s $RUN/report/$file ]] || ! command -v gnuplot >/dev/null || wrong "report of measured: there is no $file"
done
python3 - "$RUN" <<'PY' || wrong "the report tells other changes than the decisions"
import csv, json, sys
run = json.loads(open(sys.argv[1] + "/metrics.jsonl").readline())["grades"]
now, changes = [run["start"]] * len(run["tensors"]), []
for line in open(sys.argv[1] + "/decisions.jsonl"):
    decision = json.loads(line)
    grades = decision["values"][1:]
    changed = sum(a != b for a, b in zip(now, grades))
    if changed:
        changes.append((str(decision["step"]), changed, decision["why"]))
    now = grades
assert changes, "no decision changed anything"
rows = list(csv.DictReader(open(sys.argv[1] + "/report/changes.csv")))
assert [(r["step"], float(r["changed"]), r["why"]) for r in rows] == changes, rows
PY
train 2 again "${auto[@]}" --set "compressor.replay=$WORK/measured/decisions.jsonl"
expect_code 0 "replayed"
expect_equal "$hash" "$(summary parameter_hash)" "replayed: the parameters"
cmp -s "$WORK/measured/decisions.jsonl" "$RUN/decisions.jsonl" || wrong "replayed: other decisions"

# Decisions of a shorter run, of another model, and of nobody.
train 2 longer "${auto[@]}" --set train.steps=20 --set "compressor.replay=$WORK/measured/decisions.jsonl"
expect_failure 3 'compressor.replay: expected a decision after step [0-9]+, found none' "a shorter run's decisions"
train 2 other "${auto[@]}" --set model.name=resnet18 --set "compressor.replay=$WORK/measured/decisions.jsonl"
expect_failure 3 'compressor.replay, step 2: expected grades of [0-9]+ tensors of this model' "another model's decisions"
train 2 nobody "${auto[@]}" --set "compressor.replay=$WORK/nothing.jsonl"
expect_failure 3 'nothing.jsonl' "decisions that are not there"

# With a rate nothing is measured: two runs are one. A slow link sends no more than a fast one.
declare -A bytes
for rate in 1 100000; do
  train 2 "link-$rate" "${auto[@]}" --set "compressor.link=$rate"
  expect_code 0 "link $rate"
  bytes[$rate]=$(summary sent_bytes)
  hash=$(summary parameter_hash)
  train 2 "link-$rate-again" "${auto[@]}" --set "compressor.link=$rate" --set synchronization.overlap=false
  expect_equal "$hash" "$(summary parameter_hash)" "link $rate, again without overlap: the parameters"
done
expect_number "${bytes[1]}" "<" "${bytes[100000]}" "bytes of a slow and a fast link"

# Batches of another size on each rank, as ranks and as workers.
uneven=("${auto[@]}" --set 'train.batch_sizes=[24, 4, 12]' --set compressor.link=10)
train 3 uneven "${uneven[@]}"
expect_code 0 "uneven batches"
hash=$(summary parameter_hash)
train 1 simulated "${uneven[@]}" --simulate 3
expect_code 0 "uneven batches, simulated"
expect_equal "$hash" "$(summary parameter_hash)" "uneven batches, simulated: the parameters"

# With a memory grades are rates, chosen by what stays in it; ranks and workers have one result.
memory=("${auto[@]}" --set synchronization.error_feedback=ef14 --set compressor.link=10 --set train.steps=20)
train 2 memory "${memory[@]}"
expect_code 0 "with a memory"
expect_equal true "$(summary replicas_identical)" "with a memory: replicas"
hash=$(summary parameter_hash)
python3 - "$RUN" <<'PY' || wrong "with a memory: records or decisions are not as documented"
import json, sys
records = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
decisions = [json.loads(line) for line in open(sys.argv[1] + "/decisions.jsonl")]
noise = [r for r in records if r["type"] == "noise"]
assert decisions and all("stay in the memory" in d["why"] for d in decisions), decisions
for r in noise:
    assert r["noise_scale"] is None, r
    if r["step"] >= decisions[0]["step"]:
        assert 0 < r["noise_share"] <= 1.25 * 0.25, r
PY
train 1 workers-memory "${memory[@]}" --simulate 2
expect_code 0 "with a memory, simulated"
expect_equal "$hash" "$(summary parameter_hash)" "with a memory, simulated: the parameters"
train 2 memory-again "${memory[@]}" --set "compressor.replay=$WORK/memory/decisions.jsonl"
expect_code 0 "with a memory, replayed"
expect_equal "$hash" "$(summary parameter_hash)" "with a memory, replayed: the parameters"

# One rank sends nothing and loses nothing.
train 1 alone "${auto[@]}"
expect_code 0 "one rank"
hash=$(summary parameter_hash)
train 1 none --set train.steps=10
expect_equal "$hash" "$(summary parameter_hash)" "one rank: the parameters without a compressor"

# Where no grade loses anything, the mean is that of dense, bit for bit: in shared memory, by
# messages, and among workers. A menu's middle is what it starts with, and nothing is decided.
exact=(--set compressor.name=auto --set 'compressor.menu=["bf16", "none"]' --set compressor.decide_every=100
  --set train.steps=6 --set compressor.link=100)
train 3 dense --set train.steps=6
hash=$(summary parameter_hash)
train 3 exact "${exact[@]}"
expect_code 0 "grades that lose nothing"
expect_equal "$hash" "$(summary parameter_hash)" "grades that lose nothing: the parameters"
EQT_LINK=latency_ms=0.01 train 3 messages "${exact[@]}"
expect_equal "$hash" "$(summary parameter_hash)" "grades that lose nothing, by messages: the parameters"
train 1 workers "${exact[@]}" --simulate 3
expect_equal "$hash" "$(summary parameter_hash)" "grades that lose nothing, simulated: the parameters"

# Noise that is not what it seems.
train 2 boards "${auto[@]}" --set train.emulate_compute=0.01 --set compressor.link=100
expect_code 0 "emulated boards"
grep -q 'gradients of emulated boards are drawn' "$RUN/metrics.jsonl" || wrong "emulated boards: no note"
train 2 skewed "${auto[@]}" --set data.partition.kind=skew --set data.partition.skew=0.5 --set compressor.link=100
expect_code 0 "skewed data"
grep -q "what ranks' data differ in counts as noise" "$RUN/metrics.jsonl" || wrong "skewed data: no warning"
finish
