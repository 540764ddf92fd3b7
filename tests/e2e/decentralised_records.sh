#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Results of a gossip run: evaluation of every node and the mean model, bytes by edge and as
# published tables count them, rounds after the last step, and the mean model in model.pt.
# CTest gives it the program without LibTorch, which starts faster: gossip mixes flat buffers. gossip_failures.sh
# and resume.sh have runs of gossip with LibTorch.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
gossip=(--set synchronization.algorithm=d-psgd)
ring=(--set synchronization.topology.directed=true)

# records_hold PYTHON WHAT: assertions about the last run's epochs e, notes and summary s.
records_hold() {
  python3 - "$RUN" "$1" <<'PY' || wrong "$2"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
e = [line for line in lines if line["type"] == "epoch"]
notes = [line["text"] for line in lines if line["type"] == "note"]
s = json.load(open(sys.argv[1] + "/summary.json"))
exec(sys.argv[2])
PY
}

# 128 samples for 4 ranks in batches of 16: 2 steps an epoch. Every step and round sends 4 bytes a
# parameter to one neighbour, and frames of a few dozen bytes.
short=(--set data.limit_train=128 --set train.steps=0 --set train.epochs=2)
train 4 ring "${gossip[@]}" "${ring[@]}" "${short[@]}" --set synchronization.final_rounds=3
expect_code 0 "a run of gossip"
[[ $CODE -eq 0 ]] || finish
records_hold '
d, steps, rounds, n = s["parameters"], 4, 3, 4
assert s["steps"] == steps and len(e) == 2, s
for r in e + [s]:
    nodes = r["node_test_accuracy"]
    assert len(nodes) == n and all(a * 64 == int(a * 64) for a in nodes), nodes
    assert abs(r["node_test_accuracy_mean"] - sum(nodes) / n) < 1e-12, r
    assert r["node_test_accuracy_min"] == min(nodes), r
    assert 0 <= r["test_accuracy"] <= 1 and r["consensus_distance"] > 0, r
    assert 0 < r["consensus_distance_relative"] < 1, r
assert s["evaluation_sent_bytes"] == sum(r["evaluation_sent_bytes"] for r in e), s
assert s["evaluation_sent_bytes"] >= 2 * 8 * d * (n - 1), s
edges = s["sent_bytes_by_edge"]
assert [(x["from"], x["to"]) for x in edges] == [(0, 1), (1, 2), (2, 3), (3, 0)], edges
assert sum(x["bytes"] for x in edges) == s["sent_bytes"] == sum(r["sent_bytes"] for r in e), s
assert s["sent_bytes_by_node"] == [x["bytes"] for x in edges], s
assert 0 < s["sent_bytes_by_node"][0] - 4 * d * (steps + rounds) < 1e-3 * s["sent_bytes"], s
assert s["paper_sent_bytes_per_node"] == 4 * (d + 1) * steps, s
assert s["dense_bytes"] == 8 * d * (n - 1) * (steps + rounds), s
assert abs(s["compression_ratio"] - s["dense_bytes"] / s["sent_bytes"]) < 1e-9, s
assert 32 <= s["bits_per_value"] < 32.1, s
assert s["replicas_identical"] is None, s
assert any("3 rounds of gossip alone" in note for note in notes), notes' "records of a directed ring"
grep -qE '^test accuracy .*averaged model' "$OUT" || wrong "the table does not name the averaged model"
grep -qE '^node test accuracy mean .* from .* to ' "$OUT" || wrong "the table has no node accuracies"
grep -qE '^consensus distance ' "$OUT" || wrong "the table has no consensus distance"
awk 'length > 80 { exit 1 }' "$OUT" || wrong "the table is wider than 80 columns"
with_rounds=$(summary consensus_distance)
rounds_hash=$(summary parameter_hash)

# The same run without the rounds: further apart, and other parameters at the end.
train 4 no_rounds "${gossip[@]}" "${ring[@]}" "${short[@]}"
expect_code 0 "a run without final rounds"
expect_number "$(summary consensus_distance)" ">" "$with_rounds" "consensus distance without final rounds"
expect_different "$rounds_hash" "$(summary parameter_hash)" "hash with and without final rounds"

# The hash of model.pt, by a run that reads it with learning rate 0.
hash_of_file() {
  train 1 "read_$(basename "$1")" --set "model.weights=$1/model.pt" --set synchronization.algorithm=none \
    --set train.steps=1 --set data.limit_train=16 --set optimizer.learning_rate=0
  expect_code 0 "a run from $1/model.pt"
  HASH=$(summary parameter_hash)
}

# With gossip it is the mean, not rank 0's own model, whose hash is in the summary.
hash_of_file "$WORK/no_rounds"
expect_different "$(value "$WORK/no_rounds/summary.json" parameter_hash)" "$HASH" "rank 0's model and model.pt of gossip"
train 2 alone --set synchronization.algorithm=none --set train.steps=2
records_hold '
assert s["sent_bytes"] == 0 and s["sent_bytes_by_edge"] is None and s["sent_bytes_by_node"] is None, s
assert s["paper_sent_bytes_per_node"] is None and len(s["node_test_accuracy"]) == 2, s
assert s["consensus_distance"] > 0, s' "records of ranks that train alone"
hash_of_file "$WORK/alone"
expect_equal "$(value "$WORK/alone/summary.json" parameter_hash)" "$HASH" "rank 0's model and model.pt of ranks alone"

# Compressed: topk is counted as in the tables, which have no other compressors.
train 2 sparse --set synchronization.algorithm=choco-sgd --set compressor.name=topk --set compressor.density=0.1 \
  --set train.steps=2
expect_code 0 "CHOCO with topk"
records_hold '
p = s["paper_sent_bytes_per_node"]
assert p % s["steps"] == 0 and 0.59 < p / s["steps"] / s["parameters"] < 0.62, s
assert sum(x["bytes"] for x in s["sent_bytes_by_edge"]) == s["sent_bytes"], s' "topk as tables count it"
train 2 levels --set synchronization.algorithm=choco-sgd --set compressor.name=qsgd --set train.steps=1
records_hold 'assert s["paper_sent_bytes_per_node"] is None and s["sent_bytes_by_edge"], s' "qsgd is in no table"

# With allreduce there are no such figures.
train 2 equal --set train.steps=1
records_hold '
new = ["node_test_accuracy", "node_test_accuracy_mean", "node_test_accuracy_min", "consensus_distance",
       "consensus_distance_relative", "evaluation_sent_bytes"]
assert all(r[key] is None for key in new for r in e + [s]), s
assert s["sent_bytes_by_edge"] is None and s["paper_sent_bytes_per_node"] is None, s' "records of allreduce"
! grep -qE 'node|consensus|averaged model' "$OUT" || wrong "the table of allreduce speaks of nodes"

program check --config "$WORK/tiny.json" --set synchronization.final_rounds=1
expect_failure 2 'synchronization\.final_rounds.*d-psgd.*allreduce' "final rounds of allreduce"
finish
