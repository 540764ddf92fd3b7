#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Without compression all collectives compute the same mean, up to the order of additions.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Those that average float32: the sparse and the integer ones do not. `auto` is one of the others.
# CTest gives it the program without LibTorch, which starts faster: a mean does not depend on what computes
# gradients. learns.sh and reproducible.sh average what LibTorch computes.
program list collectives --json
averaging=()
for collective in $(python3 -c 'import json, sys
print(*[row["name"] for row in json.load(sys.stdin)])' <"$OUT"); do
  [[ $collective =~ ^(auto|sparse|integer)$ ]] || averaging+=("$collective")
done
[[ ${#averaging[@]} -ge 7 ]] || wrong "found only ${averaging[*]} for float32"

for collective in "${averaging[@]}"; do
  train 3 "$collective" --set "synchronization.collective=$collective" --set compressor.name=none \
    --set train.steps=3 --set train.batch_size=4 --set data.limit_train=48 --set data.limit_test=3
  expect_code 0 "$collective on 3 ranks"
  [[ $CODE -ne 0 ]] || expect_equal "$collective" "$(summary collective)" "collective in the summary"
done
[[ $FAILURES -eq 0 ]] || finish

# The first loss is before any exchange; later ones depend on it. Float rounding grows in three
# steps, but a wrong mean (a sum, a rank left out) would change the losses in their first digits.
python3 - "$WORK" "${averaging[@]}" <<'PY' || wrong "the collectives do not agree"
import json, sys
def losses(name):
    lines = (json.loads(line) for line in open(f"{sys.argv[1]}/{name}/metrics.jsonl"))
    return [r["loss"] for r in lines if r["type"] == "step"]
exact = losses("dense")
assert len(exact) == 3 and len(set(exact)) == 3, exact
for other in sys.argv[2:]:
    found = losses(other)
    assert found[0] == exact[0], (other, found, exact)
    worst = max(abs(a - b) / abs(b) for a, b in zip(found, exact))
    assert worst < 1e-3, (other, found, exact)
PY

# Two ranks: the benchmark compares every collective's result with a plain reference.
run "$EQT_ROOT/scripts/run_local.sh" --ranks 2 -- bench collectives --values 10007 --seconds 0 --json \
  --set compressor.name=none
expect_code 0 "the collectives on 2 ranks"
for collective in "${averaging[@]}"; do
  grep -q "\"collective\": *\"$collective\"" "$OUT" || wrong "$collective was not compared on 2 ranks"
done
finish
