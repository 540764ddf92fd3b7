#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/tune.sh and train.tune: a probe, measured links, the choice, and the run with it, which its config
# repeats.
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

# The same within one job.
auto=(--set train.tune=auto --set train.tune_target=0.02 --set train.tune_epochs=2 --set data.limit_test=256)
train 2 own "${auto[@]}" --set output.progress=lines
expect_code 0 "train.tune"
grep -q '^train.tune: a probe of 2 epochs' "$OUT" || wrong "train.tune: no line about the probe"
grep -q '^train.tune: Soonest at an accuracy of 0.02' "$OUT" || wrong "train.tune: no sentence that names the choice"
python3 - "$WORK/own" <<'PY' || wrong "train.tune: what it ran is not what it chose"
import json, sys
read = lambda name: json.load(open(f"{sys.argv[1]}/{name}"))
tuned, config, summary = read("tuned.json"), read("config.json"), read("summary.json")
[decision] = [json.loads(line) for line in open(sys.argv[1] + "/decisions.jsonl")]
assert decision["kind"] == "recipe" and decision["step"] == 0 and decision["why"] == tuned["sentence"], decision
assert all(f"--set {one}" in tuned["sentence"] for one in tuned["sets"]), tuned
batch, local_steps, rate, steps = decision["values"]
assert config["train"]["batch_size"] == batch and config["optimizer"]["learning_rate"] == rate, config
assert config["synchronization"]["local_steps"] == local_steps and summary["steps"] == steps, summary
assert config["train"]["tune"] == "off" and config["compressor"]["name"] == "none", config["train"]
assert read("probe/config.json")["compressor"]["name"] == "auto" and read("probe/summary.json")["epochs"] == 2
PY
run "$EQT_ROOT/scripts/run_local.sh" --ranks 2 "$WORK/own/config.json" --out "$WORK/repeated"
expect_code 0 "the config of a tuned run"
expect_equal "$(hash_of "$WORK/own")" "$(hash_of "$WORK/repeated")" "the config of a tuned run: the same parameters"

# A run that goes on keeps its choice, whatever a probe would tell now.
train 2 resumed "${auto[@]}" --set checkpoint.every_steps=1
expect_code 0 "train.tune with checkpoints"
whole=$(hash_of "$WORK/resumed")
sets=("$WORK"/resumed/checkpoints/step-*)
[[ ${#sets[@]} -lt 2 ]] || rm -r "${sets[-1]}"  # its last step is taken again
rm -r "$WORK/resumed/probe" "$WORK/resumed/summary.json"
train 2 resumed "${auto[@]}" --set checkpoint.every_steps=1 --resume
expect_code 0 "--resume with train.tune"
[[ ! -e $WORK/resumed/probe ]] || wrong "--resume with train.tune made another probe"
expect_equal "$whole" "$(hash_of "$WORK/resumed")" "--resume with train.tune: the same parameters"

train 2 resumed --overwrite
expect_code 0 "a run in place of a tuned one"
[[ ! -e $WORK/resumed/tuned.json ]] || wrong "a run in place of a tuned one has kept its choice"

# untunable WORDS RANKS ARGUMENT...
untunable() {
  local words=$1 ranks=$2
  shift 2
  train "$ranks" refused "$@"
  expect_failure 2 "$words" "$*"
  [[ ! -e $WORK/refused/probe ]] || wrong "$*: it made a probe"
}
untunable 'train.tune_target above 0 together' 2 --set train.tune=auto
untunable 'train.tune_target above 0 together' 2 --set train.tune_target=0.5
untunable 'at least 2 ranks' 1 "${auto[@]}"
untunable 'local-sgd' 2 "${auto[@]}" --set synchronization.algorithm=choco-sgd
untunable 'memory_seconds' 2 "${auto[@]}" --set checkpoint.memory_seconds=1
untunable 'emulate_compute' 2 "${auto[@]}" --set train.emulate_compute=0.01
train 2 unreached "${auto[@]}" --set train.tune_target=0.999
expect_failure 3 'expected a probe' "a target that the probe does not support"
[[ ! -e $WORK/unreached/summary.json ]] || wrong "a run without a choice has trained"

finish
