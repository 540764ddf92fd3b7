#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Networks that Python wrote as TorchScript train, compress, gossip and resume like the program's own.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
/usr/bin/python3 -c 'import torch' 2>/dev/null || skip "python3-torch is not installed"

# A network that the program does not have: a convolution, a GRU over the rows, dropout, and a layer
# with running statistics; once more with another last layer; and a module that raises.
# In a file, since torch.jit.script reads the source.
cat >"$WORK/networks.py" <<'PY'
import sys, torch
from torch import Tensor, nn
from typing import Dict, List, Optional, Tuple
class Rows(nn.Module):
    def __init__(self, classes: int):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.rows = nn.GRU(8 * 16, 24, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.last = nn.Linear(24, classes)
    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = x.permute(0, 2, 1, 3).flatten(2)
        x, _ = self.rows(x)
        return self.last(self.drop(x[:, -1]))
class Raises(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))
    def forward(self, x):
        if x.size(2) != 224:
            raise RuntimeError("wanted 224 pixels")
        return x.flatten(1)
torch.manual_seed(1)
work = sys.argv[1]
torch.jit.script(Rows(10)).save(work + "/rows.pt")
class OwnLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(3072, 10)
    def forward(self, x, y):
        return nn.functional.cross_entropy(self.last(x.flatten(1)), y), torch.zeros(0)
class Logits(OwnLoss):
    def forward(self, x):
        return self.last(x.flatten(1))
torch.manual_seed(2)
torch.jit.script(OwnLoss()).save(work + "/own_loss.pt")
torch.manual_seed(2)
torch.jit.script(Logits()).save(work + "/logits.pt")
torch.jit.script(Rows(9)).save(work + "/nine.pt")
torch.jit.script(Raises()).save(work + "/raises.pt")
class Acts(Logits):
    def forward(self, x):
        for i in range(x.size(0)):
            torch.save(x, "pwned")
        return self.last(x.flatten(1))
class Loops(Logits):
    def forward(self, x):
        while x.size(0) > 0:
            x = x + 1
        return self.last(x.flatten(1))
class Wakes(Logits):
    def __init__(self):
        super().__init__()
        self.steps = 1
    @torch.jit.export
    def __getstate__(self):
        return self.steps, self.training
    @torch.jit.export
    def __setstate__(self, state: Tuple[int, bool]):
        torch.save(state[0], "pwned")
        self.steps, self.training = state
class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Wakes()
    def forward(self, x):
        return self.inner(x)
for network in (Acts, Loops, Around):
    torch.jit.script(network()).save(work + "/" + network.__name__.lower() + ".pt")
class Everything(nn.Module):
    # What modules may have as attributes and in their code, a constant tensor included.
    names: List[str]
    table: Dict[str, List[int]]
    none: Optional[Tensor]
    def __init__(self):
        super().__init__()
        self.last = nn.ModuleList([nn.Flatten(), nn.Sequential(nn.Linear(3072, 10), nn.Dropout(0.1))])
        self.names, self.table, self.none = ["it's", 'a "(\n'], {"a": [1, 1 << 40], "b": []}, None
        self.flags, self.halves, self.both, self.tensors = [True], [0.5, -1e-300], (1, (2.0, "x")), [torch.ones(2)]
        self.z, self.place, self.rest = 1 + 2j, torch.device("cpu"), torch.arange(12.).view(3, 4)[1:, 1:3]
    def forward(self, x):
        for layer in self.last:
            x = layer(x)
        with torch.no_grad():
            more = float(self.table["a"][0]) * self.halves[0]
        return (helped(x) + more + self.tensors[0][0] + self.rest[0, 0], {"x": x})
def helped(x: Tensor) -> Tensor:
    if x.dim() != 2:
        raise RuntimeError("expected [0, 1), found # {}".format(x.size(0)))
    return x - 1 if x.size(0) > 3 and not x.size(1) == 0 else -(x * 2)
torch.jit.script(Everything()).save(work + "/everything.pt")
deep = nn.Linear(3072, 10)
for _ in range(40):
    deep = nn.Sequential(deep, nn.Identity())
deep = nn.Sequential(nn.Flatten(), deep)
torch.jit.script(deep).save(work + "/deep.pt")
torch.jit.trace(deep, torch.zeros(2, 3, 32, 32)).save(work + "/deep_traced.pt")
torch.jit.trace(nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)), torch.zeros(2, 3, 32, 32)).save(work + "/linear.pt")
# Buffers of several types: of two names, read while training, constant; an attribute without a tensor.
class State(nn.Module):
    calls: int
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(96, 12)
        self.second = nn.Linear(12, 12)
        self.again = self.second
        self.last = nn.Linear(12, 10)
        self.calls = 0
        self.register_buffer("shift", torch.zeros(96))
        self.register_buffer("shift_again", self.shift)
        self.register_buffer("now", torch.zeros(1))
        self.register_buffer("order", torch.arange(96).flip(0))
        self.register_buffer("mask", torch.arange(96) % 5 == 0)
        self.register_buffer("seen", torch.zeros(3, dtype=torch.int32))
    def forward(self, x):
        x = x.flatten(1)[:, :96][:, self.order].masked_fill(self.mask, 0.0)
        self.calls += 1
        if self.training:
            self.shift.mul_(0.5).add_(x.detach().mean(0), alpha=0.5)
            self.now = self.now * 0.5 + x.detach().mean()
            self.seen.add_(x.size(0))
        x = torch.relu(self.first(x - self.shift_again)) + self.now + self.seen.sum() * 1e-3
        return self.last(torch.relu(self.again(torch.relu(self.second(x)))))
torch.manual_seed(3)
state = State()
torch.jit.script(state).save(work + "/state.pt")
torch.save(state.state_dict(), work + "/state_dict.pt")
class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3072, 4)
        self.last = nn.Linear(4, 10)
    def forward(self, x):
        h = torch.sigmoid(self.first(x.flatten(1)))
        y = self.last(h)
        h.mul_(2.0)
        return y
torch.jit.script(InPlace()).save(work + "/in_place.pt")
# As a newer PyTorch would write it.
import zipfile
with zipfile.ZipFile(work + "/in_place.pt") as old, zipfile.ZipFile(work + "/newer.pt", "w") as new:
    for item in old.infolist():
        new.writestr(item.filename, old.read(item).replace(b"torch.sigmoid", b"torch.operator_of_2040"))
with zipfile.ZipFile(work + "/in_place.pt") as old, zipfile.ZipFile(work + "/argument.pt", "w") as new:
    for item in old.infolist():
        new.writestr(item.filename, old.read(item).replace(b"(input, weight, bias)", b"(input, weight, bias, new=1)"))
with zipfile.ZipFile(work + "/in_place.pt") as old, zipfile.ZipFile(work + "/format.pt", "w") as new:
    for item in old.infolist():
        new.writestr(item.filename, b"2040" if item.filename.endswith("/version") else old.read(item))
with zipfile.ZipFile(work + "/in_place.pt") as old, zipfile.ZipFile(work + "/attention.pt", "w") as new:
    for item in old.infolist():
        new.writestr(item.filename, old.read(item).replace(b"torch.sigmoid", b"torch.scaled_dot_product_attention"))
PY
/usr/bin/python3 "$WORK/networks.py" "$WORK"
own=(--set model.name=torchscript --set "model.path=$WORK/rows.pt")

program check --config tiny.json "${own[@]}"
expect_code 0 "check"
train 2 plain "${own[@]}" --set train.steps=8
expect_code 0 "two ranks"
expect_equal true "$(value "$RUN/summary.json" replicas_identical)" "two ranks: replicas"
whole=$(value "$RUN/summary.json" parameter_hash)
/usr/bin/python3 - "$RUN" <<'PY' || wrong "model.pt has the module's names"
import json, sys, torch
weights = dict(torch.load(sys.argv[1] + "/model.pt", map_location="cpu"))
assert weights["rows.weight_ih_l0"].shape == (72, 128), weights.keys()
assert "norm.running_mean" in weights and "last.bias" in weights
framing = json.load(open(sys.argv[1] + "/preprocessing.json"))["framing"]
assert framing["top"] == 0 == framing["left"], framing
PY

# The same bits after a stop, with dropout's random numbers and running statistics.
train 2 resumed "${own[@]}" --set train.steps=4 --set checkpoint.every_steps=4
expect_code 0 "the first half"
train 2 resumed "${own[@]}" --set train.steps=8 --set checkpoint.every_steps=4 --resume
expect_code 0 "resumed"
expect_equal "$whole" "$(value "$RUN/summary.json" parameter_hash)" "resumed: the parameters"
train 1 simulated "${own[@]}" --set train.steps=8 --simulate 2
expect_code 0 "simulated"
expect_equal "$whole" "$(value "$RUN/summary.json" parameter_hash)" "simulated: the parameters"

for compressor in e-elastiquant dgc powersgd; do
  train 2 "$compressor" "${own[@]}" --set "compressor.name=$compressor" --set compressor.skip_below=64
  expect_code 0 "$compressor"
  expect_equal true "$(value "$RUN/summary.json" replicas_identical)" "$compressor: replicas"
done
train 2 choco "${own[@]}" --set synchronization.algorithm=choco-sgd --set compressor.name=qsgd --set compressor.bits=8
expect_code 0 "choco-sgd"
train 1 traced --set model.name=torchscript --set "model.path=$WORK/linear.pt" --set optimizer.name=adamw \
  --set optimizer.learning_rate=0.001 --set train.accumulate=2 --set optimizer.clip_norm=1
expect_code 0 "a traced module with AdamW, accumulation and clipping"

# Evaluations leave what a network reads while it trains: so do a planned stop, the weights' average, other algorithms.
# Ranks have shifts of their own.
state=(--set model.name=torchscript --set "model.path=$WORK/state.pt" --set data.limit_train=64 --set train.epochs=4
  --set train.steps=8 --set data.limit_test=20)
train 2 state "${state[@]}" --set train.evaluate_every=0 --set checkpoint.every_epochs=1
expect_code 0 "a network with state"
grep -q 'changes its own calls while it computes' "$RUN/metrics.jsonl" || wrong "a network with state: the note"
whole=$(summary parameter_hash)
cp "$RUN/model.pt" "$WORK/whole.pt"
train 2 state-evaluated "${state[@]}" --set train.ema=0.5 --set checkpoint.best=true
expect_equal "$whole" "$(summary parameter_hash)" "evaluated every epoch: the parameters"
train 1 state-simulated "${state[@]}" --simulate 2
expect_equal "$whole" "$(summary parameter_hash)" "evaluated every epoch, simulated: the parameters"
train 2 state-stopped "${state[@]}" --set train.steps=4 --set checkpoint.every_epochs=1
train 2 state-stopped "${state[@]}" --set checkpoint.every_epochs=1 --resume
expect_equal "$whole" "$(summary parameter_hash)" "a planned stop: the parameters"
cmp -s "$RUN/model.pt" "$WORK/whole.pt" || wrong "a planned stop: model.pt has other bytes"
for algorithm in choco-sgd local-sgd; do
  steps=1
  [[ $algorithm != local-sgd ]] || steps=3
  for every in 0 1; do
    train 2 "state-$algorithm-$every" "${state[@]}" --set "synchronization.algorithm=$algorithm" \
      --set "synchronization.local_steps=$steps" --set "train.evaluate_every=$every"
    expect_code 0 "$algorithm, evaluate_every $every"
  done
  expect_equal "$(value "$WORK/state-$algorithm-0/summary.json" parameter_hash)" "$(summary parameter_hash)" \
    "$algorithm: the parameters"
done
# model.pt has the mean of the ranks' shifts, under all names, and the tables; so have exports. Python loads it.
for to in state-dict safetensors torchscript; do
  program export "$WORK/state" --to "$to" --out "$WORK/exported.$to"
  expect_code 0 "export to $to"
done
cat >>"$WORK/networks.py" <<'PY'
model = torch.load(work + "/whole.pt")
fresh = State()
fresh.load_state_dict(model)  # strict
assert model["shift"].abs().sum() > 0 and torch.equal(model["shift"], model["shift_again"])
assert torch.equal(model["second.weight"], model["again.weight"])
assert model["mask"].dtype == torch.bool and torch.equal(model["order"], torch.arange(96).flip(0))
assert model["seen"].tolist() == [8 * 16] * 3 and model["now"].abs() > 0
script = torch.jit.load(work + "/exported.torchscript")
for name, value in script.state_dict().items():
    assert torch.equal(value, model[name]), name
exported = torch.load(work + "/exported.state-dict")
assert all(torch.equal(value, model[name]) for name, value in exported.items())
# Exports have the module's own names, each of a tied tensor's, and no others.
import json
with open(work + "/exported.safetensors", "rb") as file:
    tensors = json.loads(file.read(int.from_bytes(file.read(8), "little")))
names = set(fresh.state_dict())
assert {"second.weight", "again.weight"} <= names, names
assert names == set(exported) == set(script.state_dict()) == set(tensors) - {"__metadata__"}, names
x = torch.randn(5, 3, 32, 32)
assert torch.allclose(fresh.eval()(x), script(x), atol=1e-5)
PY
/usr/bin/python3 "$WORK/networks.py" "$WORK" || wrong "model.pt or an export lacks names or has other values"
train 2 from-python "${state[@]}" --set "model.weights=$WORK/state_dict.pt"
expect_code 0 "Python's state dict with tied names"

# A module that returns the loss itself learns what the same network learns by task classification.
train 2 logits --set model.name=torchscript --set "model.path=$WORK/logits.pt"
expect_code 0 "logits"
expected=$(value "$RUN/summary.json" parameter_hash)
train 2 own-loss --set model.name=torchscript --set "model.path=$WORK/own_loss.pt" --set task.kind=module
expect_code 0 "a loss of its own"
expect_equal "$expected" "$(value "$RUN/summary.json" parameter_hash)" "a loss of its own: the parameters"
expect_equal null "$(value "$RUN/summary.json" test_accuracy)" "a loss of its own: no accuracy"
train 2 smooth --set model.name=torchscript --set "model.path=$WORK/logits.pt" --set task.label_smoothing=0.1 \
  --set task.class_weights=balanced
expect_code 0 "label smoothing and class weights"
[[ $(value "$RUN/summary.json" parameter_hash) != "$expected" ]] || wrong "label smoothing changes nothing"

# What cannot be trained.
program check --config tiny.json --set task.kind=regression
expect_failure 2 'expected a data set with float32 targets' "a task without its targets"
program check --config tiny.json --set task.class_weights='[1,2]'
expect_failure 2 'task.class_weights' "weights of two classes out of ten"
program check --config tiny.json --set model.name=torchscript --set "model.path=$WORK/logits.pt" --set task.kind=module
expect_failure 3 'but received 3' "a module that does not take the targets"
program check --config tiny.json --set model.name=torchscript
expect_failure 2 'expected model.path' "no file"
program check --config tiny.json --set "model.path=$WORK/rows.pt"
expect_failure 2 'expected model.path null' "a file without torchscript"
program check --config tiny.json --set model.name=torchscript --set model.path=absent.pt
expect_failure 3 'absent.pt' "a file that is not there"
program check --config tiny.json --set model.name=torchscript --set "model.path=$WORK/nine.pt"
expect_failure 3 'a logit for each sample and class' "a class too few"
program check --config tiny.json --set model.name=torchscript --set "model.path=$WORK/raises.pt"
expect_failure 3 'wanted 224 pixels' "a module that raises"
program check --config tiny.json --set model.name=torchscript --set model.path=tiny.json
expect_failure 3 'no whole zip archive' "no module"
program check --config tiny.json --set model.name=torchscript --set "model.path=$WORK/newer.pt"
expect_failure 3 'aten::operator_of_2040, which that version does not have: a newer PyTorch saved it; save it with' \
  "an operator of a later version"
expect_text 'or with plain operators in its place, or build equant-train with' "an operator of a later version: the ways out"
if grep -q 'LibTorch 1\.' <("$EQT_PROGRAM" --version); then
  program check --config tiny.json --set model.name=torchscript --set "model.path=$WORK/attention.pt"
  expect_failure 3 'for LibTorch 1\..*scaled_dot_product_attention, which PyTorch has since 2\.0' "attention of PyTorch 2"
fi
program check --config tiny.json --set model.name=torchscript --set "model.path=$WORK/argument.pt"
expect_failure 3 'aten::linear with arguments that.*a newer PyTorch saved it' "an argument of a later version"
program check --config tiny.json --set model.name=torchscript --set "model.path=$WORK/format.pt"
expect_failure 3 'a later format of the file, 2040 instead of at most [0-9]+:' "a file format of a later version"
train 2 in-place --set model.name=torchscript --set "model.path=$WORK/in_place.pt"
expect_failure 3 'modified by an inplace operation' "a backward pass that LibTorch refuses"
for network in everything deep deep_traced; do
  program check --config tiny.json --set model.name=torchscript --set "model.path=$WORK/$network.pt"
  expect_code 0 "$network.pt"
done

# What a network may not do, by every verb that loads one.
acts=(--set model.name=torchscript --set "model.path=$WORK/acts.pt")
program check --config tiny.json "${acts[@]}"
expect_failure 3 'aten::save.*in code/__torch__.py, line [0-9]+: torch.save\(x, "pwned"\)' "check of a network that writes"
train 1 acts "${acts[@]}"
expect_failure 3 'aten::save' "training of a network that writes"
train 1 innocent --set model.name=torchscript --set "model.path=$WORK/logits.pt" --set train.steps=1
expect_code 0 "a network that is exchanged later"
cp "$WORK/acts.pt" "$RUN/network.pt"
program predict "$RUN" "$WORK/nothing.png"
expect_failure 3 'aten::save' "predict with a network that writes"
program export "$RUN" --to torchscript
expect_failure 3 'aten::save' "export of a network that writes"
program evaluate "$RUN/model.pt" --config tiny.json "${acts[@]}"
expect_failure 3 'aten::save' "evaluate with a network that writes"
program check --config tiny.json --set model.name=torchscript --set "model.path=$WORK/around.pt"
expect_failure 3 '__setstate__' "a network that acts while it is read"
[[ ! -e pwned ]] || wrong "a network wrote a file"
program check --config tiny.json --set model.name=torchscript --set "model.path=$WORK/loops.pt" \
  --set synchronization.timeout_seconds=3
expect_failure 7 'trying the network of model.path.*may never end' "a network that never ends"
cp "$WORK/rows.pt" "$WORK/moved.pt"
train 1 moved --set model.name=torchscript --set "model.path=$WORK/moved.pt" --set optimizer.momentum=0.5 --set optimizer.name=adamw
expect_failure 2 'optimizer.momentum' "a key that AdamW does not read"
finish
