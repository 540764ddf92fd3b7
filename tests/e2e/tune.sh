#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/tune.sh: a probe, measured links, the choice, and the run with it, which its config repeats.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tune=("$EQT_ROOT/scripts/tune.sh" "$WORK/tiny.json" --ranks 2 --epochs 2 --seconds 0.2 --set data.limit_test=256)
run "${tune[@]}" --target 2% --out "$WORK/tuned"
expect_code 0 "tune.sh"
grep -q '^Soonest at an accuracy of 0.02' "$OUT" || wrong "tune.sh: no sentence that names the choice"
python3 - "$WORK/tuned" <<'PY' || wrong "tune.sh: what it ran is not what it chose"
import json, sys
read = lambda name: json.load(open(f"{sys.argv[1]}/{name}"))
choice, tuned, config, summary = read("choice.json"), read("tuned.json"), read("run/config.json"), read("run/summary.json")
probe, probed = read("probe/config.json"), read("probe/summary.json")
assert probe["compressor"]["name"] == "auto" and probed["epochs"] == 2 and probed["steps"] == 16, probed
assert config["compressor"]["name"] == "none" and summary["ranks"] == 2
for one in choice["choice"]["sets"]:
    key, value = one.split("=")
    section, name = key.split(".")
    found = config[section][name]
    assert str(found) == value or float(found) == float(value), (one, found)
    assert tuned[section][name] == found, (one, tuned)
assert summary["steps"] == choice["choice"]["target_steps"], (summary["steps"], choice["choice"])
# A host of two ranks, whose links are its memory and whose times are the probe's.
assert [(b["count"], b["ranks"]) for b in read("cluster.json")["boards"]] == [(1, 2)]
assert read("calibration.json")["runs"][0]["batch_size"] == 16
PY
run "$EQT_ROOT/scripts/run_local.sh" --ranks 2 "$WORK/tuned/tuned.json" --out "$WORK/again"
expect_code 0 "the config with the choice"
hash_of() { python3 -c "import json; print(json.load(open('$1/summary.json'))['parameter_hash'])"; }
expect_equal "$(hash_of "$WORK/tuned/run")" "$(hash_of "$WORK/again")" "the config with the choice: the same run"

run "${tune[@]}" --target 2% --out "$WORK/tuned"
expect_code 2 "tune.sh into a folder with results"
expect_text 'expected a new folder' "tune.sh into a folder with results"
run "${tune[@]}" --target 99.9% --out "$WORK/unreached" --dry-run
expect_code 3 "tune.sh for a target that the probe does not support"
expect_text 'expected a probe' "tune.sh for a target that the probe does not support"
[[ ! -e $WORK/unreached/run ]] || wrong "tune.sh started a run without a choice"
run "$EQT_ROOT/scripts/tune.sh" "$WORK/tiny.json" --target 2% --out "$WORK/one" --ranks 1
expect_code 2 "tune.sh with a rank"
run "$EQT_ROOT/scripts/tune.sh" "$WORK/tiny.json" --target 2% --out "$WORK/two" --set train.epoch=1
expect_code 2 "tune.sh with an unknown key"
expect_text 'train.epochs' "tune.sh with an unknown key"

finish
