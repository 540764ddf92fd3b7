#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Arrays of one's own train networks that Python wrote: an MLP on features, a 1-D convolution on
# series, a GRU. Each with three compressors, CHOCO-SGD, and a resumed run that ends with the same
# bits. Tables, regression, flags, standardization, and what is refused.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_arrays

cat >"$WORK/make.py" <<'PY'
from arrays_head import *
# Three classes around three points; a feature of another size that only standardization bears.
y = rng.integers(0, 3, 320)
x = rng.normal(size=(3, 8))[y] * 2 + rng.normal(size=(320, 8))
x[:, 0] = x[:, 0] * 1000 + 1e6
save("mlp", x, y.astype("uint8"), 64)
# Two channels of 16 steps: slow and fast waves.
t = numpy.arange(16)
y = rng.integers(0, 2, 320)
phase = rng.uniform(0, 6.28, (320, 2, 1))
save("series", (numpy.sin((0.4 + 0.8 * y[:, None, None]) * t + phase) +
                0.2 * rng.normal(size=(320, 2, 16))).astype(">f4"), y, 64)
# 12 steps of three features: whether the first of them is larger on average than the second.
x = rng.normal(size=(320, 12, 3)).astype("float16")
x[:, :, 0] += rng.choice([-1, 1], (320, 1))
save("steps", x, (x[:, :, 0].mean(1) > x[:, :, 1].mean(1)).astype("int64"), 64)

class Series(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(2, 8, 5, padding=2)
        self.last = nn.Linear(8, 2)
    def forward(self, x):
        return self.last(torch.relu(self.first(x)).mean(2))
class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.GRU(3, 8, batch_first=True)
        self.last = nn.Linear(8, 2)
    def forward(self, x):
        x, _ = self.rows(x)
        return self.last(x[:, -1])
torch.jit.script(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))).save(f"{work}/mlp.pt")
torch.jit.script(Series()).save(f"{work}/series.pt")
torch.jit.script(Steps()).save(f"{work}/steps.pt")
torch.jit.script(nn.Linear(8, 1)).save(f"{work}/line.pt")
torch.jit.script(nn.Linear(8, 3)).save(f"{work}/flags.pt")
# Regression by table, and flags.
weights = numpy.arange(8) / 4 - 1
x = rng.normal(size=(256, 8))
os.makedirs(f"{work}/table")
header = ",".join(["target"] + [f"f{i}" for i in range(8)])
for name, part in (("train", slice(64, None)), ("test", slice(0, 64))):
    numpy.savetxt(f"{work}/table/{name}.csv", numpy.column_stack([x @ weights + 0.5, x])[part],
                  delimiter=",", header=header, comments="")
save("flags", x, x[:, :3] > 0, 64)
PY
make_arrays

cat >"$WORK/tiny.json" <<'JSON'
{
  "name": "arrays", "seed": 1, "threads_per_rank": 1,
  "model": {"name": "torchscript"},
  "data": {"name": "arrays", "standardize": "last-axis"},
  "train": {"epochs": 8, "batch_size": 16},
  "optimizer": {"learning_rate": 0.1},
  "compressor": {"skip_below": 0, "bucket_size": 64},
  "synchronization": {"timeout_seconds": 60},
  "output": {"progress": "off", "tensorboard": false}
}
JSON
for net in mlp series steps; do
  own=(--set "model.path=$WORK/$net.pt" --set "data.path=$WORK/$net")
  [[ $net != series ]] || own+=(--set data.standardize=first-axis)
  train 2 "$net" "${own[@]}" --set compressor.name=e-elastiquant
  expect_code 0 "$net"
  [[ $CODE -eq 0 ]] || continue
  expect_equal true "$(summary replicas_identical)" "$net: replicas"
  expect_number "$(summary test_accuracy)" '>=' 0.85 "$net: accuracy"
  whole=$(summary parameter_hash)
  case $net in  # each kind of input with something else: they have no code in common with it
    mlp) other=(--set compressor.name=qsgd) ;;
    series) other=(--set compressor.name=topk --set compressor.density=0.2) ;;
    steps) other=(--set compressor.name=qsgd --set compressor.bits=8 --set synchronization.algorithm=choco-sgd) ;;
  esac
  train 2 "$net.other" "${own[@]}" "${other[@]}"
  expect_code 0 "$net: ${other[*]}"
  if [[ $net != steps ]]; then
    expect_equal true "$(summary replicas_identical)" "$net: ${other[*]}: replicas"
    continue
  fi
  expect_number "$(summary test_accuracy)" '>=' 0.85 "$net with CHOCO-SGD: accuracy"
  train 2 "$net.resumed" "${own[@]}" --set compressor.name=e-elastiquant --set train.epochs=3 --set checkpoint.every_epochs=3
  train 2 "$net.resumed" "${own[@]}" --set compressor.name=e-elastiquant --set checkpoint.every_epochs=3 --resume
  expect_code 0 "$net: resumed"
  expect_equal "$whole" "$(summary parameter_hash)" "$net: resumed parameters"
done

# Without standardization the MLP's large feature hides the others.
own=(--set "model.path=$WORK/mlp.pt" --set "data.path=$WORK/mlp")
program --config tiny.json "${own[@]}" --out "$WORK/raw" --set data.standardize=off --set optimizer.learning_rate=1e-9
expect_code 0 "numbers as they are"
expect_different "$(value "$WORK/mlp/summary.json" test_accuracy)" "$(value "$WORK/raw/summary.json" test_accuracy)" "standardization"

program --config tiny.json --set "model.path=$WORK/line.pt" --set "data.path=$WORK/table" --set data.target=target \
  --set task.kind=regression --set train.epochs=20 --set optimizer.learning_rate=0.02 --out "$WORK/line"
expect_code 0 "regression by table"
expect_number "$(value "$WORK/line/summary.json" test_mse)" '<' 0.01 "regression: mean squared error"
# Predictions are those of NumPy: a table with names and a target in another order, and the rows of an array.
/usr/bin/python3 - "$WORK" <<'PY'
import sys, numpy
work = sys.argv[1]
table = numpy.genfromtxt(work + "/table/test.csv", delimiter=",", skip_header=1)[:5]
numpy.savetxt(work + "/turned.csv", table[:, ::-1], delimiter=",", comments="", fmt="%.17g",
              header=",".join([f"f{i}" for i in range(7, -1, -1)] + ["target"]))
numpy.save(work + "/rows.npy", table[:, 1:])
PY
program predict "$WORK/line" "$WORK/turned.csv" "$WORK/rows.npy" --batch 3
expect_code 0 "predict rows"
/usr/bin/python3 - "$WORK" "$OUT" <<'PY' || wrong "predictions of rows are not those of NumPy"
import json, sys, numpy, torch
work, lines = sys.argv[1], [json.loads(line) for line in open(sys.argv[2])]
assert [line["input"] for line in lines] == ([f"{work}/turned.csv:{i}" for i in range(2, 7)] +
                                             [f"{work}/rows.npy:{i}" for i in range(5)]), lines
train = numpy.genfromtxt(work + "/table/train.csv", delimiter=",", skip_header=1)[:, 1:]
x = (numpy.load(work + "/rows.npy") - train.mean(0)) / train.std(0)
net = torch.load(work + "/line/model.pt")
expected = x @ net["weight"].numpy().T + net["bias"].numpy()
found = numpy.array([line["values"] for line in lines])
assert numpy.allclose(found, numpy.concatenate([expected, expected]), atol=1e-5), (found, expected)
PY
program predict "$WORK/line" "$WORK/mlp/y_test.npy"
expect_code 3 "predict samples of another shape"
expect_text 'y_test\.npy.*shape' "predict samples of another shape"
program --config tiny.json --set "model.path=$WORK/flags.pt" --set "data.path=$WORK/flags" --set task.kind=multi-label \
  --out "$WORK/signs"
expect_code 0 "flags"

# Four batches of 16 in a step are one of 64, but for rounding: three epochs of 192 samples.
for optimizer in sgd adamw; do
  rate=0.1
  [[ $optimizer == sgd ]] || rate=0.003
  for count in 1 4; do
    program --config tiny.json "${own[@]}" --set "train.accumulate=$count" --set "train.batch_size=$((64 / count))" \
      --set train.epochs=3 --set "optimizer.name=$optimizer" --set "optimizer.learning_rate=$rate" \
      --out "$WORK/$optimizer.$count"
    expect_code 0 "$optimizer, $count batches a step"
  done
  expect_equal "$(value "$WORK/$optimizer.1/summary.json" steps)" "$(value "$WORK/$optimizer.4/summary.json" steps)" "$optimizer: steps"
  /usr/bin/python3 - "$WORK" "$optimizer" <<'PY' || wrong "$optimizer: four batches of 16 are not one of 64"
import sys, torch
one, four, start = (torch.load(f"{sys.argv[1]}/{sys.argv[2]}.{n}/model.pt") for n in (1, 4, 1))
start = dict(torch.jit.load(f"{sys.argv[1]}/mlp.pt").named_parameters())
moved = max((one[n] - start[n]).abs().max().item() for n in start)
apart = max((one[n] - four[n]).abs().max().item() for n in start)
print(f"moved {moved:.3g}, apart {apart:.3g}")
assert moved > 0.01 and apart < 1e-4 * moved, (moved, apart)
PY
done

# A run goes on with the files that it began with, wherever they lie.
mkdir moved
cp mlp/*.npy mlp.pt moved/
resumed=(--config tiny.json --set "data.path=$WORK/moved" --set "model.path=$WORK/moved/mlp.pt"
  --set checkpoint.every_steps=4 --out "$WORK/resumed")
program "${resumed[@]}" --set "data.path=$WORK/mlp" --set "model.path=$WORK/mlp.pt" --set train.steps=4
expect_code 0 "a run to go on from"
# With two other rows of features, which are none of the samples that ranks compare.
/usr/bin/python3 - "$WORK" <<'PY'
import sys, numpy, torch
work = sys.argv[1]
x = numpy.load(work + "/mlp/x_train.npy")
x[100:102, 3] += 1
numpy.save(work + "/rows.npy", x)
torch.jit.script(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))).save(work + "/tanh.pt")
PY
cp rows.npy moved/x_train.npy
program "${resumed[@]}" --set train.steps=8 --resume
expect_failure 3 'data\.path/x_train\.npy a file of' "--resume with two other rows"
cp mlp/x_train.npy moved/
cp tanh.pt moved/mlp.pt
program "${resumed[@]}" --set train.steps=8 --resume
expect_failure 3 'model\.path a file of .* instead of' "--resume with another network"
cp mlp.pt moved/
program "${resumed[@]}" --set train.steps=24 --resume
expect_code 0 "--resume with the same files elsewhere"
expect_equal "16 24" "$(grep '"type":"epoch"' resumed/metrics.jsonl | sed 's/.*"step":\([0-9]*\).*/\1/' | xargs)" \
  "epochs of a run that had ended within one"

# Outputs of verbs destroy nothing.
cp rows.npy in.npy
echo theirs >answers
kept() { cmp -s "$1" "$2" || wrong "$3: $1 was changed"; }
for out in in.npy resumed/model.pt resumed/../resumed/config.json resumed/network.pt; do
  cp "$out" kept
  program predict resumed in.npy --out "$out"
  expect_failure 2 'expected (another file|a file that is no record)' "predict --out $out"
  kept "$out" kept "predict --out $out"
  [[ $out != in.npy ]] || continue
  program export resumed --out "$out"
  expect_failure 2 'no record of a run' "export --out $out"
  kept "$out" kept "export --out $out"
done
program export resumed --out "$WORK/moved/mlp.pt"
expect_failure 2 'another file than those that are read' "export over the network that the config names"
kept moved/mlp.pt mlp.pt "export"
program predict resumed "$WORK/mlp/y_train.npy" --out answers
expect_code 3 "predict of what cannot be read"
expect_equal theirs "$(cat answers)" "predict without any answer"
mkfifo pipe
ln -s answers link
for out in pipe link . /dev/null; do
  program predict resumed in.npy --out "$out"
  expect_failure 74 'expected a regular file or nothing' "predict --out $out"
  program export resumed --out "$out"
  expect_failure 74 'expected a regular file or nothing' "export --out $out"
done
[[ -p pipe && -L link && -c /dev/null ]] || wrong "an output took the place of a pipe, a link or a device"
program predict resumed in.npy --out -
expect_code 0 "predict --out -"
expect_equal 256 "$(wc -l <"$OUT")" "predict --out -: lines"
cp "$OUT" kept
for i in 1 2 3; do "$EQT_PROGRAM" predict resumed in.npy --out answers & done
wait
kept answers kept "three at once"
expect_equal "" "$(find . -maxdepth 1 -name '*.tmp*')" "temporary files"

# What is refused.
program check --config tiny.json --set "model.path=$WORK/mlp.pt"
expect_failure 2 'data\.path' "no folder"
program check --config tiny.json "${own[@]}" --set "data.path=$WORK/series"
expect_failure 3 '(\[2, 16\]|16x|shape)' "samples that the network cannot take"
program check --config tiny.json --set "model.path=$WORK/flags.pt" --set "data.path=$WORK/series" --set data.standardize=off
expect_failure 3 'flags\.pt' "a network for other samples"
program check --config tiny.json "${own[@]}" --set model.name=resnet20 --set model.path=null
expect_failure 2 'resnet20' "a network for pictures"
program check --config tiny.json "${own[@]}" --set data.integers=true
expect_failure 2 'data\.standardize' "embeddings that are standardized"
program check --config tiny.json "${own[@]}" --set data.name=synthetic
expect_failure 2 'data\.standardize' "keys of arrays with another set"
mkdir bad
cp mlp/*.npy bad/
/usr/bin/python3 - "$WORK" <<'PY'
import sys, numpy
x = numpy.load(sys.argv[1] + "/mlp/x_train.npy")
x[7, 2] = numpy.nan
numpy.save(sys.argv[1] + "/bad/x_train.npy", x)
PY
train 2 bad --set "model.path=$WORK/mlp.pt" --set "data.path=$WORK/bad"
expect_failure 3 'x_train\.npy, row 7, column 2.*nan' "a feature that is not finite"
cp mlp/x_train.npy bad/
/usr/bin/python3 -c 'import sys, numpy; numpy.save(sys.argv[1], numpy.array([{}] * 256, dtype=object))' "$WORK/bad/y_train.npy"
train 1 bad --set "model.path=$WORK/mlp.pt" --set "data.path=$WORK/bad"
expect_failure 3 'y_train\.npy.*unpickled' "labels that are objects"
finish
