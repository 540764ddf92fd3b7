#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that train at their own pace and average in pairs: shares, refusals, ends.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

pairs=(--set synchronization.algorithm=ad-psgd)
boards=(--set train.emulate_compute=0.02 --set train.steps=50)

# Two epochs of a real network, with the distances of the ranks' models in the records.
train 4 real "${pairs[@]}" --set train.steps=8 --set compressor.name=int8
expect_code 0 "a ring of four"
[[ $CODE -eq 0 ]] || finish
expect_equal null "$(summary replicas_identical)" "replicas are not compared"
expect_equal "$(summary sent_bytes)" "$(summary received_bytes)" "what is sent is received"
expect_number "$(summary steps)" ">=" 8 "steps of the mean rank"
expect_number "$(summary compression_ratio)" ">" 3 "eight bits a value, once to one neighbour"
python3 - "$RUN" <<'PY' || wrong "records of an asynchronous run"
import json, sys
records = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
steps = [r for r in records if r["type"] == "step"]
epochs = [r for r in records if r["type"] == "epoch"]
assert steps and all(1 <= a["step"] <= b["step"] <= 8 for a, b in zip(steps, steps[1:])), steps
assert [e["step"] for e in epochs] == [4, 8], epochs
assert all(e["test_accuracy"] is not None for e in epochs), epochs
notes = [r["text"] for r in records if r["type"] == "note"]
assert sum("exchanges of pairs" in n for n in notes) == 2, notes
s = json.load(open(sys.argv[1] + "/summary.json"))
edges = s["sent_bytes_by_edge"]
assert sum(x["bytes"] for x in edges) == s["sent_bytes"] == sum(e["sent_bytes"] for e in epochs), s
assert all((x["to"] - x["from"]) % 4 in (1, 3) for x in edges), edges
assert sum(s["sent_bytes_by_node"]) == s["sent_bytes"], s
for r in epochs + [s]:
    assert len(r["node_test_accuracy"]) == 4 and r["consensus_distance"] > 0, r
assert s["evaluation_sent_bytes"] == sum(e["evaluation_sent_bytes"] for e in epochs) > 0, s
PY

train 3 star "${pairs[@]}" --set synchronization.topology.kind=star --set train.steps=3
expect_code 0 "a star of three"
expect_equal null "$(summary paper_sent_bytes_per_node)" "no table counts exchanges of pairs"
train 1 alone "${pairs[@]}" --set train.steps=3
expect_code 0 "a rank alone"
train 2 levels "${pairs[@]}" --set compressor.name=alq --set train.steps=2
expect_code 0 "levels that could adapt"
grep -q 'levels stay as they start' "$RUN/metrics.jsonl" || wrong "nothing says that levels do not adapt"

# A slow board takes fewer steps; the job does not wait for it.
train 4 uneven "${pairs[@]}" "${boards[@]}" --set 'train.emulate_compute=[0.02, 0.02, 0.02, 0.1]'
expect_code 0 "a slow board"
python3 - "$RUN/metrics.jsonl" <<'PY' || wrong "a slow board takes as many steps as the others"
import json, re, sys
notes = [json.loads(line).get("text", "") for line in open(sys.argv[1])]
found = [re.search(r"from (\d+) \(rank (\d)\) to (\d+)", n) for n in notes if "exchanges" in n]
least, rank, most = map(int, found[0].groups())
assert rank == 3 and 2 * least < most and least >= 1, notes
PY

# refused REGEX WHAT ARGUMENTS: exit 2 with an error that names a valid choice.
refused() {
  train 3 refused "${pairs[@]}" "${@:3}"
  expect_failure 2 "$1" "$2"
}
refused 'bipartite.*odd cycle.*even number.*star' "a ring of three"
refused 'undirected' "a directed ring" --set synchronization.topology.directed=true
refused 'undirected' "one peer at a time" --set synchronization.topology.kind=one-peer-exponential
refused 'synchronization\.overlap' "no overlap" --set synchronization.overlap=false
refused 'momentum_kind' "quasi-global momentum" --set optimizer.momentum_kind=quasi-global
refused 'synchronization\.order' "another order" --set synchronization.order=combine-then-adapt
refused 'topology\.weights' "weights" --set synchronization.topology.weights=metropolis
refused 'final_rounds 3 only .*ad-psgd' "rounds after the last step" --set synchronization.final_rounds=3

# fault SPECIFICATION CODE WHAT: a run on 4 ranks that must end within 10 seconds.
fault() {
  export EQT_FAULT=$1
  rm -rf "$WORK/fault"
  train 4 fault "${pairs[@]}" "${boards[@]}" --set synchronization.timeout_seconds=2
  unset EQT_FAULT
  expect_within 10 "$3"
  expect_code "$2" "$3"
  [[ ! -e $RUN/summary.json ]] || wrong "$3: a failed run wrote a summary"
}
fault stall:rank=1,step=3 7 "the trainer of an active rank stalls"
expect_text 'step 3.*this rank itself' "the trainer of an active rank stalls"
fault stall:rank=2,step=3 7 "the trainer of a passive rank stalls"
expect_text 'rank 2/4. step 3.*this rank itself' "the trainer of a passive rank stalls"
fault stall:rank=1,step=3,bucket=0 7 "an active rank never asks again"
expect_text 'rank 1 to ask' "an active rank never asks again"
fault stall:rank=2,step=3,bucket=0 7 "a passive rank does not answer"
expect_text 'averaging in pairs|a note of a pair.*rank 2' "a passive rank does not answer"
fault throw:rank=1,step=3,bucket=0 70 "an error on the communication thread"
expect_text 'EQT_FAULT' "an error on the communication thread"
fault throw:rank=2,step=3 70 "an error of a trainer"
expect_text 'EQT_FAULT' "an error of a trainer"
fault nan:rank=1,step=3 4 "a model that is not finite"
finish
