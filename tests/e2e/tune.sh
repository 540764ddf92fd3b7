#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# train.tune: rates that are tried, a probe, measured links, the choice, and the run with it, which its config repeats.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

hash_of() { python3 -c "import json; print(json.load(open('$1/summary.json'))['parameter_hash'])"; }

auto=(--set train.tune=auto --set train.tune_target=0.02 --set train.tune_epochs=2 --set data.limit_test=256
  --set train.tune_rates=3)
train 2 own "${auto[@]}" --set output.progress=lines
expect_code 0 "train.tune"
grep -q '^train.tune: Learning rates tried for 8 steps each: 0.05 (loss ' "$OUT" || wrong "train.tune: no line about rates"
grep -q '^train.tune: a probe of 2 epochs with the rate' "$OUT" || wrong "train.tune: no line about the probe"
grep -q '^train.tune: Soonest at an accuracy of 0.02' "$OUT" || wrong "train.tune: no sentence that names the choice"
python3 - "$WORK/own" <<'PY' || wrong "train.tune: what it ran is not what it chose"
import json, math, sys
read = lambda name: json.load(open(f"{sys.argv[1]}/{name}"))
tuned, config, summary = read("tuned.json"), read("config.json"), read("summary.json")
[decision] = [json.loads(line) for line in open(sys.argv[1] + "/decisions.jsonl")]
assert decision["kind"] == "recipe" and decision["step"] == 0 and decision["why"] == tuned["sentence"], decision
assert all(f"--set {one}" in tuned["sentence"] for one in tuned["sets"]), tuned
batch, local_steps, rate, steps = decision["values"]
assert config["train"]["batch_size"] == batch and config["optimizer"]["learning_rate"] == rate, config
assert config["synchronization"]["local_steps"] == local_steps and summary["steps"] == steps, summary
assert config["train"]["tune"] == "off" and config["compressor"]["name"] == "none", config["train"]
probe = read("probe/config.json")
assert probe["compressor"]["name"] == "auto" and read("probe/summary.json")["epochs"] == 2
# The config's own rate first, then the double, then the double of that or the half.
rates = tuned["rates"]
tried = [one["learning_rate"] for one in rates["tried"]]
losses = [one["loss"] for one in rates["tried"]]
assert tried == [0.05, 0.1, 0.2 if losses[1] < losses[0] else 0.025] and rates["steps"] == 8, rates
best = tried[losses.index(min(losses))]
assert abs(math.log2(rates["of_short_runs"] / best)) <= 0.51, rates
assert rates["learning_rate"] == rates["of_short_runs"] / 2, rates  # that of the config is constant
assert probe["optimizer"]["learning_rate"] == rates["learning_rate"], (probe["optimizer"], rates)
assert "Learning rates tried for 8 steps each: 0.05 (loss " in tuned["sentence"], tuned
assert 0 < sum(one["seconds"] for one in rates["tried"]) < tuned["seconds"], tuned
PY
# What a trial tells is what a run with its rate does.
train 2 trial --set train.steps=8 --set data.limit_test=256
expect_code 0 "a run as long as a trial"
python3 - "$WORK" <<'PY' || wrong "train.tune: the loss of a trial is not that of a run with its rate"
import json, sys
found = [json.loads(line) for line in open(sys.argv[1] + "/trial/metrics.jsonl") if line.startswith('{"type":"epoch"')][-1]
[own] = [one["loss"] for one in json.load(open(sys.argv[1] + "/own/tuned.json"))["rates"]["tried"] if one["learning_rate"] == 0.05]
assert found["step"] == 8 and abs(own - found["test_loss"]) < 1e-6, (own, found)
PY
run "$EQT_ROOT/scripts/run_local.sh" --ranks 2 "$WORK/own/config.json" --out "$WORK/repeated"
expect_code 0 "the config of a tuned run"
expect_equal "$(hash_of "$WORK/own")" "$(hash_of "$WORK/repeated")" "the config of a tuned run: the same parameters"

# A rate that diverges is an answer; a job of which all diverge ends with exit 4. One rate is the config's own.
train 2 fast "${auto[@]}" --set optimizer.learning_rate=1e30 --set train.tune_rates=2
expect_failure 4 'all 2 from 1e.30 down to 5e.29 diverge' "train.tune with rates that diverge"
train 2 edge "${auto[@]}" --set optimizer.learning_rate=1e30 --set optimizer.momentum=0 --set train.tune_rates=1
expect_code 4 "train.tune with a rate that diverges and no other"
train 2 one "${auto[@]}" --set train.tune_rates=1
expect_code 0 "train.tune with one rate"
expect_equal 0.05 "$(value "$WORK/one/probe/config.json" optimizer.learning_rate)" "train.tune with one rate"
expect_equal absent "$(value "$WORK/one/tuned.json" rates)" "train.tune with one rate: rates"

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
untunable 'found "qsr".*set the number' 2 "${auto[@]}" --set synchronization.algorithm=local-sgd \
  --set synchronization.local_steps=qsr
untunable 'local-sgd' 2 "${auto[@]}" --set synchronization.algorithm=choco-sgd
untunable 'memory_seconds' 2 "${auto[@]}" --set checkpoint.memory_seconds=1
untunable 'emulate_compute' 2 "${auto[@]}" --set train.emulate_compute=0.01
train 2 unreached "${auto[@]}" --set train.tune_target=0.999
expect_failure 3 'expected a probe' "a target that the probe does not support"
[[ ! -e $WORK/unreached/summary.json ]] || wrong "a run without a choice has trained"

finish
