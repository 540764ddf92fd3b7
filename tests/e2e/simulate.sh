#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One process that simulates N ranks ends with the parameters of N ranks, continues from its own
# checkpoints, marks every record, and refuses what it cannot simulate.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

small=(--set train.batch_size=4 --set data.limit_test=12 --set train.steps=3)

# simulate WORKERS FOLDER [ARGUMENTS]: one run of tiny.json without mpirun into $WORK/FOLDER.
simulate() {
  local workers=$1 folder=$2
  shift 2
  RUN=$WORK/$folder
  program --config "$WORK/tiny.json" --simulate "$workers" --out "$RUN" --quiet "$@"
}

# same_as_job RANKS WHAT ARGUMENTS: both ways, and what their summaries must have in common.
same_as_job() {
  local ranks=$1 what=$2
  shift 2
  simulate "$ranks" "played-$what" "${small[@]}" "$@"
  expect_code 0 "$what: simulated ranks"
  train "$ranks" "job-$what" "${small[@]}" "$@"
  expect_code 0 "$what: ranks"
  cmp -s "$WORK/played-$what/preprocessing.json" "$WORK/job-$what/preprocessing.json" ||
    wrong "$what: preprocessing.json is missing or differs"
  python3 - "$WORK/played-$what" "$WORK/job-$what" <<'PY' || wrong "$what: the two runs differ"
import json, sys
played, job = (json.load(open(f"{folder}/summary.json")) for folder in sys.argv[1:3])
for key in ("parameter_hash", "ranks", "steps", "test_accuracy", "collective", "sent_bytes",
            "received_bytes", "dense_bytes", "bits_per_value"):
    assert played[key] == job[key], (key, played[key], job[key])
# Sums of ranks are added in another order than those of workers.
for key in ("train_loss", "quantization_variance", "mean_quantization_variance"):
    assert (key in played) == (key in job), key
    if job.get(key) is None:
        assert played.get(key) is None, key
    else:
        assert abs(played[key] - job[key]) <= 1e-12 * job[key], (key, played[key], job[key])
assert played["simulated"] is True and "simulated" not in job
PY
}

same_as_job 3 elastiquant --set compressor.name=elastiquant --set synchronization.collective=allgather
same_as_job 3 alq --set compressor.name=alq --set compressor.adapt_every=2 \
  --set synchronization.collective=allgather
same_as_job 3 auto --set compressor.name=auto --set compressor.link=100 \
  --set compressor.observe_every=1 --set compressor.decide_every=1 --set compressor.skip_below=100
scatter=(--set synchronization.collective=scatter-reduce)
same_as_job 2 scattered "${scatter[@]}" --set compressor.name=elastiquant
same_as_job 4 scattered-feedback "${scatter[@]}" --set compressor.name=qsgd --set compressor.bucket_size=64 \
  --set synchronization.error_feedback=ef14
same_as_job 4 scattered-correlated "${scatter[@]}" --set compressor.name=e-elastiquant \
  --set compressor.rounding=correlated --set compressor.granularity=model --set synchronization.bucket_mib=0.25
same_as_job 2 rate --set compressor.name=e-elastiquant --set compressor.rate=3
! grep -q 'compressor.rate' "$RUN/metrics.jsonl" || wrong "rate: a note on a rate that is held"
same_as_job 4 scattered-rate "${scatter[@]}" --set compressor.name=e-elastiquant --set compressor.rate=3
same_as_job 3 sparse --set synchronization.collective=sparse --set compressor.name=topk
decay=(--set synchronization.feedback_decay=0.9)
same_as_job 3 sparse-decay "${decay[@]}" --set synchronization.collective=sparse --set compressor.name=topk
same_as_job 4 scattered-decay "${decay[@]}" "${scatter[@]}" --set compressor.name=e-elastiquant \
  --set compressor.rate=3 --set compressor.small_tensors=int8
same_as_job 3 momentum --set compressor.name=e-elastiquant --set compressor.rate=3 \
  --set synchronization.momentum_correction=on --set optimizer.nesterov=true --set optimizer.momentum=0.9
same_as_job 2 none --set synchronization.collective=dense --set data.augment=true

python3 - "$WORK/played-elastiquant/metrics.jsonl" <<'PY' || wrong "records do not say what they are"
import json, sys
records = [json.loads(line) for line in open(sys.argv[1])]
assert len(records) >= 5 and all(r.get("simulated") is True for r in records), records
assert records[0]["ranks"] == 3, records[0]
assert any("mpirun -np 3" in r.get("text", "") for r in records if r["type"] == "note")
PY

# auto chooses a collective that can be simulated, and config.json has it for ranks that repeat the
# run.
simulate 2 auto "${small[@]}" --set compressor.name=topk
expect_equal allgather "$(value "$RUN/config.json" synchronization.collective)" "auto in a simulation"
hash=$(summary parameter_hash)
RUN=$WORK/repeated
run "$EQT_ROOT/scripts/run_local.sh" --ranks 2 -- --config "$WORK/auto/config.json" --out "$RUN"
expect_equal "$hash" "$(summary parameter_hash)" "ranks from the config.json of a simulation"

# resumes FOLDER ARGUMENTS: the run in $RUN goes on from its middle, to the same end.
resumes() {
  local hash
  hash=$(summary parameter_hash)
  cp "$RUN/model.pt" "$WORK/model.pt"
  rm -r "$RUN"/summary.json "$RUN"/checkpoints/*6*
  simulate 3 "$@" --resume
  expect_code 0 "$1: a resumed simulation"
  grep -q 'from the checkpoint of step 4' "$RUN/metrics.jsonl" || wrong "$1: it did not continue from step 4"
  expect_equal "$hash" "$(summary parameter_hash)" "$1: parameters of a run that went on"
  cmp -s "$WORK/model.pt" "$RUN/model.pt" || wrong "$1: model.pt differs after a resume"
}

# Residuals, running statistics and batches of every worker are restored, and what owners have kept.
long=("${small[@]}" --set train.steps=6 --set checkpoint.every_steps=2)
owned=("${long[@]}" "${scatter[@]}" --set compressor.name=qsgd --set compressor.bucket_size=64
  --set synchronization.error_feedback=ef14)
simulate 3 owned "${owned[@]}"
resumes owned "${owned[@]}"
long+=(--set compressor.name=topk)
simulate 3 whole "${long[@]}"
for workers in 2 0; do
  words=(--simulate "$workers")
  [[ $workers -gt 0 ]] || words=()
  program --config "$WORK/tiny.json" --out "$RUN" --resume "${long[@]}" ${words[@]+"${words[@]}"}
  expect_failure 2 'expected --simulate 3.*found (--simulate 2|no --simulate)' "another number of workers"
done
resumes whole "${long[@]}"
program --config "$WORK/tiny.json" --out "$WORK/never" --simulate 0
expect_failure 2 'simulate' "no workers"

# refuses REGEX ARGUMENTS
refuses() {
  local regex=$1
  shift
  simulate 2 refused "$@"
  expect_failure 2 "$regex" "$*"
  [[ ! -e $WORK/refused ]] || wrong "$*: left a run folder"
}
refuses 'algorithm "allreduce".*"d-psgd"' --set synchronization.algorithm=d-psgd
refuses 'algorithm "allreduce".*"none"' --set synchronization.algorithm=none
refuses 'collective.*"scatter-reduce".*"ring".*mpirun' --set synchronization.collective=ring --set compressor.name=qsgd
refuses 'scatter-reduce.*segments.*topk' "${scatter[@]}" --set compressor.name=topk
refuses 'powersgd' --set compressor.name=powersgd
refuses 'compressor.link.*"measured"' --set compressor.name=auto
refuses 'emulate_compute' --set train.emulate_compute=0.01
train 2 refused --simulate 2
expect_failure 2 'one process.*found 2' "a simulation under mpirun"
finish
