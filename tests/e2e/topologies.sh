#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Output of `analyze topology`, and graphs that it must refuse.
# CTest gives it the program without LibTorch, which starts faster: nothing is trained. verbs.sh starts the verbs of
# the usual one.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# refuse REGEX WHAT ARGUMENTS: exit 2 with one sentence.
refuse() {
  local text=$1 what=$2
  shift 2
  program analyze topology "$@"
  expect_failure 2 "$text" "$what"
  [[ ! -s $OUT ]] || wrong "$what: a refused graph was printed"
}

program list topologies --json
expect_code 0 "list topologies --json"
python3 - "$OUT" <<'PY' || wrong "list topologies --json: a kind is missing"
import json, sys
names = [entry["name"] for entry in json.load(open(sys.argv[1]))]
assert names == "ring torus exponential one-peer-exponential complete star mesh graph".split(), names
PY

# Spectral gaps computed by numpy from the definitions, and means by closed forms.
program analyze topology
expect_code 0 "analyze topology"
python3 - "$OUT" <<'PY' || wrong "analyze topology: not the gaps of the graphs' definitions"
import sys
rows = [line.split() for line in open(sys.argv[1]) if line.split() and line.split()[0].isdigit()]
gaps = {int(row[0]): [float(cell) for cell in row[1:]] for row in rows[:5]}
expected = {4: [0.2929, 0.6667, 0.4, 0.6667, 0.25, 0.6667],
            8: [0.0761, 0.1953, 0.4, 0.5, 0.125, 0.1464],
            16: [0.0192, 0.0507, 0.4, 0.4, 0.0625, 0.1314],
            32: [0.0048, 0.0128, 0.1172, 0.3333, 0.03125, 0.0342],
            64: [0.0012, 0.0032, 0.1172, 0.2857, 0.015625, 0.0323]}
assert gaps.keys() == expected.keys()
for ranks, row in expected.items():  # 4 decimals, an exact half rounded either way
    assert all(abs(a - b) < 5.1e-5 for a, b in zip(gaps[ranks], row, strict=True)), (ranks, gaps[ranks])
exact = {int(row[0]): float(row[2]) for row in rows[5:]}
assert sorted(exact) == [2, 4, 5, 8, 16, 32], exact
assert abs(exact.pop(5) - 0.2023) < 5e-5 and max(exact.values()) < 1e-12, exact
PY

program analyze topology --kind ring --kind complete --ranks 8 --ranks 9 --directed --json
expect_code 0 "analyze topology --json"
python3 - "$OUT" <<'PY' || wrong "analyze topology --json: wrong rows"
import json, math, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert [(row["name"], row["ranks"]) for row in rows] == [
    ("directed ring", 8), ("directed ring", 9), ("complete", 8), ("complete", 9)], rows
ring, whole = rows[0], rows[2]
assert abs(ring["lambda_2"] - math.cos(math.pi / 8)) < 1e-12
assert (ring["degree_max"], ring["edges"], ring["symmetric"], ring["lambda_min"]) == (1, 8, False, None)
assert abs(whole["spectral_gap"] - 1) < 1e-12 and abs(whole["beta"] - 1) < 1e-12
assert whole["edges"] == 56 and whole["symmetric"] and whole["doubly_stochastic"]
PY
program analyze topology --ranks 7
expect_code 0 "all graphs of 7 ranks"
! grep -q torus "$OUT" || wrong "analyze topology: shows a torus of 7"
grep -q "exponential" "$OUT" || wrong "analyze topology: shows no exponential graph of 7"

echo '{"ranks": 3, "directed": true, "edges": [[0, 1, 0.5], [1, 2, 0.5], [2, 0, 0.5]]}' >triangle.json
program analyze topology --file triangle.json --json
expect_code 0 "a graph from a file"
expect_equal 0.5 "$(python3 -c 'import json; print(round(json.load(open("stdout"))["spectral_gap"], 12))')" \
  "spectral gap of three ranks in a circle"

refuse 'torus.*found 7.*6 or 8 ranks' "a torus of 7" --kind torus --ranks 7
refuse 'divide 12 ranks.*one of 2, 3, 4, 6' "5 rows of 12" --kind torus --ranks 12 --rows 5
refuse 'metropolis' "Metropolis weights on a directed ring" --kind ring --directed --weights metropolis
refuse 'given' "weights without a file" --weights given
refuse 'ring' "a directed star" --kind star --directed
refuse '--file' "a graph without a file" --kind graph
refuse 'trous' "a misspelt kind" --kind trous
refuse 'ranks' "no ranks" --ranks 0
refuse 'absent\.json' "a file that is not there" --file absent.json
refuse 'start 3 ranks' "a graph of other ranks" --file triangle.json --ranks 4

# graph JSON REGEX WHAT: a file that must be refused, by name.
graph() {
  printf '%s' "$1" >bad.json
  refuse "bad\\.json.*$2" "$3" --file bad.json
}
graph '{"ranks": 4, "edges": [[0, 1], [2, 3]]}' 'no edges lead from rank 0 to rank 2' "two islands"
graph '{"ranks": 3, "edges": [[0, 1, 0.75], [1, 2, 0.5]]}' '1\.25 for rank 1' "weights above 1"
graph '{"ranks": 3, "edges": [[0, 1, 0.5], [1, 2]]}' 'none.*from 1 to 2' "a missing weight"
graph '{"ranks": 2, "edges": [[0, 1], [1, 0]]}' 'twice' "a double edge"
graph '{"ranks": 2, "edges": [[0, 1, 1]]}' 'period 2' "ranks that swap forever"
graph '{"ranks": 2, "edges": [[0, 1]' 'valid JSON' "half a file"
graph '{"ranks": 2, "egdes": [[0, 1]]}' 'edges' "a misspelt key"

program analyze
expect_failure 2 'topology' "analyze without what"
program analyze volumes
expect_failure 2 'topology.*volumes' "analyze of something else"

# Configs give the same errors before a run.
program check --config tiny.json --set synchronization.topology.kind=torus \
  --set synchronization.topology.directed=true
expect_failure 2 'synchronization\.topology\.directed' "check of a directed torus"
program check --config tiny.json --set synchronization.topology.kind=trous
expect_failure 2 'torus' "check of a misspelt kind"
finish
