#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Batches of another size on each rank: one batch of all samples, whoever computes them; batches by
# speed, their records, replay and resume; refusals.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# loss_of FOLDER: the losses of its steps.
losses_of() {
  python3 - "$WORK/$1/metrics.jsonl" <<'PY'
import json, sys
records = [json.loads(line) for line in open(sys.argv[1])]
print(*[r["loss"] for r in records if r["type"] == "step"])
PY
}

# same_losses A B: to 1e-5 of each other, step by step: sums of another order.
same_losses() {
  python3 - "$(losses_of "$1")" "$(losses_of "$2")" <<'PY' || wrong "$1 and $2: other losses"
import sys
a, b = ([float(x) for x in text.split()] for text in sys.argv[1:])
assert len(a) == len(b) >= 4, (a, b)
assert all(abs(x - y) <= 1e-5 * abs(x) for x, y in zip(a, b)), (a, b)
PY
}

# With normalization by sample it does not matter who computes a sample.
mean=(--set model.normalization=groupnorm --set compressor.name=none --set optimizer.learning_rate=0.005)
train 1 one "${mean[@]}" --set train.batch_size=32
expect_code 0 "one rank"
train 3 three "${mean[@]}" --set 'train.batch_sizes=[20, 3, 9]'
expect_code 0 "three ranks"
expect_equal true "$(summary replicas_identical)" "three ranks: replicas"
same_losses one three
train 2 two "${mean[@]}" --set 'train.batch_sizes=[5, 27]'
same_losses one two
train 2 halves "${mean[@]}" --set 'train.batch_sizes=[4, 12]' --set train.accumulate=2
same_losses one halves

# Any compressor, and one process that plays all ranks, running statistics included.
uneven=(--set 'train.batch_sizes=[24, 4, 12]' --set compressor.name=e-elastiquant --set model.normalization=batchnorm)
train 3 compressed "${uneven[@]}"
expect_code 0 "compressed"
whole=$(summary parameter_hash) accuracy=$(summary test_accuracy)
train 1 simulated "${uneven[@]}" --simulate 3
expect_code 0 "simulated"
expect_equal "$whole" "$(summary parameter_hash)" "simulated: the parameters"
expect_equal "$accuracy" "$(summary test_accuracy)" "simulated: the accuracy"

# One batch for each: the same weights as without the key, but samples are dealt in another order.
train 2 equal --set 'train.batch_sizes=[16, 16]'
expect_code 0 "equal batches"

# Batches by speed, on boards that only wait: the slow one ends with a quarter of the others' samples.
boards=(--set 'train.emulate_compute=[0.02, 0.02, 0.08]' --set train.batch_sizes=auto --set train.balance_every=10
  --set train.batch_least=2 --set train.batch_size=24 --set train.steps=40 --set compressor.name=elastiquant)
train 3 boards "${boards[@]}" --set output.progress=lines
expect_code 0 "boards"
hash=$(summary parameter_hash)
python3 - "$RUN" <<'PY' || wrong "boards: decisions or records are not those of a slow rank"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1] + "/decisions.jsonl")]
assert lines and all(d["kind"] == "batches" and sum(d["values"]) == 72 and d["why"] for d in lines), lines
epoch = [r for r in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")) if r["type"] == "epoch"][-1]
sizes = epoch["batch_sizes"]
assert sizes == lines[-1]["values"] and sizes[2] < 0.6 * sizes[0], epoch
speeds = epoch["rank_samples_per_second"]
assert 2 < speeds[0] / speeds[2] < 8 and len(epoch["rank_idle_share"]) == 3, epoch
PY
grep -Eq 'rank 2: batch [0-9]+, .*idle' "$ERR" || wrong "boards: the console does not show rank 2"

# The same decisions again, on boards of one speed, and resumed in the middle.
replay=("${boards[@]}" --set train.emulate_compute=0 --set "train.replay=$WORK/boards/decisions.jsonl")
train 3 again "${replay[@]}"
expect_code 0 "replayed"
expect_equal "$hash" "$(summary parameter_hash)" "replayed: the parameters"
cmp -s "$WORK/boards/decisions.jsonl" "$WORK/again/decisions.jsonl" || wrong "replayed: other decisions"
train 3 resumed "${replay[@]}" --set train.steps=13 --set checkpoint.every_steps=13
train 3 resumed "${replay[@]}" --set checkpoint.every_steps=13 --resume
expect_code 0 "replayed and resumed"
expect_equal "$hash" "$(summary parameter_hash)" "replayed and resumed: the parameters"

# Measured batches in a run that computes: every sample once an epoch, resumed by the batches of the checkpoint.
real=(--set train.batch_sizes=auto --set train.balance_every=1 --set train.batch_least=2 --set train.steps=0)
train 2 real "${real[@]}"
expect_code 0 "real"
expect_equal true "$(summary replicas_identical)" "real: replicas"
expect_equal 8 "$(summary steps)" "real: steps of an epoch"
if [[ -e $RUN/decisions.jsonl ]]; then
  hash=$(summary parameter_hash)
  train 2 real-again "${real[@]}" --set "train.replay=$WORK/real/decisions.jsonl" --set checkpoint.every_steps=3 --set train.steps=3
  train 2 real-again "${real[@]}" --set "train.replay=$WORK/real/decisions.jsonl" --set checkpoint.every_steps=3 --resume
  expect_code 0 "real, replayed and resumed"
  expect_equal "$hash" "$(summary parameter_hash)" "real, replayed and resumed: the parameters"
fi

# Other ranks than the decisions, a list of the wrong length, too few samples.
train 2 other "${boards[@]}" --set train.emulate_compute=0 --set "train.replay=$WORK/boards/decisions.jsonl"
expect_failure 3 'train.replay, step [0-9]+: expected 2 batches of 48 samples' "decisions of three ranks on two"
echo '{"step": "x"}' >"$WORK/broken.jsonl"
train 2 broken --set train.batch_sizes=auto --set "train.replay=$WORK/broken.jsonl"
expect_failure 3 'broken.jsonl, line 1' "a file that is no decisions.jsonl"
train 2 length --set 'train.batch_sizes=[1, 2, 3]'
expect_failure 2 'train.batch_sizes: expected 2 numbers' "a list of three for two ranks"
train 2 few --set train.batch_sizes=auto --set train.batch_least=17
expect_failure 2 'at least train.batch_least' "fewer samples than batch_least for each"
train 2 many --set 'train.batch_sizes=[200, 100]'
expect_failure 2 'at most the 256 training samples' "more samples than there are"
train 1 speed --set train.batch_sizes=auto --simulate 2
expect_failure 2 'ranks of one process have one speed' "auto in a simulation"
refuse_config 'whose votes have no weight' "votes" --set train.batch_sizes=auto --set compressor.name=signsgd
refuse_config 'weighted by batch' "gossip" --set 'train.batch_sizes=[8,8]' --set synchronization.algorithm=choco-sgd
refuse_config 'weighted by batch' "local SGD" --set 'train.batch_sizes=[8,8]' --set synchronization.algorithm=local-sgd
refuse_config 'deals one permutation' "skewed data" --set train.batch_sizes=auto --set data.partition.kind=skew
refuse_config 'found a run that decides nothing' "replay of nothing" --set train.replay=x
finish
