#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `init` writes a config for pictures, arrays, tables, texts and networks that are there; `check` accepts it, and it
# trains, predicts and exports. No file is replaced, and what is no data set is one sentence.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_arrays

cat >"$WORK/make.py" <<'PY'
from arrays_head import *
import struct, zlib

def png(path, pixels):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    height, width, channels = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" +
                   chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))

def pictures(folder, side, channels):
    for number, name in enumerate(("dark", "light")):
        for i in range(12):
            pixels = rng.integers(0, 100, (side, side + 3, channels)) + 150 * number
            png(f"{work}/{folder}/{name}/{i}.png", pixels.astype("uint8"))
pictures("small", 20, 1)
pictures("large", 90, 3)
y = rng.integers(0, 3, 160)
x = rng.normal(size=(3, 4))[y] * 3 + rng.normal(size=(160, 4))
save("arrays", x, y, 32)
save("numbers", x, x[:, :1] * 2 + 1, 32)
numpy.savetxt(f"{work}/flowers.csv", numpy.column_stack([x, y]), delimiter=",", fmt="%.6g",
              header="a,b,c,d,class", comments="")
words = {"warm": "sun summer beach heat".split(), "cold": "ice winter snow frost".split()}
rows = ["label,text"] + [f"{label},{' '.join(rng.choice(words[label], 4))} day"
                         for label in rng.choice(["warm", "cold"], 120)]
open(f"{work}/weather.csv", "w").write("\n".join(rows) + "\n")
os.makedirs(f"{work}/nets")
torch.jit.script(nn.Sequential(nn.Linear(4, 3))).save(f"{work}/nets/line.pt")
torch.jit.script(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(3600, 10))).save(f"{work}/nets/images.pt")
torch.save(nn.Linear(4, 3).state_dict(), f"{work}/nets/state.pt")
PY
make_arrays

# starts CONFIG MODEL TASK WHAT: `init` has ended; its config is what check accepts, and trains for some steps.
starts() {
  local config=$1 what=$4
  expect_code 0 "init: $what"
  [[ -e $config ]] || { wrong "init: $what: there is no $config"; return 0; }
  cp "$OUT" told
  program check --full --config "$config"
  expect_code 0 "check: $what"
  cp "$OUT" resolved.json
  expect_equal "$2" "$(value resolved.json model.name)" "$what: network"
  expect_equal "$3" "$(value resolved.json task.kind)" "$what: task"
  RUN=$WORK/run.$(basename "$config" .json)
  run "$EQT_ROOT/scripts/run_local.sh" --ranks 2 -- --config "$config" --out "$RUN" --set "train.steps=${STEPS:-4}" \
    --set threads_per_rank=1 --set output.progress=off
  expect_code 0 "train: $what"
  ! grep -q '//' "$RUN/config.json" || python3 -m json.tool "$RUN/config.json" >/dev/null ||
    wrong "$what: the run's config is no plain JSON"
}

# answers KEY INPUT...: the run predicts, and exports what LibTorch of Python loads.
answers() {
  local key=$1
  shift
  program predict "$RUN" "$@"
  expect_code 0 "predict: $*"
  grep -q "\"$key\"" "$OUT" || wrong "predict: $*: no $key"
  program export "$RUN" --to torchscript --out "$WORK/exported.pt"
  expect_code 0 "export: $*"
  /usr/bin/python3 -c 'import sys, torch; torch.jit.load(sys.argv[1])' "$WORK/exported.pt" || wrong "export: $*"
  rm -f "$WORK/exported.pt"
}

program init small
starts small.json resnet20 classification "small pictures"
expect_equal 20 "$(value resolved.json data.image_size)" "small pictures: side"
expect_equal 1 "$(value resolved.json data.channels)" "small pictures: channels"
grep -q 'equant-train check --config small.json' told || wrong "init says no next command"
grep -q 'dark 1[01], light 1[01]' told || wrong "init does not say the classes"
answers class small/dark/1.png small/light/2.png

program init large --out own.json
STEPS=2 starts own.json resnet18 classification "large pictures"
expect_equal 88 "$(value resolved.json data.image_size)" "large pictures: side"
expect_equal 3 "$(value resolved.json data.channels)" "large pictures: channels"

program init arrays
STEPS=200 starts arrays.json mlp classification "arrays"
expect_number "$(summary test_accuracy)" '>=' 0.85 "arrays: accuracy"
answers class arrays/x_test.npy
# The network has the names of torch.nn.Sequential, and gives what that gives.
/usr/bin/python3 - "$RUN" arrays/x_test.npy "$OUT" <<'PY' || wrong "arrays: the weights are not those of a torch.nn.Sequential"
import json, sys, numpy, torch
from torch import nn
net = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3))
net.load_state_dict(torch.load(sys.argv[1] + "/model.pt"))
about = json.load(open(sys.argv[1] + "/preprocessing.json"))
assert len(about["mean"]) == 4, about
PY
program init numbers
starts numbers.json mlp regression "numbers"
answers values numbers/x_test.npy

program init flowers.csv
STEPS=200 starts flowers.json mlp classification "a table alone"
expect_number "$(summary test_accuracy)" '>=' 0.8 "a table alone: accuracy"
grep -q '144 training and 16 test samples' told || grep -q '14[345] training and 1[567] test samples' told ||
  wrong "a table alone: a tenth of each class is the test set"
answers class flowers.csv
program evaluate "$RUN"
expect_code 0 "evaluate a table alone"
expect_equal "$(summary test_accuracy)" "$(value "$RUN/evaluation/evaluation.json" metrics.accuracy)" \
  "a table alone: evaluate takes the same samples"

program init weather.csv
STEPS=60 starts weather.json bert classification "a table of texts"
[[ -s weather.vocab.txt ]] || wrong "a table of texts: no vocabulary is written"
expect_number "$(summary test_accuracy)" '>=' 0.9 "a table of texts: accuracy"
echo "snow and frost" >line.txt
answers class line.txt
grep -q '"class": *"cold"' <("$EQT_PROGRAM" predict "$RUN" line.txt) || wrong "a text of snow is not cold"

program init arrays nets/line.pt --out net.json
starts net.json torchscript classification "arrays and a network"
program init nets/images.pt
starts images.json torchscript classification "a network alone, for pictures"
program init nets/line.pt
expect_code 0 "a network alone, for something else"
grep -q 'put data into the config line.json' "$OUT" || wrong "a network alone: init does not say what is missing"
program check --config line.json --set data.path=arrays
expect_code 0 "a network alone, with data"

# No file is replaced.
cp small.json before.json
program init small
expect_failure 2 'expected no file at small.json.*--out FILE' "a config that is there"
cmp -s small.json before.json || wrong "init has changed a file"
program init small --out none/a.json
expect_failure 74 'none/a.json.*--out' "a folder that is not there"
rm weather.json
program init weather.csv
expect_failure 2 'expected no file at weather.vocab.txt' "a vocabulary that is there"
[[ ! -e weather.json ]] || wrong "init has written half of its files"

# refuses CODE REGEX PATH...
refuses() {
  local code=$1 regex=$2
  shift 2
  program init "$@" --out refused.json
  expect_failure "$code" "$regex" "init $*"
  [[ ! -e refused.json ]] || wrong "init $* has written a config"
}
mkdir -p empty one/cat deep/2023/cat deep/2024/dog broken/train/cat broken/train/dog
cp small/dark/*.png one/cat/
cp small/dark/1.png deep/2023/cat/
cp small/dark/1.png deep/2024/dog/
for class in cat dog; do for i in 1 2 3; do echo "no picture" >broken/train/$class/$i.png; done; done
mkdir mixed && cp -r small/dark small/light mixed/ && cp flowers.csv mixed/
mkdir texts && printf '5.1,3.5,setosa\n6.2,3.4,virginica\n5.0,3.1,setosa\n' >texts/iris.csv
refuses 2 'found nothing.*nearest is small' smal
cp -r small $'latin\xe4'
refuses 2 'expected a path in UTF-8' $'latin\xe4'
refuses 3 'found an empty folder' empty
refuses 3 'at least 2 classes' one
refuses 3 'folders in folders such as 2023/cat' deep
refuses 3 'one kind of data.*"arrays" and of "folder"' mixed
refuses 3 'broken/train/cat/1.png' broken
refuses 3 'iris.csv.*setosa' texts
refuses 3 'state dict' nets/state.pt
refuses 3 'state dict' arrays nets/state.pt
refuses 2 'found arrays and small' arrays small
finish
