#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The metrics of tasks other than classification are those that Python computes from the run's own
# weights; such runs resume, gossip, are simulated and are compared by `report`.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_arrays

cat >"$WORK/make.py" <<'PY'
from arrays_head import *
x = rng.normal(size=(320, 8)).astype("float32")
numbers = (x @ rng.normal(size=(8, 3)) + 0.3 * rng.normal(size=(320, 3)) + [0, 5, -2]).astype("float32")
flags = (numbers > [0, 5, -3]).astype("uint8")
for folder, y in (("numbers", numbers), ("flags", flags), ("none", None)):
    save(f"data/{folder}", x, y, 64)
class Squeeze(nn.Module):  # how well two numbers tell eight
    def __init__(self):
        super().__init__()
        self.down = nn.Linear(8, 2)
        self.up = nn.Linear(2, 8)
    def forward(self, x):
        return torch.mean((self.up(self.down(x)) - x) ** 2)
torch.jit.script(nn.Linear(8, 3)).save(f"{work}/line.pt")
torch.jit.script(Squeeze()).save(f"{work}/squeeze.pt")
PY
make_arrays
cat >"$WORK/tiny.json" <<'JSON'
{
  "name": "tasks", "seed": 1, "threads_per_rank": 1,
  "model": {"name": "torchscript"},
  "data": {"name": "arrays"},
  "train": {"epochs": 4, "batch_size": 16},
  "optimizer": {"learning_rate": 0.02},
  "compressor": {"skip_below": 0, "bucket_size": 64},
  "synchronization": {"timeout_seconds": 60},
  "output": {"progress": "off"}
}
JSON
regression=(--set task.kind=regression --set "model.path=$WORK/line.pt" --set "data.path=$WORK/data/numbers")

train 2 numbers "${regression[@]}"
expect_code 0 "regression"
numbers=$RUN whole=$(value "$RUN/summary.json" parameter_hash)
train 2 flags --set task.kind=multi-label --set "model.path=$WORK/line.pt" --set "data.path=$WORK/data/flags"
expect_code 0 "multi-label"
/usr/bin/python3 - "$WORK" "$numbers" "$RUN" <<'PY' || wrong "Python finds other metrics"
import json, sys, numpy, torch
work, numbers, flags = sys.argv[1:]
def found(run, folder):
    weights = dict(torch.load(run + "/model.pt"))
    x = torch.from_numpy(numpy.load(f"{work}/data/{folder}/x_test.npy"))
    out = (x @ weights["weight"].T + weights["bias"]).double().numpy()
    summary = json.load(open(run + "/summary.json"))
    epochs = [r for r in map(json.loads, open(run + "/metrics.jsonl")) if r["type"] == "epoch"]
    assert summary["test_accuracy"] == epochs[-1]["test_accuracy"], summary
    return out, numpy.load(f"{work}/data/{folder}/y_test.npy").astype("float64"), summary, epochs
def close(a, b):
    assert abs(a - b) <= 1e-5 * max(1, abs(b)), (a, b)
out, y, summary, epochs = found(numbers, "numbers")
mse = ((out - y) ** 2).mean()
close(summary["test_mse"], mse)
close(summary["test_mae"], abs(out - y).mean())
close(summary["test_r2"], (1 - ((out - y) ** 2).sum(0) / ((y - y.mean(0)) ** 2).sum(0)).mean())
close(epochs[-1]["test_loss"], mse)
assert summary["best_test_mse"] == min(e["test_mse"] for e in epochs), summary
assert epochs[-1]["test_mse"] < epochs[0]["test_mse"], epochs
assert summary["test_accuracy"] is None and summary["best_test_accuracy"] is None, summary
out, y, summary, epochs = found(flags, "flags")
said = out > 0
close(summary["test_f1"], 2 * (said * y).sum() / (said.sum() + y.sum()))
close(summary["test_accuracy"], (said == y).all(1).mean())
close(epochs[-1]["test_loss"], (numpy.log1p(numpy.exp(out)) - y * out).mean())
assert summary["best_test_f1"] == max(e["test_f1"] for e in epochs), summary
PY
run=$(head -n 1 "$numbers/metrics.jsonl")
[[ $run == *'"task":"regression"'* ]] || wrong "the run record does not name the task"

# The best value and the last metrics outlive a stop; one process can play both ranks.
train 2 resumed "${regression[@]}" --set train.epochs=2 --set checkpoint.every_epochs=2
train 2 resumed "${regression[@]}" --set checkpoint.every_epochs=2 --resume
expect_code 0 "resumed"
expect_equal "$whole" "$(value "$RUN/summary.json" parameter_hash)" "resumed: the parameters"
expect_equal "$(value "$numbers/summary.json" best_test_mse)" "$(value "$RUN/summary.json" best_test_mse)" "resumed: the best"
train 1 simulated "${regression[@]}" --simulate 2
expect_equal "$whole" "$(value "$RUN/summary.json" parameter_hash)" "simulated: the parameters"
expect_equal "$(value "$numbers/summary.json" test_r2)" "$(value "$RUN/summary.json" test_r2)" "simulated: R2"

train 2 choco "${regression[@]}" --set synchronization.algorithm=choco-sgd --set compressor.name=qsgd --set compressor.bits=8
expect_code 0 "choco-sgd"
/usr/bin/python3 - "$RUN/summary.json" <<'PY' || wrong "nodes are not told by their own error"
import json, sys
s = json.load(open(sys.argv[1]))
assert len(s["node_test_mse"]) == 2 and s["node_test_mse_worst"] == max(s["node_test_mse"]), s
assert s["node_test_accuracy"] is None, s
PY
train 2 own-loss --set task.kind=module --set "model.path=$WORK/squeeze.pt" --set "data.path=$WORK/data/none"
expect_code 0 "inputs without targets"
expect_number "$(value "$RUN/summary.json" best_test_loss)" '<' 1 "inputs without targets: the loss"
program report "$WORK/numbers" "$WORK/choco" --out "$WORK/report"
expect_code 0 "report"
grep -q 'test_mse,test_mse_deviation' "$WORK/report/comparison.csv" || wrong "the report does not compare the errors"
grep -q 'lower is better' "$OUT" || wrong "the report does not say which way is better"

train 2 skewed "${regression[@]}" --set data.partition.kind=skew
expect_failure 2 'whose samples have classes' "a partition by class without classes"
train 1 nothing --set task.kind=regression --set "model.path=$WORK/line.pt" --set "data.path=$WORK/data/none"
expect_failure 3 'y_train.npy' "targets that are not there"
finish
