#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A finished run is evaluated and exported, and its exports give the same logits in Python.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
/usr/bin/python3 -c 'import torch' 2>/dev/null || skip "python3-torch is not installed"

mnist=/usr/share/datasets/fashion-mnist
set_of=(--set data.name=synthetic)
if [[ -r $mnist/t10k-images-idx3-ubyte.gz ]]; then  # decompressed once, because it is read often
  mkdir "$WORK/mnist"
  for file in "$mnist"/*-ubyte.gz; do
    gzip -dc "$file" >"$WORK/mnist/$(basename "$file" .gz)"
  done
  set_of=(--set data.name=fashion-mnist --set "data.path=$WORK/mnist")
fi
train 1 run "${set_of[@]}" --set data.limit_train=128 --set data.limit_test=100 --set train.steps=0 \
  --set train.epochs=2 --set train.batch_size=16 --set checkpoint.best=true
expect_code 0 "a run"
[[ $CODE -eq 0 ]] || finish
[[ -s $RUN/model_best.pt ]] || wrong "the best weights are kept"

# The same accuracy as in the run, and tables that add up.
program evaluate "$RUN"
expect_code 0 "evaluate"
grep -q 'mostly mistaken for' "$OUT" || wrong "evaluate prints a table of classes"
python3 - "$RUN" <<'PY' || wrong "the evaluation disagrees with the run"
import csv, json, sys
run = sys.argv[1]
found, summary = json.load(open(run + "/evaluation/evaluation.json")), json.load(open(run + "/summary.json"))
assert abs(found["metrics"]["accuracy"] - summary["test_accuracy"]) < 1e-9, found["metrics"]
last = [json.loads(line) for line in open(run + "/metrics.jsonl") if '"epoch"' in line and '"test_loss"' in line][-1]
assert abs(found["metrics"]["loss"] - last["test_loss"]) < 1e-4 * last["test_loss"], (found["metrics"], last)
matrix = found["confusion"]
assert sum(map(sum, matrix)) == found["samples"] == 100
assert sum(row[i] for i, row in enumerate(matrix)) == round(100 * summary["test_accuracy"])
for i, one in enumerate(found["classes"]):
    assert one["samples"] == sum(matrix[i]) and one["correct"] == matrix[i][i]
rows = list(csv.reader(open(run + "/evaluation/confusion.csv")))
assert [[int(cell) for cell in row[1:]] for row in rows[1:]] == matrix
PY
if command -v gnuplot >/dev/null; then
  [[ -s $RUN/evaluation/confusion.svg ]] || wrong "evaluate draws the confusion matrix"
  program report "$RUN" --out "$WORK/report"
  expect_code 0 "report"
  grep -q 'Confusion matrix' "$WORK/report/report.html" || wrong "the report shows the confusion matrix"
fi
accuracy=$(value "$RUN/evaluation/evaluation.json" metrics.accuracy)
program evaluate "$RUN/model.pt" --config "$RUN/config.json" --batch 7 --out "$WORK/weights"
expect_code 0 "evaluate a file of weights"
expect_equal "$accuracy" "$(value "$WORK/weights/evaluation.json" metrics.accuracy)" "the file of weights"
program evaluate "$RUN" --split train --out "$WORK/train"
expect_equal 128 "$(value "$WORK/train/evaluation.json" samples)" "evaluate on the training set"
program evaluate "$RUN" --best --out "$WORK/best"
expect_equal "$(value "$RUN/summary.json" best_test_accuracy)" \
  "$(value "$WORK/best/evaluation.json" metrics.accuracy)" "the best weights"

# Evaluations of several sets stay apart, and a report has them all.
program evaluate "$RUN" --split train
expect_code 0 "evaluate on the training set, in the run"
program evaluate "$RUN" --set data.limit_test=50
program evaluate "$RUN" --set data.limit_test=50
expect_code 0 "evaluate on a part of the test set"
expect_equal '100 128 50' "$(for set in "$RUN/evaluation" "$RUN"/evaluation/*-train "$RUN"/evaluation/*-test; do
  value "$set/evaluation.json" samples
done | xargs)" "evaluations side by side"
program report "$RUN" --out "$WORK/evaluations"
expect_code 0 "report of several evaluations"
expect_equal 3 "$(tail -n +2 "$WORK/evaluations/evaluations.csv" | wc -l)" "evaluations in the report"
! command -v gnuplot >/dev/null || [[ -s $WORK/evaluations/confusion-3.svg ]] || wrong "the report draws three matrices"

# Exports, with the metadata that describe the input.
for format in torchscript safetensors state-dict; do
  program export "$RUN" --to "$format" --out "$WORK/net.$format"
  expect_code 0 "export to $format"
done
cat >"$WORK/read_exports.py" <<'PY'
import json, os, struct, sys, torch
sys.path.insert(0, sys.argv[3])
from ddp_baseline import build
work, run = sys.argv[1:3]
torch.set_num_threads(1)
facts = json.load(open(run + "/preprocessing.json"))
state = torch.load(work + "/net.state-dict")
with open(work + "/net.safetensors", "rb") as file:
    length, = struct.unpack("<Q", file.read(8))
    assert length % 8 == 0
    header, data = json.loads(file.read(length)), file.read()
assert json.loads(header["__metadata__"]["preprocessing"]) == facts
kinds = {"F32": torch.float32, "I64": torch.int64}
tensors = {}
for name, entry in header.items():
    if name == "__metadata__": continue
    begin, end = entry["data_offsets"]
    tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=kinds[entry["dtype"]]).view(entry["shape"])
assert tensors.keys() == state.keys() and all(torch.equal(tensors[name], state[name]) for name in state)
files = {"preprocessing.json": ""}
module = torch.jit.load(work + "/net.torchscript", _extra_files=files)
about = json.loads(files["preprocessing.json"])
assert about["mean"] == facts["mean"] and about["input_shape"] == facts["shape"] and about["framing"]["top"] == 0
assert not module.training
traced = {name: tensor for name, tensor in module.state_dict().items()}
assert traced.keys() == state.keys() and all(torch.equal(traced[name], state[name]) for name in state)
channels, height, width = facts["shape"]
network = build("resnet20", len(facts["class_names"]))
network.conv1 = torch.nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
network.load_state_dict(state)
network.eval()
torch.manual_seed(1)
x = torch.randn(5, channels, height, width)
around = [facts["framing"][side] for side in ("left", "right", "top", "bottom")]
with torch.no_grad():
    own, other = network(torch.nn.functional.pad(x, around)), module(x)
largest = (own - other).abs().max().item()
print(f"largest difference of logits: {largest:.3g}, largest logit {own.abs().max():.3g}")
assert largest < 1e-4, largest
PY
/usr/bin/python3 "$WORK/read_exports.py" "$WORK" "$RUN" "$EQT_ROOT/tests/bench" || wrong "Python reads other networks"

# Predictions of the test pictures as files: the accuracy of the run, and the probabilities of the export.
if [[ -r $mnist/t10k-images-idx3-ubyte.gz ]]; then
  cat >"$WORK/pictures.py" <<'PY'
import gzip, os, struct, sys, zlib
folder, images, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.mkdir(folder)
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
with gzip.open(images) as file:
    file.read(16)
    for i in range(count):
        rows = b"".join(b"\0" + file.read(28) for _ in range(28))
        with open(f"{folder}/{i:03}.png", "wb") as out:
            out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 28, 28, 8, 0, 0, 0, 0)) +
                      chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
PY
  python3 "$WORK/pictures.py" "$WORK/pictures" "$mnist/t10k-images-idx3-ubyte.gz" 100
  program predict "$RUN" "$WORK"/pictures/*.png --batch 7 --out "$WORK/predictions.jsonl"
  expect_code 0 "predict"
  cat >"$WORK/read_predictions.py" <<'PY'
import gzip, json, sys, torch
work, run, images, labels = sys.argv[1:]
lines = [json.loads(line) for line in open(work + "/predictions.jsonl")]
facts, count = json.load(open(run + "/preprocessing.json")), len(lines)
names = facts["class_names"]
assert count == 100 and [line["input"] for line in lines] == [f"{work}/pictures/{i:03}.png" for i in range(count)]
truth = gzip.open(labels).read()[8:8 + count]
right = sum(names.index(line["class"]) == label for line, label in zip(lines, truth))
assert right == round(100 * json.load(open(run + "/summary.json"))["test_accuracy"]), right
torch.set_num_threads(1)
pixels = torch.frombuffer(bytearray(gzip.open(images).read(16 + 784 * count)[16:]), dtype=torch.uint8)
x = (pixels.view(count, 1, 28, 28).float() / 255 - facts["mean"][0]) / facts["deviation"][0]
with torch.no_grad():
    expected = torch.jit.load(work + "/net.torchscript")(x).softmax(1)
found = torch.tensor([[line["probabilities"][name] for name in names] for line in lines])
print(f"largest difference of probabilities: {(found - expected).abs().max():.3g}")
assert torch.allclose(found, expected, atol=1e-5)
assert all(line["probability"] == max(line["probabilities"].values()) for line in lines)
PY
  /usr/bin/python3 "$WORK/read_predictions.py" "$WORK" "$RUN" "$mnist/t10k-images-idx3-ubyte.gz" \
    "$mnist/t10k-labels-idx1-ubyte.gz" || wrong "predictions are not those of the network"
  head -c 100 "$WORK/pictures/000.png" >"$WORK/pictures/cut.png"
  program predict "$RUN" "$WORK/pictures/001.png" "$WORK/pictures/cut.png" "$WORK/pictures/none.png" \
    "$WORK/pictures/002.png"
  expect_code 3 "predict with broken pictures"
  expect_text 'cut.png' "predict names a broken picture"
  expect_text 'none.png' "predict names a missing picture"
  expect_equal 2 "$(grep -c '"class"' "$OUT")" "predict leaves only the broken pictures out"
fi

# Training again ends with what was made of the weights before.
program export "$RUN" --to safetensors
expect_code 0 "an export"
ls "$RUN"/evaluation/evaluation.json "$RUN"/model.safetensors >/dev/null || wrong "evaluation or export are not in the run"
cp -r "$RUN" "$WORK/again"
touch "$WORK/again/evaluation/notes.txt"
program --config "$RUN/config.json" --out "$WORK/again" --overwrite --set train.epochs=1 --quiet
expect_code 0 "training again"
[[ ! -e $WORK/again/evaluation/evaluation.json && ! -e $WORK/again/model.safetensors ]] ||
  wrong "after --overwrite an evaluation or export of the older weights is left"
[[ -e $WORK/again/evaluation/notes.txt ]] || wrong "--overwrite removes a file that no run wrote"

# What cannot be evaluated or exported.
program evaluate "$WORK/absent"
expect_failure 2 'expected --config' "weights without a config"
program export "${RUN%n}"
expect_failure 3 "nearest is $RUN" "a run's name with a letter left out"
program export "$RUN" --out "$WORK/no/such/folder/net.pt"
expect_code 74 "a folder that is not there"
cp -r "$RUN" "$WORK/damaged"
echo '{"shape": [1, 2]}' >"$WORK/damaged/preprocessing.json"
program export "$WORK/damaged"
expect_failure 3 'preprocessing.json' "a damaged description of the input"
# damage WHAT STATEMENT: one of its figures is no such figure.
damage() {
  python3 - "$RUN/preprocessing.json" "$WORK/damaged/preprocessing.json" "$2" <<'PY'
import json, sys
facts = json.load(open(sys.argv[1]))
exec(sys.argv[3])
json.dump(facts, open(sys.argv[2], "w"))
PY
  program export "$WORK/damaged"
  expect_failure 3 'preprocessing.json.*values that no network has' "$1"
}
damage "a mean of 1e308" 'facts["mean"][0] = 1e308'
damage "a deviation of 1e-320" 'facts["deviation"][0] = 1e-320'
finish
