#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Weights are exchanged in both directions between a run and Python.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
/usr/bin/python3 -c 'import torch' 2>/dev/null || skip "python3-torch is not installed"

train 1 trained --set train.steps=2
expect_code 0 "a run that leaves model.pt"
[[ $CODE -eq 0 ]] || finish

# model.pt has the number of parameters of the summary; conv1.weight is changed and read by another
# run.
/usr/bin/python3 - "$RUN" "$WORK/changed.pt" <<'PY' || wrong "Python cannot use model.pt"
import json, sys, torch
folder, changed = sys.argv[1:]
try:
    weights = dict(torch.load(folder + "/model.pt", map_location="cpu"))
except Exception:
    weights = {k: v.clone() for k, v in torch.jit.load(folder + "/model.pt").state_dict().items()}
assert all(isinstance(v, torch.Tensor) for v in weights.values())
buffers = ("running_mean", "running_var", "num_batches_tracked")
count = sum(v.numel() for k, v in weights.items() if not k.endswith(buffers))
assert count == json.load(open(folder + "/summary.json"))["parameters"], count
assert all(torch.isfinite(v.float()).all() for v in weights.values())
key = "conv1.weight"
assert list(weights[key].shape) == [16, 3, 3, 3], weights[key].shape
weights[key] = torch.arange(432, dtype=torch.float32).reshape(16, 3, 3, 3) / 432
torch.save(weights, changed)
PY

# With a learning rate of 0 the weights do not change.
train 1 reread --set train.steps=1 --set optimizer.learning_rate=0 --set "model.weights=$WORK/changed.pt"
expect_code 0 "a run from Python's weights"
[[ $CODE -ne 0 ]] || /usr/bin/python3 - "$RUN/model.pt" "$WORK/changed.pt" <<'PY' || wrong "weights changed on the way"
import sys, torch
def load(path):
    try:
        return dict(torch.load(path, map_location="cpu"))
    except Exception:
        return dict(torch.jit.load(path).state_dict())
found, given = load(sys.argv[1]), load(sys.argv[2])
assert found.keys() == given.keys()
for key in given:
    if not key.endswith(("running_mean", "running_var", "num_batches_tracked")):
        assert torch.equal(found[key], given[key]), key
PY

# A beginning that all names have is left out, of others the nearest name is told. A last layer of another size starts
# new with a note, in every network, unless it must not.
/usr/bin/python3 - "$WORK" <<'PY'
import sys, torch
work = sys.argv[1]
weights = dict(torch.load(work + "/changed.pt"))
torch.save({"state_dict": {"model.net." + k: v for k, v in weights.items()}}, work + "/lightning.pt")
torch.save({("model." + k if k.startswith("fc") else k): v for k, v in weights.items()}, work + "/partly.pt")
head = {"fc.weight": torch.ones(7, 64), "fc.bias": torch.ones(7)}
torch.save({**weights, **head}, work + "/seven.pt")
torch.save({**weights, **head, "conv1.weight": torch.ones(10, 3, 3, 3)}, work + "/two_layers.pt")
PY
still=(--set train.steps=1 --set optimizer.learning_rate=0)
train 1 lightning "${still[@]}" --set "model.weights=$WORK/lightning.pt"
expect_code 0 "names that begin with model.net."
expect_equal "$(value "$WORK/reread/summary.json" parameter_hash)" "$(summary parameter_hash)" "names that begin with model.net."
train 1 partly "${still[@]}" --set "model.weights=$WORK/partly.pt"
expect_failure 3 'expected a tensor fc\.weight .*the nearest is model\.fc\.weight' "a beginning that some names have"
for precision in fp32 int8; do
  train 2 "seven-$precision" "${still[@]}" --set "model.weights=$WORK/seven.pt" --set model.precision=$precision
  expect_code 0 "a head of seven classes, $precision"
  grep -q 'fc.weight, fc.bias start new' "$RUN/metrics.jsonl" || wrong "a head of seven classes, $precision: the note"
done
/usr/bin/python3 - "$WORK" <<'PY' || wrong "a head of seven classes: the wrong tensors are new"
import sys, torch
work = sys.argv[1]
found, given = torch.load(work + "/seven-fp32/model.pt"), torch.load(work + "/changed.pt")
assert torch.equal(found["conv1.weight"], given["conv1.weight"]) and found["fc.weight"].shape == (10, 64)
assert not torch.equal(found["fc.weight"], given["fc.weight"])
PY
train 1 refused "${still[@]}" --set "model.weights=$WORK/seven.pt" --set model.new_head=refuse
expect_failure 3 'expected fc.weight of shape \[10, 64\].*found shape \[7, 64\]' "a head that must fit"
train 1 refused "${still[@]}" --set "model.weights=$WORK/two_layers.pt"
expect_failure 3 'expected conv1.weight of shape' "two layers of other shapes"

# A new task: of the old weights all but the last layer, frozen, on three ranks with pictures of their own.
program export trained --to safetensors --out old.safetensors
expect_code 0 "export to safetensors"
PYTHONPATH=$EQT_ROOT/tests/e2e /usr/bin/python3 -B - "$WORK" <<'PY'
import os, random, sys, torch
import pictures
pictures.SIDE = 32
work = sys.argv[1]
random.seed(1)
for rank, kinds in enumerate((("cat", "dog", "owl"), ("cat", "dog"), ("owl", "cat"))):
    for part, count in (("train", 4), ("test", 2)):
        for kind in kinds:
            os.makedirs(f"{work}/own/{rank}/{part}/{kind}")
            for i in range(count):
                with open(f"{work}/own/{rank}/{part}/{kind}/{i}.png", "wb") as file:
                    file.write(pictures.png(random.randbytes(32 * 32)))
weights = torch.load(work + "/trained/model.pt")
for name, change in {
    "other": {"layer1.0.conv1.weight": None, "layer1.0.conv9.weight": weights["layer1.0.conv1.weight"]},
    "whole": {"bn1.running_mean": torch.zeros(16, dtype=torch.int64)},
    "count": {"bn1.num_batches_tracked": torch.tensor(3.0)},
    "inside": {"layer3.2.conv2.weight": torch.ones(10, 64, 3, 3)},
}.items():
    torch.save({k: v for k, v in {**weights, **change}.items() if v is not None}, f"{work}/{name}.pt")
PY
task=(--set data.name=folder --set data.image_size=32 --set data.limit_train=0 --set data.limit_test=0
  --set data.partition.kind=local --set "data.path=$WORK/own/{rank}" --set train.batch_size=4)
head=(--set model.weights=old.safetensors --set 'model.freeze=["conv1.*","bn1.*","layer*"]' --set model.frozen_norms=running)
for precision in fp32 int8; do
  train 3 "task-$precision" "${task[@]}" "${head[@]}" --set model.precision=$precision --set train.steps=2
  expect_code 0 "a new task, $precision"
  expect_equal true "$(summary replicas_identical)" "a new task, $precision: replicas"
  expect_equal 195 "$(summary parameters)" "a new task, $precision: parameters that are trained"
done
# Norms that a group of the optimizer has frozen are read by other verbs, too.
train 1 grouped --set train.steps=1 --set model.frozen_norms=running \
  --set 'optimizer.groups=[{"names":["*bn*","*downsample.1*"],"frozen":true}]'
expect_code 0 "norms that a group freezes"
program evaluate "$RUN"
expect_code 0 "evaluation of norms that a group froze"
/usr/bin/python3 - "$WORK" <<'PY' || wrong "a new task: another tensor than the last layer's has changed, or none of it"
import sys, torch
work = sys.argv[1]
old = torch.load(work + "/trained/model.pt")
new = [torch.load(f"{work}/task-{precision}/model.pt") for precision in ("fp32", "int8")]
for found in new:
    assert found.keys() == old.keys() and found["fc.weight"].shape == (3, 64)
    assert all(torch.equal(found[name], old[name]) for name in old if not name.startswith("fc."))
assert all((found["fc.weight"] != 0).all() for found in new)
PY
on_board() { program check --config tiny.json --ranks 3 "${task[@]}" "$@"; }
on_board "${head[@]}"
expect_code 0 "check of a new task"
expect_text 'weights: fc\.weight, fc\.bias start new' "check of a new task"
on_board --set model.frozen_norms=running
expect_failure 2 'model\.frozen_norms: expected .* found none' "no frozen norms"
on_board --set model.name=vit_tiny --set data.image_size=70
expect_failure 2 'multiples of 16' "pictures that no patches fill"
for case in other:'expected a tensor layer1\.0\.conv1\.weight .* the nearest is layer1\.0\.conv9\.weight' \
  whole:'expected bn1\.running_mean of type float32 .* found int64' count:'expected bn1\.num_batches_tracked of type int64' \
  inside:'expected layer3\.2\.conv2\.weight of shape'; do
  on_board --set "model.weights=$WORK/${case%%:*}.pt"
  expect_failure 3 "${case#*:}" "weights: ${case%%:*}"
done
on_board --set model.weights=old.safetensors --set model.name=mobilenet_v2
expect_failure 3 'expected a tensor .*check model\.name' "weights of another network"

# The files of a run suffice to compute its accuracy, with pictures that need a frame.
mnist=/usr/share/datasets/fashion-mnist
if [[ -r $mnist/t10k-images-idx3-ubyte.gz ]]; then
  train 1 grey --set data.name=fashion-mnist --set data.limit_train=1024 --set data.limit_test=200 \
    --set train.batch_size=32 --set train.steps=30
  expect_code 0 "a run on small pictures"
  /usr/bin/python3 "$EQT_ROOT/tests/e2e/accuracy_in_python.py" "$RUN" "$mnist/t10k-images-idx3-ubyte.gz" \
    "$mnist/t10k-labels-idx1-ubyte.gz" || wrong "Python finds another accuracy"
else
  echo "dataset-fashion-mnist is not installed: the accuracy in Python is not compared"
fi

echo "not a pickle" >"$WORK/garbage.pt"
train 1 garbage --set train.steps=1 --set "model.weights=$WORK/garbage.pt"
expect_failure 3 'garbage\.pt' "weights that are no weights"

# Archives that claim more than they have: compressed records, lengths beyond the file, a truncated
# file.
/usr/bin/python3 - "$WORK" <<'PY'
import struct, sys, zipfile
work = sys.argv[1]
with zipfile.ZipFile(f"{work}/changed.pt") as source, \
     zipfile.ZipFile(f"{work}/deflated.pt", "w", zipfile.ZIP_DEFLATED) as target:
    for item in source.infolist():
        target.writestr(item.filename, source.read(item))
whole = bytearray(open(f"{work}/changed.pt", "rb").read())
open(f"{work}/cut.pt", "wb").write(whole[:len(whole) // 2])
entry = whole.rfind(b"PK\1\2")
struct.pack_into("<II", whole, entry + 20, 0x7FFFFFFF, 0x7FFFFFFF)
open(f"{work}/long.pt", "wb").write(whole)
PY
truncate -s 10G "$WORK/huge.pt"
for case in deflated:compressed cut: long:whole huge:'at most'; do
  name=${case%%:*}
  train 1 hostile --set train.steps=1 --set "model.weights=$WORK/$name.pt"
  expect_failure 3 "${case#*:}.*$name\.pt|$name\.pt.*${case#*:}" "$name weights"
  expect_within 10 "$name weights"
done
finish
