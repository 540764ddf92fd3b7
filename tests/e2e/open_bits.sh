#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# E-ElastiQuant whose bits or elasticity are found out during the run: grades of that compressor
# alone, replay, the coding that was asked for, and what a fixed elasticity leaves as it is. Fixed bits
# that are too few for the optimizer are told of when the run starts.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

open=(--set compressor.name=e-elastiquant --set compressor.observe_every=2 --set compressor.decide_every=2
  --set train.steps=10 --set compressor.skip_below=500)

# check_menu RUN PYTHON: the expression holds of menu, the list of grades, and used, the set of their indices.
check_menu() {
  python3 - "$1" "$2" <<'PY' || wrong "$1: not $2"
import json, sys
run = json.loads(open(sys.argv[1] + "/metrics.jsonl").readline())
lines = [json.loads(line) for line in open(sys.argv[1] + "/decisions.jsonl")]
menu = run["grades"]["menu"]
used = {int(k) for d in lines for k in d["values"][1:]}
assert run["compressor"] == "e-elastiquant" and lines and max(used) < len(menu)
assert all(len(d["values"]) == 1 + len(run["grades"]["tensors"]) for d in lines)
assert eval(sys.argv[2]), (menu, used)
PY
}

train 2 bits "${open[@]}" --set compressor.bits=auto
expect_code 0 "open bits"
expect_equal true "$(summary replicas_identical)" "open bits: replicas"
expect_equal e-elastiquant "$(summary compressor)" "open bits: the compressor"
grep -q '"bits": "auto"' "$RUN/config.json" || wrong "open bits: config.json does not have them as they were written"
check_menu "$RUN" 'all(g.startswith("e-elastiquant:") for g in menu) and len(used) > 1'
hash=$(summary parameter_hash)
train 2 again "${open[@]}" --set compressor.bits=auto --set "compressor.replay=$WORK/bits/decisions.jsonl"
expect_code 0 "open bits, replayed"
expect_equal "$hash" "$(summary parameter_hash)" "open bits, replayed: the parameters"
cmp -s "$WORK/bits/decisions.jsonl" "$RUN/decisions.jsonl" || wrong "open bits, replayed: other decisions"
train 2 other "${open[@]}" --set compressor.elasticity=measured \
  --set "compressor.replay=$WORK/bits/decisions.jsonl"
expect_failure 3 'compressor.replay, step 2: expected grades' "decisions about another menu"

# With a rate nothing is measured: two runs are one.
rate=("${open[@]}" --set compressor.link=10 --set compressor.coding=rans --set compressor.elasticity=measured)
train 2 elasticity "${rate[@]}"
expect_code 0 "open elasticity"
check_menu "$RUN" 'all(g.startswith("e-elastiquant:4@") for g in menu) and "e-elastiquant:4@1" in menu'
hash=$(summary parameter_hash)
train 1 simulated "${rate[@]}" --simulate 2
expect_code 0 "open elasticity, simulated"
expect_equal "$hash" "$(summary parameter_hash)" "open elasticity, simulated: the parameters"

train 2 given "${open[@]}" --set compressor.link=10 --set compressor.bits=auto --set compressor.elasticity=0.1
expect_code 0 "open bits of a given elasticity"
check_menu "$RUN" 'menu == [f"e-elastiquant:{bits}@=0.1" for bits in range(2, 9)]'

train 2 refused "${open[@]}" --set compressor.bits=auto --set synchronization.algorithm=choco-sgd
expect_failure 2 'compressor.bits "auto", which measures the noise of gradients' "open bits of a gossip"
few=(--set compressor.name=e-elastiquant --set optimizer.name=muon --set train.steps=1)
train 2 few "${few[@]}"
expect_code 0 "few bits with Muon"
grep -q 'note.*optimizer muon makes noise as large as the gradient' "$RUN/metrics.jsonl" || wrong "few bits: no note"
train 2 enough "${few[@]}" --set compressor.rate=3.5
expect_code 0 "enough bits with Muon"
! grep -q 'optimizer muon makes noise' "$RUN/metrics.jsonl" || wrong "enough bits: a note of too few"
program report "$WORK/bits" "$WORK/given" --out "$WORK/both"
expect_code 0 "report"
grep -q 'e-elastiquant:' "$WORK/both/changes.txt" || wrong "report: no grades of e-elastiquant"
finish
