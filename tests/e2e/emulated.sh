#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Emulated boards: no data set, no network, real layouts and messages, and every record is marked.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

emulated=(--set train.steps=10 --set data.name=cifar10 --set "data.path=$WORK/nowhere")

# board FOLDER ARGUMENTS: 10 steps of an emulated ResNet-20 on 3 ranks.
board() {
  local folder=$1
  shift
  train 3 "$folder" "${emulated[@]}" "$@"
  expect_code 0 "$folder"
}

for compressor in none elastiquant; do
  pick=(--set train.emulate_compute=0.05 --set "compressor.name=$compressor" --set synchronization.bucket_mib=0.25)
  board "$compressor-first" "${pick[@]}" --set output.progress=lines
  [[ $CODE -eq 0 ]] || finish
  first=$(summary parameter_hash)
  expect_equal true "$(summary replicas_identical)" "$compressor: replicas"
  expect_equal 272474 "$(summary parameters)" "$compressor: parameters of ResNet-20"
  expect_number "$(summary wall_seconds)" ">=" 0.5 "$compressor: 10 steps of 0.05 s"
  expect_number "$(summary epoch_seconds.compute)" ">=" 0.5 "$compressor: compute of 10 steps"
  for key in train_loss test_accuracy best_test_accuracy; do
    expect_equal null "$(summary $key)" "$compressor: $key of no network"
  done
  expect_equal true "$(summary emulated)" "$compressor: emulated in the summary"
  python3 - "$RUN/metrics.jsonl" <<'PY' || wrong "$compressor: a record hides that it is emulated"
import json, sys
records = [json.loads(line) for line in open(sys.argv[1])]
assert {r["type"] for r in records} >= {"run", "step", "epoch", "note"}, records
assert all(r["emulated"] is True for r in records), records
assert sum(r["type"] == "step" for r in records) == 10, records
assert any("model.pt" in r.get("text", "") for r in records), records
PY
  [[ ! -e $RUN/model.pt ]] || wrong "$compressor: weights of a network that was not trained"
  ! grep -v EMULATED "$ERR" || wrong "$compressor: a line of the progress hides that it is emulated"
  grep -q EMULATED "$OUT" || wrong "$compressor: the table hides that it is emulated"
  ! grep -qi nan "$OUT" "$ERR" || wrong "$compressor: a loss that is not there is shown"

  board "$compressor-uneven" "${pick[@]}" --set 'train.emulate_compute=[0, 0.01, 0.08]'
  expect_equal "$first" "$(summary parameter_hash)" "$compressor: boards of unequal speed"
  expect_number "$(summary epoch_seconds.compute)" ">=" 0.8 "$compressor: compute of the slowest board"
done
board again "${pick[@]}"
expect_equal "$first" "$(summary parameter_hash)" "the same run again"
board blocking "${pick[@]}" --set synchronization.overlap=false
expect_equal "$first" "$(summary parameter_hash)" "overlap off"
board other-seed --set train.emulate_compute=0 --set seed=2 --set compressor.name=elastiquant
expect_different "$first" "$(summary parameter_hash)" "another seed"

# Steps of other lengths: the same gradients.
board uneven-steps "${pick[@]}" --set 'train.emulate_jitter.cv=[0.5, 0, 0]' \
  --set 'train.emulate_jitter.stall_every=[0, 0, 2]' --set train.emulate_jitter.stall_seconds=0.02
expect_equal "$first" "$(summary parameter_hash)" "jitter and stalls"
board slower "${pick[@]}" --set train.emulate_compute=0.02 \
  --set 'train.emulate_changes=[{"step": 6, "rank": 1, "factor": 5}]'
expect_equal "$first" "$(summary parameter_hash)" "a board that becomes slower"
expect_number "$(summary epoch_seconds.compute)" ">=" 0.6 "5 steps of 0.02 s and 5 of 0.1 s"

# Waiting for a slower board counts as waiting for the network, with and without overlap.
for collective in dense mpi-allreduce; do
  board "waits-$collective" --set 'train.emulate_compute=[0, 0.05, 0.05]' --set compressor.name=none \
    --set synchronization.overlap=false --set "synchronization.collective=$collective"
  expect_number "$(summary epoch_seconds.transfer)" ">=" 0.4 "$collective: ten waits of 0.05 s"
done

# Records of a real run are not marked.
train 1 real --set train.steps=1
expect_code 0 "a real run"
! grep -q emulated "$RUN/summary.json" || wrong "a real run calls itself emulated"
[[ -e $RUN/model.pt ]] || wrong "a real run has no model.pt"

train 3 short "${emulated[@]}" --set 'train.emulate_compute=[0.1, 0.2]'
expect_failure 2 'train\.emulate_compute.*3.*2' "a list of two for three ranks"
train 3 endless --set train.steps=0 --set train.emulate_compute=0.1
expect_failure 2 'train\.steps' "no number of steps"
train 3 absent "${emulated[@]}" --set train.emulate_compute=0.1 \
  --set 'train.emulate_changes=[{"step": 6, "rank": 3, "factor": 5}]'
expect_failure 2 'train\.emulate_changes.*0 to 2.*3' "a change of a rank that is not there"
train 3 jitter-of-two "${emulated[@]}" --set train.emulate_compute=0.1 \
  --set 'train.emulate_jitter.cv=[0.1, 0.2]'
expect_failure 2 'train\.emulate_jitter\.cv.*3.*2' "jitter of two for three ranks"
finish
