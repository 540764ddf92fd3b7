#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A run records once when its gradients are ready: with and without overlap, on one rank and on two,
# and not where gradients are not averaged or the run is too short.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# profiled FOLDER RANKS ARGUMENTS...: a run of 26 steps; its parameter hash is in HASH.
profiled() {
  local folder=$1 ranks=$2
  shift 2
  train "$ranks" "$folder" --set train.epochs=2 --set train.steps=26 --set data.limit_train=416 \
    --set train.batch_size=8 --set synchronization.bucket_mib=0.25 "$@"
  expect_code 0 "$folder"
  HASH=none-$folder
  [[ $CODE -ne 0 ]] || HASH=$(summary parameter_hash)
}

check() { # WHAT: the record is there, and its moments can be right
  python3 - "$RUN" <<'PY' || wrong "$1: moments that cannot be right"
import json, sys
records = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
profiles = [r for r in records if r["type"] == "profile"]
assert len(profiles) == 1, len(profiles)
profile = profiles[0]
assert (profile["step"], profile["steps"]) == (24, 5), profile
forward, backward = profile["forward_seconds"], profile["backward_seconds"]
names = [s["slice"] for s in profile["slices"]]
# ResNet-20 has 19 convolutions with a weight and a bias of batch norm each, beside shortcuts, and a
# linear layer, which is sent first.
assert len(set(names)) == len(names) >= 19 * 3 + 2, len(names)
assert names[0].startswith("fc.") and "conv1.weight" in names[-3:], names
moments = [s["ready_seconds"] for s in profile["slices"]]
micro = 2e-6  # of rounding
assert 0 < forward == min(moments) and backward > 0, (forward, moments[:3])
assert max(moments) <= forward + backward + micro
# Parts of a block may be ready in another order than they are sent, blocks may not.
blocks = {}
for name, moment in zip(names, moments):
    block = ".".join(name.split(".")[:2]) if name.startswith("layer") else name.split(".")[0]
    blocks[block] = max(blocks.get(block, 0), moment)
last = list(blocks.values())
assert last == sorted(last), blocks
# Both passes are within the steps.
steps = [r["seconds"]["total"] for r in records if r["type"] == "step" and 20 <= r["step"] <= 24]
assert len(steps) == 5 and forward + backward <= sum(steps) / 5 + micro, (forward, backward, steps)
PY
}

for compressor in none e-elastiquant; do
  pick=(--set "compressor.name=$compressor")
  profiled "$compressor-on" 2 "${pick[@]}"
  check "$compressor, overlap on"
  overlapped=$HASH
  profiled "$compressor-off" 2 "${pick[@]}" --set synchronization.overlap=false
  check "$compressor, overlap off"
  expect_equal "$overlapped" "$HASH" "$compressor: overlap off"
done
profiled alone 1
check "one rank"

none() { # WHAT
  ! grep -q '"type":"profile"' "$RUN/metrics.jsonl" || wrong "$1: expected no profile, found one"
}
profiled local 2 --set synchronization.algorithm=local-sgd --set synchronization.local_steps=4
none "local SGD"
train 2 short --set train.steps=4
expect_code 0 "a short run"
none "a short run"

profiled resumed 2 --set checkpoint.every_steps=22
profiled resumed 2 --set checkpoint.every_steps=22 --set train.steps=30 --resume
check "a run that goes on"
finish
