#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Data that stay where they are: every rank reads its own folder and no other, classes are agreed on,
# samples count as data.partition.epoch says, and a run resumes on the same data only.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_arrays

# Rank r has classes r and r + 1 of five, around points, and 96, 64, 48 or 32 samples.
cat >"$WORK/make.py" <<'PY'
from arrays_head import *
points = rng.normal(size=(5, 6)) * 3
for rank, size in enumerate((96, 64, 48, 32)):
    os.makedirs(f"{work}/data/{rank}")
    for name, count in (("train", size), ("test", size // 4)):
        y = rank + (rng.uniform(size=count) < 0.25)
        numpy.save(f"{work}/data/{rank}/x_{name}.npy", points[y] + rng.normal(size=(count, 6)))
        numpy.save(f"{work}/data/{rank}/y_{name}.npy", y.astype("int64"))
torch.jit.script(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 5))).save(f"{work}/net.pt")
# One sample, 32 times on rank 0; another, 96 times on rank 1.
for rank, size in enumerate((32, 96)):
    os.makedirs(f"{work}/same/{rank}")
    for name in ("train", "test"):
        numpy.save(f"{work}/same/{rank}/x_{name}.npy", numpy.tile(points[rank], (size, 1)))
        numpy.save(f"{work}/same/{rank}/y_{name}.npy", numpy.full(size, 4 * rank))
PY
make_arrays
cat >"$WORK/tiny.json" <<JSON
{
  "name": "local", "seed": 1, "threads_per_rank": 1,
  "model": {"name": "torchscript", "path": "$WORK/net.pt"},
  "data": {"name": "arrays", "path": "$WORK/data/{rank}", "partition": {"kind": "local"}},
  "train": {"epochs": 6, "batch_size": 8},
  "optimizer": {"learning_rate": 0.05},
  "compressor": {"name": "e-elastiquant", "skip_below": 0, "bucket_size": 64},
  "synchronization": {"timeout_seconds": 60},
  "output": {"progress": "lines", "tensorboard": false}
}
JSON

train 4 four
expect_code 0 "four ranks"
[[ $CODE -eq 0 ]] || finish
expect_equal true "$(summary replicas_identical)" "four ranks: replicas"
expect_equal 24 "$(summary steps)" "epochs of the smallest set"
grep -q 'rank 3 .* 32 samples  class' "$ERR" || wrong "the console does not show rank 3"
/usr/bin/python3 - "$WORK" <<'PY' || wrong "the run record or the accuracy is not that of all ranks"
import json, sys, numpy, torch
work = sys.argv[1]
run = json.loads(open(work + "/four/metrics.jsonl").readline())
y = [numpy.load(f"{work}/data/{r}/y_train.npy") for r in range(4)]
counts = numpy.array([numpy.bincount(part, minlength=5) for part in y])
assert run["class_histogram"] == counts.tolist(), run
partition = run["partition"]
assert partition["kind"] == "local" and partition["epoch"] == "smallest" and partition["test"] == "local", partition
assert partition["classes"] == ["0", "1", "2", "3", "4"] and partition["sizes"] == [96, 64, 48, 32], partition
shares, whole = counts / counts.sum(1, keepdims=True), counts.sum(0) / counts.sum()
assert numpy.allclose(partition["skew"], abs(shares - whole).sum(1) / 2, atol=1e-12), partition
assert run["train_samples"] == 240 and run["test_samples"] == 60, run
# Every test sample counts once.
net = torch.jit.load(work + "/net.pt")
net.load_state_dict(torch.load(work + "/four/model.pt"))
hits = 0
for r in range(4):
    x, y = (torch.from_numpy(numpy.load(f"{work}/data/{r}/{n}_test.npy")) for n in "xy")
    hits += (net(x.float()).argmax(1) == y).sum().item()
found = json.load(open(work + "/four/summary.json"))["test_accuracy"]
assert abs(found - hits / 60) < 1e-9 and found > 0.5, (found, hits / 60)
names = json.load(open(work + "/four/preprocessing.json"))["class_names"]
assert names == ["0", "1", "2", "3", "4"], names
PY
whole=$(summary parameter_hash)
# Rank 0's samples are called so; the training set is not needed, nor is a plugin that is gone.
cp -r four kept
mkdir -p part/0
cp data/0/?_test.npy part/0/
sed -i 's/"e-elastiquant"/"of-a-plugin"/' kept/config.json
program evaluate kept --set "data.path=$WORK/part/{rank}"
expect_code 0 "evaluate without training set and plugin"
program evaluate kept
expect_code 0 "evaluate"
grep -q "arrays in $WORK/data/0, test: 24 samples" "$OUT" || wrong "evaluate: no word of the set"
grep -q 'one rank alone, since each of 4 ranks .* all 60 together' "$OUT" || wrong "evaluate: no word of the other ranks"
expect_equal "4 24" "$(value kept/evaluation/evaluation.json ranks) $(value kept/evaluation/0-test/evaluation.json samples)" \
  "evaluations of two sets"
program predict kept part/0/x_test.npy --plugin "$WORK/absent.so"
expect_failure 2 'absent\.so' "predict takes a plugin"
program predict kept part/0/x_test.npy
expect_code 0 "predict without the plugin"
program export kept --out net.kept.pt
expect_code 0 "export without the plugin"

train 1 simulated --simulate 4
expect_code 0 "simulated"
expect_equal "$whole" "$(summary parameter_hash)" "simulated: the parameters"
train 4 resumed --set train.epochs=2 --set checkpoint.every_epochs=2
train 4 resumed --set checkpoint.every_epochs=2 --resume
expect_code 0 "resumed"
expect_equal "$whole" "$(summary parameter_hash)" "resumed: the parameters"
mkdir -p moved
cp -r data/0 data/1 data/2 data/3 moved/
/usr/bin/python3 -c 'import sys, numpy; [numpy.save(f, numpy.load(f)[:-1]) for f in sys.argv[1:]]' moved/3/?_train.npy
train 4 resumed --set train.epochs=8 --set "data.path=$WORK/moved/{rank}" --resume
expect_failure 3 'rank 3: data.path/x_train.npy' "resumed on other data"

# The length of an epoch, and rank 0's test set for all.
rm data/[123]/?_test.npy
for epoch in smallest:16 largest:48 weighted:28; do
  gossip=()  # some epochs with neighbours instead of all ranks
  [[ $epoch != weighted:* ]] || gossip=(--set synchronization.algorithm=choco-sgd --set compressor.name=qsgd --set compressor.bits=8)
  train 4 "${epoch%:*}" --set "data.partition.epoch=${epoch%:*}" --set data.partition.test=rank0 --set train.epochs=4 "${gossip[@]}"
  expect_code 0 "${epoch%:*}, rank 0's test set"
  expect_equal "${epoch#*:}" "$(summary steps)" "${epoch%:*}: steps"
done
expect_equal 24 "$(head -n 1 "$RUN/metrics.jsonl" | python3 -c 'import json; print(json.loads(input())["test_samples"])')" "rank 0's test set"
train 4 absent
expect_failure 3 'rank 1.*x_test\.npy' "test sets that are not there"

# A weighted step: the gradients of the two samples count 32 : 96.
same=(--set "data.path=$WORK/same/{rank}" --set data.partition.epoch=weighted --set train.steps=1 --set compressor.name=none
  --set optimizer.momentum=0 --set optimizer.weight_decay=0 --set optimizer.learning_rate=1)
for count in 1 2; do
  train 2 "same.$count" "${same[@]}" --set "train.accumulate=$count"
  expect_code 0 "weighted, $count batches a step"
  /usr/bin/python3 - "$WORK" "same.$count" <<'PY' || wrong "weighted: samples do not count equally"
import json, sys, numpy, torch
work, run = sys.argv[1:]
net = torch.jit.load(work + "/net.pt")
x = torch.from_numpy(numpy.stack([numpy.load(f"{work}/same/{r}/x_train.npy")[0] for r in (0, 1)])).float()
losses = torch.nn.functional.cross_entropy(net(x), torch.tensor([0, 4]), reduction="none")
loss = (32 * losses[0] + 96 * losses[1]) / 128
loss.backward()
found = torch.load(f"{work}/{run}/model.pt")
for name, p in net.named_parameters():
    assert torch.allclose(found[name], p - p.grad, atol=1e-6), name
told = [json.loads(l) for l in open(f"{work}/{run}/metrics.jsonl")]
told = [r["loss"] for r in told if r["type"] == "step"]
assert abs(told[0] - loss.item()) < 1e-5, (told, loss)
PY
done

# Batches by rank: the samples count 4 : 6, or 32 : 96 whatever the batches.
sized=(--set "data.path=$WORK/same/{rank}" --set train.steps=1 --set compressor.name=none --set 'train.batch_sizes=[4, 6]'
  --set optimizer.momentum=0 --set optimizer.weight_decay=0 --set optimizer.learning_rate=1)
for weights in smallest:4:6 weighted:32:96; do
  train 2 "sized.${weights%%:*}" "${sized[@]}" --set "data.partition.epoch=${weights%%:*}"
  expect_code 0 "batches by rank, ${weights%%:*}"
  /usr/bin/python3 - "$WORK" "$weights" <<'PY' || wrong "batches by rank, ${weights%%:*}: samples count otherwise"
import sys, numpy, torch
work, weights = sys.argv[1:]
run, a, b = weights.split(":")
net = torch.jit.load(work + "/net.pt")
x = torch.from_numpy(numpy.stack([numpy.load(f"{work}/same/{r}/x_train.npy")[0] for r in (0, 1)])).float()
losses = torch.nn.functional.cross_entropy(net(x), torch.tensor([0, 4]), reduction="none")
((int(a) * losses[0] + int(b) * losses[1]) / (int(a) + int(b))).backward()
found = torch.load(f"{work}/sized.{run}/model.pt")
for name, p in net.named_parameters():
    assert torch.allclose(found[name], p - p.grad, atol=1e-6), name
PY
done
train 4 sized --set data.partition.test=rank0 --set 'train.batch_sizes=[9, 5, 8, 4]'
expect_code 0 "batches by rank"
expect_equal 36 "$(summary steps)" "batches by rank: epochs of the rank with the fewest batches"
whole=$(summary parameter_hash)
train 1 sized-alone --simulate 4 --set data.partition.test=rank0 --set 'train.batch_sizes=[9, 5, 8, 4]'
expect_equal "$whole" "$(summary parameter_hash)" "batches by rank, simulated: the parameters"

# Every rank opens its own folder alone.
if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
  cat >"$WORK/traced.sh" <<'SH'
#!/bin/sh
exec strace -f -qq -e trace=open,openat,openat2,creat,execve -o "$TRACES/$OMPI_COMM_WORLD_RANK" "$EQT_PROGRAM" "$@"
SH
  chmod +x "$WORK/traced.sh"
  mkdir "$WORK/traces"
  export TRACES=$WORK/traces
  run env "EQT_PROGRAM=$EQT_PROGRAM" mpirun --oversubscribe -np 4 "$WORK/traced.sh" --config "$WORK/tiny.json" \
    --out "$WORK/traced" --set data.partition.test=rank0 --set train.epochs=1
  expect_code 0 "four traced ranks"
  for rank in 0 1 2 3; do
    own=$(grep -c "\"$WORK/data/$rank/[xy]_" "$WORK/traces/$rank" || true)
    others=$(grep "\"$WORK/data/" "$WORK/traces/$rank" | grep -vc "\"$WORK/data/$rank/" || true)
    echo "rank $rank opened $own files of its own folder and $others of others"
    expect_number "$own" '>=' 2 "rank $rank: files of its own folder"
    expect_equal 0 "$others" "rank $rank: files of other folders"
  done
else
  echo "strace is not here: the files that ranks open are not counted"
fi

# On one of several hosts: its own set, whose classes are a part of all.
mkdir -p hosts && cp -r same/0 "hosts/$(hostname)"
one_host=(check --config tiny.json --set "data.path=$WORK/hosts/{host}")
program "${one_host[@]}"
expect_code 0 "check on one of several hosts"
expect_text 'data of this host: arrays, 32 training and 32 test samples \(0 32\)' "check on one of several hosts"
expect_text 'data of other ranks are not on this machine' "check on one of several hosts"
program "${one_host[@]}" --set train.batch_size=33
expect_failure 2 'at most 32 ' "check on a host with less than a batch"
rm "hosts/$(hostname)"/?_test.npy
program "${one_host[@]}"
expect_failure 3 'x_test\.npy' "check on a host without a test set"
program "${one_host[@]}" --set data.partition.test=rank0
expect_code 0 "check on a host without a test set where rank 0 sends its own"
program "${one_host[@]}" --set "data.path=$WORK/hosts/{host}/absent"
expect_code 0 "check on none of the hosts"
expect_text "data of this host: there is no $WORK/hosts/$(hostname)/absent" "check on none of the hosts"

# What is refused.
local_config() { program check --config tiny.json --ranks 4 --set data.partition.test=rank0 "$@"; }
local_config
expect_code 0 "check"
local_config --set data.partition.reshuffle=true
expect_failure 2 'data\.partition\.reshuffle' "local data that are reshuffled"
local_config --set data.partition.kind=iid --set data.partition.epoch=largest
expect_failure 2 'data\.partition\.(epoch|test).*local' "the length of an epoch without local data"
local_config --set data.partition.epoch=weighted --set synchronization.algorithm=none --set compressor.name=none
expect_failure 2 'weighted' "weights of ranks that learn alone"
local_config --set data.partition.epoch=weighted --set synchronization.algorithm=ad-psgd --set compressor.name=none
expect_failure 2 'weighted' "weights of ranks that take different numbers of steps"
local_config --set data.partition.epoch=weighted --set compressor.name=signsgd
expect_failure 2 'weighted' "weights of votes"
local_config --set data.partition.epoch=weighted --set synchronization.algorithm=choco-sgd --set optimizer.name=adamw
expect_failure 2 'weighted' "weights that AdamW undoes"
train 4 large --set train.batch_size=33 --set data.partition.test=rank0
expect_failure 2 'batch_size.*32.*96, 64, 48, 32' "a batch larger than the smallest set"
/usr/bin/python3 -c 'import sys, numpy; numpy.save(sys.argv[1], numpy.zeros((48, 7)))' "$WORK/data/2/x_train.npy"
train 4 wide --set data.partition.test=rank0
expect_failure 3 'rank 2.*x \(float32, \[7\]\)' "samples of another shape on rank 2"
finish
