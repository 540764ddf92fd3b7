#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training with compressed gradients learns: ten classes of synthetic images, far above chance
# (0.1).
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

train 2 learns --set data.limit_train=1536 --set data.limit_test=512 --set train.steps=0 \
  --set train.epochs=2 --set compressor.name=e-elastiquant --set compressor.bits=4 \
  --set schedule.kind=cosine --set output.progress=lines
expect_code 0 "a run that learns"
[[ $CODE -eq 0 ]] || finish

# ln 10 = 2.303 is the loss of guessing.
expect_number "$(summary train_loss)" "<" 2.0 "loss in the last epoch"
expect_number "$(summary test_accuracy)" ">=" 0.35 "accuracy on images not trained on"
expect_number "$(summary compression_ratio)" ">=" 6 "compression ratio"
expect_equal true "$(summary replicas_identical)" "replicas after training"
expect_equal 2 "$(summary ranks)" "ranks"
expect_equal 2 "$(summary epochs)" "epochs"
expect_equal 96 "$(summary steps)" "steps of 2 epochs of 1536 samples in batches of 16 on 2 ranks"
for file in config.json metrics.jsonl summary.json model.pt; do
  [[ -s $RUN/$file ]] || wrong "the run folder has no $file"
done
grep -qE 'accuracy' "$OUT" || wrong "stdout shows no table of results"

# Every record is JSON of a known type, and the epochs' bytes add up to the summary's.
python3 - "$RUN" <<'PY' || wrong "metrics.jsonl is not what the summary says"
import json, sys
folder = sys.argv[1]
records = [json.loads(line) for line in open(folder + "/metrics.jsonl")]
summary = json.load(open(folder + "/summary.json"))
kinds = [r["type"] for r in records]
assert kinds[0] == "run" and kinds.count("run") == 1, kinds[:3]
assert kinds.count("epoch") == 2, kinds.count("epoch")
steps = [r["step"] for r in records if r["type"] == "step"]
assert len(steps) == 96 and sorted(set(steps)) == steps, "steps in order, each once"
sent = sum(r["sent_bytes"] for r in records if r["type"] == "epoch")
assert sent == summary["sent_bytes"] > 0, (sent, summary["sent_bytes"])
ratio = summary["dense_bytes"] / summary["sent_bytes"]
assert abs(ratio / summary["compression_ratio"] - 1) < 1e-6, ratio
PY

# Signum: whether sent as signs or as float32, every parameter moves by the learning rate, up or
# down.
signs=(--set compressor.name=signsgd --set optimizer.learning_rate=0.0009765625 --set optimizer.weight_decay=0)
train 2 sign-one "${signs[@]}" --set train.steps=1
expect_code 0 "a step of signsgd"
train 2 sign-two "${signs[@]}" --set train.steps=2
expect_code 0 "two steps of signsgd"
python3 - "$WORK/sign-one/model.pt" "$WORK/sign-two/model.pt" <<'PY' || wrong "signsgd: a parameter did not move by the rate"
import array, collections, pickle, sys, zipfile

class Reader(pickle.Unpickler):
    def find_class(self, module, name):
        if name == "restore_type_tag":
            return lambda value, tag: value
        return collections.OrderedDict if name == "OrderedDict" else lambda *parts: parts
    def persistent_load(self, storage):
        return storage[2]  # its file

def parameters(path):
    with zipfile.ZipFile(path) as archive:
        pickled = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        tensors = Reader(archive.open(pickled)).load()
        folder = pickled.removesuffix(".pkl")
        return {name: array.array("f", archive.read(f"{folder}/{tensor[0]}"))
                for name, tensor in tensors.items() if "running" not in name and "num_batches" not in name}

before, after = map(parameters, sys.argv[1:])
assert before.keys() == after.keys() and len(before) > 50, before.keys()
for name in before:
    steps = [abs(a - b) for a, b in zip(after[name], before[name])]
    assert steps and all(abs(step * 1024 - 1) < 1e-3 for step in steps), (name, min(steps), max(steps))
PY
finish
