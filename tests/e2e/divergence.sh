#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Values that are not finite are found at once, with step, rank and tensor; with train.on_divergence
# rollback all ranks return to the newest checkpoint and finish.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# poisoned FAULT [ARGUMENTS]: a run on 2 ranks in which a parameter becomes NaN.
poisoned() {
  export EQT_FAULT=$1
  rm -rf "$WORK/poisoned"
  train 2 poisoned --set train.steps=12 --set data.limit_train=128 --set train.epochs=3 "${@:2}"
  unset EQT_FAULT
}

poisoned nan:rank=1,step=5
expect_failure 4 'step 5: .*on rank 1.*conv1.weight holds -?nan at index 0' "a NaN in a step"
poisoned nan:rank=1,step=4,phase=evaluation
expect_failure 4 'rank 1: after step 4: evaluation: .*conv1.weight holds -?nan' "a NaN in an evaluation"
poisoned nan:rank=1,step=6,phase=checkpoint --set checkpoint.every_steps=3
expect_failure 4 'step 6: the parameter of conv1.weight holds -?nan at index 0 on rank 1' \
  "a NaN in a checkpoint"
[[ -z $(find "$RUN/checkpoints" -name '*6*' -type f) ]] || wrong "a model with a NaN was saved"

rollback=(--set train.on_divergence=rollback --set train.rollback_factor=0.25)
for how in allreduce local-sgd choco-sgd gradient-tracking; do
  plain=()
  [[ $how != gradient-tracking ]] || plain=(--set optimizer.momentum=0)
  poisoned nan:rank=1,step=7 "${rollback[@]}" --set checkpoint.every_steps=3 \
    --set "synchronization.algorithm=$how" "${plain[@]}"
  expect_code 0 "$how: a rollback"
  [[ $CODE -eq 0 ]] || continue
  expect_equal 12 "$(summary steps)" "$how: steps after a rollback"
  python3 - "$RUN/metrics.jsonl" <<'PY' || wrong "$how: records of a rollback"
import json, sys
records = [json.loads(line) for line in open(sys.argv[1])]
notes = [r for r in records if r["type"] == "note" and "went back" in r["text"]]
assert len(notes) == 1, notes
text = notes[0]["text"]
assert "step 7" in text and "rank 1" in text and "to step 6" in text and "0.25 of" in text, text
rates = [r["learning_rate"] for r in records if r["type"] == "step"]
assert rates[0] == 4 * rates[-1], rates
losses = [r["train_loss"] for r in records if r["type"] == "epoch"]
assert len(losses) == 3 and all(loss == loss for loss in losses), losses
PY
done

# A run that goes back to a set of other ranks begins parts again that no rank of it has: at the same rate it ends as
# without the failure.
for how in deep-squeeze sgp; do
  cell=(--set "synchronization.algorithm=$how" --set train.epochs=9 --set data.limit_train=240 "${rollback[@]}"
    --set train.rollback_factor=1)
  case $how in
    deep-squeeze) cell+=(--set compressor.name=topk) ;;
    sgp) cell+=(--set synchronization.topology.kind=star --set synchronization.topology.weights=uniform) ;;
  esac
  hashes=()
  for fault in "" nan:rank=1,step=7; do
    train 4 "back_$how" "${cell[@]}" --set train.steps=5 --set checkpoint.every_steps=5 --overwrite
    expect_code 0 "$how on four ranks"
    [[ -z $fault ]] || export EQT_FAULT=$fault
    train 3 "back_$how" "${cell[@]}" --set train.steps=9 --set checkpoint.every_steps=100 --resume
    unset EQT_FAULT
    expect_code 0 "$how: fault \"$fault\" on three ranks"
    hashes+=("$(summary parameter_hash)")
  done
  grep -q 'went back' "$RUN/metrics.jsonl" || wrong "$how: no rollback"
  expect_equal "${hashes[0]}" "${hashes[1]}" "$how: parameters after a rollback to a set of other ranks"
done

# A gradient that 16 bits cannot hold is one of these failures, not an error of the compressor.
train 2 halves "${rollback[@]}" --set compressor.name=fp16 --set optimizer.learning_rate=1000 --set train.steps=12 \
  --set checkpoint.every_steps=1 --set synchronization.collective=ring
grep -q 'the compressor sends sums of at most 65519.* went back' "$RUN/metrics.jsonl" ||
  wrong "values beyond the range of fp16: no rollback"
! grep -q 'compressor fp16: expected' "$ERR" || wrong "values beyond the range of fp16 end the run"

# The report leaves out what came after the step to which the run went back.
export EQT_FAULT=nan:rank=0,step=30
train 2 again --set train.steps=0 --set train.epochs=9 --set data.limit_train=128 --set checkpoint.every_epochs=4 "${rollback[@]}"
unset EQT_FAULT
expect_code 0 "a rollback behind an epoch"
grep -q '"back_to":' "$RUN/metrics.jsonl" || wrong "the note does not say to which step"
program report "$RUN"
expect_code 0 "a report of a run that went back"

# Without a checkpoint a run returns to its beginning, a limited number of times.
train 2 hopeless --set train.steps=40 --set optimizer.learning_rate=1e30 "${rollback[@]}"
expect_failure 4 'the run went back 5 times before' "a rate that no rollback helps"
train 2 refused "${rollback[@]}" --set synchronization.algorithm=ad-psgd
expect_failure 2 'train.on_divergence "stop"' "a rollback of ranks without a common step"

# With train.paranoid ranks compare their replicas after each step, and find no difference.
train 3 paranoid --set train.paranoid=true --set train.steps=8
expect_code 0 "train.paranoid"
python3 - "$RUN/metrics.jsonl" <<'PY' || wrong "records of replicas"
import json, sys
epochs = [r for r in map(json.loads, open(sys.argv[1])) if r["type"] == "epoch"]
assert epochs and all(e["replicas_identical"] is True for e in epochs), epochs
PY
finish
