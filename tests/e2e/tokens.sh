#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Language models of tokens in arrays: the program's own network and one that Python wrote; which token follows, and
# targets of their own; ranks that lack tokens; predictions beside an evaluation; what is refused.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_arrays

cat >"$WORK/make.py" <<'PY'
from arrays_head import *
# Each token tells the next one, but for one place in ten.
x = numpy.zeros((400, 9), "uint8")
x[:, 0] = rng.integers(0, 5, 400)
for place in range(1, 9):
    x[:, place] = numpy.where(rng.random(400) < 0.1, rng.integers(0, 5, 400), (2 * x[:, place - 1] + 1) % 5)
save("data/next", x, None, 80)
# Whether a token is larger than the one before it; the first has none.
x = rng.integers(0, 5, (400, 6)).astype("uint16")
y = numpy.full((400, 6), -100, "int32")
y[:, 1:] = x[:, 1:] > x[:, :-1]
save("data/larger", x, y, 80)
# The first rank has no token 4.
save("data/0", rng.integers(0, 4, (40, 6)), None, 8)
save("data/1", rng.integers(0, 5, (40, 6)), None, 8)

class Reads(nn.Module):
    """Knows two tokens more than there are."""
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 12)
        self.rows = nn.GRU(12, 24, batch_first=True)
        self.last = nn.Linear(24, 7)
    def forward(self, tokens):
        x, _ = self.rows(self.words(tokens))
        return self.last(x)
torch.jit.script(Reads()).save(f"{work}/reads.pt")
PY
make_arrays

cat >"$WORK/tiny.json" <<'JSON'
{
  "name": "tokens", "seed": 1, "threads_per_rank": 1,
  "model": {"name": "bert", "layers": 1, "hidden": 16, "heads": 2},
  "data": {"name": "arrays", "path": "data/next"},
  "task": {"kind": "language-model"},
  "train": {"epochs": 20, "batch_size": 16},
  "optimizer": {"name": "adamw", "learning_rate": 0.02, "weight_decay": 0.01, "clip_norm": 1},
  "schedule": {"kind": "linear", "warmup_epochs": 1},
  "compressor": {"name": "e-elastiquant", "skip_below": 0},
  "synchronization": {"timeout_seconds": 60},
  "output": {"progress": "off", "tensorboard": false}
}
JSON
train 2 next
expect_code 0 "which token follows"
expect_equal true "$(summary replicas_identical)" "which token follows: replicas"
program evaluate next
expect_code 0 "evaluate"

# A row's own perplexity, and the probability of its last token, are all that a test set's perplexity is made of.
/usr/bin/python3 -c 'import numpy; numpy.save("rows.npy", numpy.load("data/next/x_test.npy")[:, :-1])'
program predict next rows.npy --batch 7
expect_code 0 "predict which token follows"
/usr/bin/python3 - "$OUT" "$(summary test_perplexity)" <<'PY' || wrong "predictions, evaluation and training have other perplexities"
import json, math, sys, numpy
lines = [json.loads(line) for line in open(sys.argv[1])]
x = numpy.load("data/next/x_test.npy").astype(int)
assert len(lines) == len(x) and lines[3]["input"] == "rows.npy:3", lines[:4]
total = 0
for line, row in zip(lines, x):
    likely = {one["token"]: one["probability"] for one in line["likely"]}
    assert set(likely) == set(range(5)) and abs(sum(likely.values()) - 1) < 1e-6, line
    assert list(likely) == sorted(likely, key=likely.get, reverse=True), line
    assert (line["next"], line["probability"]) == list(likely.items())[0], line
    total += (len(row) - 2) * math.log(line["perplexity"]) - math.log(likely[row[-1]])
right = sum(line["next"] == (2 * row[-2] + 1) % 5 for line, row in zip(lines, x))
found = math.exp(total / (x.shape[0] * (x.shape[1] - 1)))
# The tokens were drawn with these probabilities, so no network can be much better.
drawn = numpy.where(x[:, 1:] == (2 * x[:, :-1] + 1) % 5, 0.92, 0.02)
best = math.exp(-numpy.log(drawn).mean())
print(f"perplexity {found}, {best} by the rule, by which {right} of {len(x)} are")
assert 0.98 * best < found < 1.05 * best, (found, best)
for other in (float(sys.argv[2]), json.load(open("next/evaluation/evaluation.json"))["metrics"]["perplexity"]):
    assert abs(found / other - 1) < 1e-5, (found, other)
assert right > 0.95 * len(x), right
PY
/usr/bin/python3 -c 'import numpy; numpy.save("more.npy", numpy.full((2, 8), 5))'
program predict next more.npy
expect_failure 3 'more\.npy: expected tokens below 5, as in training, found 5' "a token that training lacks"
program predict next data/next/x_test.npy
expect_failure 3 'x_test\.npy: expected samples that fit tokens .*, found the shape \(9,\)' "samples of another length"

# A network that knows more tokens learns targets of their own.
sed '/"model"/s/{.*}/{"name": "torchscript", "path": "reads.pt"}/' tiny.json >own.json
program --config own.json --set data.path=data/larger --out larger
expect_code 0 "targets of their own"
expect_number "$(value larger/summary.json test_perplexity)" '<' 1.2 "targets of their own: perplexity"
program predict larger data/larger/x_test.npy
expect_code 0 "predict targets of their own"
/usr/bin/python3 - "$OUT" <<'PY' || wrong "tokens of each place are not those that were learnt"
import json, sys, numpy
lines = [json.loads(line) for line in open(sys.argv[1])]
found = numpy.array([line["tokens"] for line in lines])
y = numpy.load("data/larger/y_test.npy")
assert found.shape == y.shape and all(0 < p <= 1 for line in lines for p in line["probabilities"])
assert (found[:, 1:] == y[:, 1:]).mean() > 0.95
PY

# Ranks agree on the largest of their tokens.
train 2 apart --set 'data.path=data/{rank}' --set data.partition.kind=local --set train.epochs=1
expect_code 0 "a rank without some tokens"
expect_equal 5 "$(value "$RUN/preprocessing.json" target.bound)" "tokens of all ranks"
program evaluate apart --set data.path=data/0
expect_code 0 "evaluate on a set that lacks tokens"

program init data/next --out begun.json
expect_code 0 "init"
grep -q 'task language-model' "$OUT" || wrong "init: expected the task language-model"
program check --config begun.json
expect_code 0 "check of what init wrote"

# These are no sets of tokens.
sed '/"model"/s/{.*}/{"name": "mlp"}/' tiny.json >mlp.json
refused() { # refused CODE REGEX WHAT KEYS...
  local code=$1 regex=$2 what=$3
  shift 3
  program check --config tiny.json "$@"
  expect_failure "$code" "$regex" "$what"
}
program check --config mlp.json
expect_failure 2 'model mlp: expected floats .*for tokens to "bert"' "an MLP for tokens"
refused 2 'data\.standardize "off" with task\.kind "language-model"' "standardized tokens" --set data.standardize=last-axis
/usr/bin/python3 - <<'PY'
import os, numpy
def write(folder, x, y=None, test=None):
    os.makedirs(folder)
    numpy.save(folder + "/x_train.npy", x)
    numpy.save(folder + "/x_test.npy", x if test is None else test)
    if y is not None:
        numpy.save(folder + "/y_train.npy", y)
        numpy.save(folder + "/y_test.npy", y)
rows = numpy.zeros((4, 3), int)
write("fractions", rows + 0.5)
write("stream", numpy.zeros(64, int))
write("single", rows[:, :1])
write("negative", rows - numpy.array([0, 1, 0]))
write("short", rows, rows[:, :2])
write("nothing", rows, numpy.where(numpy.arange(4)[:, None] == 2, -100, rows))
write("half", rows, rows)
os.remove("half/y_test.npy")
os.makedirs("table")
for name in ("train", "test"):
    open(f"table/{name}.csv", "w").write("1,2,3\n2,3,4\n")
PY
refused 3 'x_train\.npy: expected whole numbers, tokens from 0 on, found fractions' "fractions" --set data.path=fractions
refused 3 'x_train\.npy: expected tokens of shape \(samples, places\).*reshape' "a stream" --set data.path=stream
refused 3 'x_train\.npy: expected at least 2 tokens in each sample' "a single token" --set data.path=single
refused 3 'x_train\.npy, row 0, column 1 .*expected a token in \[0, 1048576\), found -1' "a negative token" --set data.path=negative
refused 3 'y_train\.npy: expected a token for each of the 3 places of .*, found 2' "too few targets" --set data.path=short
refused 3 'y_train\.npy, row 2.*found -100 alone' "a sample without targets" --set data.path=nothing
refused 3 'half/x_test\.npy: expected a file of targets beside it' "targets of one set alone" --set data.path=half
refused 2 'found the table .*train\.csv; write NumPy files' "a table" --set data.path=table
finish
