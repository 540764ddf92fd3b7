#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Without compression all collectives compute the same mean, up to the order of additions.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Those that average float32, as `check` says; the sparse and the integer ones do not.
averaging=()
for collective in $("$EQT_PROGRAM" list collectives --json | python3 -c 'import json, sys
print(*[row["name"] for row in json.load(sys.stdin)])'); do
  [[ $collective == auto ]] && continue
  "$EQT_PROGRAM" check --config "$WORK/tiny.json" --set compressor.name=none \
    --set "synchronization.collective=$collective" >"$WORK/check" 2>&1 && averaging+=("$collective")
done
[[ ${#averaging[@]} -ge 7 ]] || wrong "found only ${averaging[*]} for float32"

for ranks in 2 3; do
  for collective in "${averaging[@]}"; do
    train "$ranks" "$collective$ranks" --set "synchronization.collective=$collective" \
      --set compressor.name=none --set train.steps=3 --set output.step_records=true
    expect_code 0 "$collective on $ranks ranks"
    [[ $CODE -ne 0 ]] || expect_equal "$collective" "$(summary collective)" "collective in the summary"
  done
done
[[ $FAILURES -eq 0 ]] || finish

# The first loss is before any exchange; later ones depend on it. Float rounding grows in three
# steps, but a wrong mean (a sum, a rank left out) would change the losses in their first digits.
python3 - "$WORK" "${averaging[@]}" <<'PY' || wrong "the collectives do not agree"
import json, sys
def losses(name):
    lines = (json.loads(line) for line in open(f"{sys.argv[1]}/{name}/metrics.jsonl"))
    return [r["loss"] for r in lines if r["type"] == "step"]
for ranks in (2, 3):
    exact = losses(f"dense{ranks}")
    assert len(exact) == 3 and len(set(exact)) == 3, exact
    for other in sys.argv[2:]:
        found = losses(f"{other}{ranks}")
        assert found[0] == exact[0], (other, ranks, found, exact)
        worst = max(abs(a - b) / abs(b) for a, b in zip(found, exact))
        assert worst < 1e-3, (other, ranks, found, exact)
PY
finish
