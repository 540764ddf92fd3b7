#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Frozen parameters, groups of parameters, the best weights, early stopping, moving averages.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
/usr/bin/python3 -c 'import torch' 2>/dev/null || skip "python3-torch is not installed"

# same A B PATTERN...: model.pt of run A has the same tensors as that of run B where a name matches, and others elsewhere.
cat >"$WORK/same.py" <<'PY'
import fnmatch, sys, torch
a, b = (torch.load(path) for path in sys.argv[1:3])
assert a.keys() == b.keys()
for name in a:
    if name.endswith(("running_mean", "running_var", "num_batches_tracked")): continue
    wanted = any(fnmatch.fnmatchcase(name, pattern) for pattern in sys.argv[3:])
    assert torch.equal(a[name], b[name]) == wanted, name
PY
same() { /usr/bin/python3 "$WORK/same.py" "$@"; }

train 1 start --set train.steps=1
expect_code 0 "initial weights"
[[ $CODE -eq 0 ]] || finish
start=$RUN/model.pt
from=(--set "model.weights=$start" --set optimizer.learning_rate=0.1)
frozen=(--set 'model.freeze=["conv1.*","layer1.*","layer2.*"]')

# Frozen parameters stay, are not sent, and are written with the others.
train 2 whole "${from[@]}" --set compressor.name=e-elastiquant
whole=$(summary sent_bytes)
train 2 frozen "${from[@]}" "${frozen[@]}" --set compressor.name=e-elastiquant --set train.steps=8
expect_code 0 "frozen parameters"
expect_equal true "$(summary replicas_identical)" "frozen parameters: replicas"
uninterrupted=$(summary parameter_hash)
same "$RUN/model.pt" "$start" 'conv1.*' 'layer1.*' 'layer2.*' || wrong "the wrong parameters stayed"
train 2 halves "${from[@]}" "${frozen[@]}" --set compressor.name=e-elastiquant --set train.steps=4 --set checkpoint.every_steps=4
expect_code 0 "the first half"
expect_number "$(summary sent_bytes)" '<' "$(awk -v w="$whole" 'BEGIN { print 0.9 * w }')" "bytes without frozen parameters"
# What is frozen is in the checkpoint: without model.weights the network begins with other values.
train 2 halves --set optimizer.learning_rate=0.1 "${frozen[@]}" --set compressor.name=e-elastiquant --set train.steps=8 \
  --set checkpoint.every_steps=4 --resume
expect_code 0 "resumed"
expect_equal "$uninterrupted" "$(summary parameter_hash)" "resumed: the parameters"
train 2 choco "${from[@]}" "${frozen[@]}" --set synchronization.algorithm=choco-sgd --set compressor.name=qsgd \
  --set compressor.bits=8 --set checkpoint.best=true --set train.ema=0.9
expect_code 0 "choco-sgd with frozen parameters"
same "$RUN/model.pt" "$start" 'conv1.*' 'layer1.*' 'layer2.*' || wrong "choco-sgd: the wrong parameters stayed"
same "$RUN/model_best.pt" "$RUN/model.pt" '*' || wrong "choco-sgd: the only evaluation is the best"

# Groups.
train 2 groups "${from[@]}" --set 'optimizer.groups=[{"names":["fc.*"],"rate_factor":0},{"names":["layer1.*"],"frozen":true}]' \
  --set compressor.name=topk
expect_code 0 "groups"
same "$RUN/model.pt" "$start" 'fc.*' 'layer1.*' || wrong "a rate of 0 and a frozen group change other parameters"
hash_of() { train 1 "$@" "${from[@]}" --set optimizer.weight_decay=0.1 --set train.steps=3 && summary parameter_hash; }
without=$(hash_of norms --set optimizer.decay_norms=false)
expect_equal "$without" "$(hash_of by_name --set 'optimizer.groups=[{"names":["*bn?.*","*.bias","*downsample.1.*"],"weight_decay":0}]')" \
  "no decay of norms and biases"
expect_different "$without" "$(hash_of all)" "decay of norms"
# Groups have their own rates and decays in directions, too: on one rank D2 and gradient tracking are plain SGD but for
# rounding, and so is the first step of quasi-global momentum.
own='optimizer.groups=[{"names":["layer1.*"],"rate_factor":4,"weight_decay":0.2}]'
direction() {
  train 1 "$1" "${from[@]}" --set "synchronization.algorithm=$1" --set synchronization.topology.kind=complete \
    --set "$own" --set optimizer.momentum="$2" --set train.steps="$3" "${@:4}" --overwrite
  expect_code 0 "$1 with groups, momentum $2"
}
direction d-psgd 0 4
plain=$(summary train_loss)
for name in d2 gradient-tracking; do
  direction "$name" 0 4
  expect_number "$(summary train_loss)" '<' "$(awk -v p="$plain" 'BEGIN { print 1.0001 * p }')" "$name with groups: loss"
  expect_number "$(summary train_loss)" '>' "$(awk -v p="$plain" 'BEGIN { print 0.9999 * p }')" "$name with groups: loss"
done
direction d-psgd 0.9 1
plain=$(summary parameter_hash)
direction d-psgd 0.9 1 --set optimizer.momentum_kind=quasi-global
expect_equal "$plain" "$(summary parameter_hash)" "quasi-global momentum with groups: the first step"

# Early stopping: nothing becomes better at a learning rate of 0.
still=(--set optimizer.learning_rate=0 --set train.steps=0 --set train.epochs=9 --set data.limit_train=64
  --set train.early_stopping=2 --set checkpoint.every_epochs=1 --set data.limit_test=16)
train 2 stops "${still[@]}"
expect_code 0 "early stopping"
expect_equal 3 "$(summary epochs)" "early stopping: epochs"
stopped=$(summary parameter_hash)
train 2 stops "${still[@]}" --resume
expect_code 0 "resuming a run that stopped early"
expect_equal 3 "$(summary epochs)" "resuming a run that stopped early: epochs"
expect_equal "$stopped" "$(summary parameter_hash)" "resuming a run that stopped early: the parameters"
grep -q '"type":"note".*no step is left: train.early_stopping ended the run' "$RUN/metrics.jsonl" ||
  wrong "resuming a run that stopped early: expected a note that says so"
train 2 local "${still[@]}" --set synchronization.algorithm=local-sgd --set synchronization.local_steps=3 --set checkpoint.every_epochs=0
expect_code 0 "early stopping of local-sgd between two averages"

# A moving average is what is evaluated and written; it survives a stop.
average=(--set train.ema=0.5 --set optimizer.learning_rate=0.1)
train 2 average "${average[@]}" --set train.steps=8
expect_code 0 "a moving average"
train 2 average_resumed "${average[@]}" --set train.steps=4 --set checkpoint.every_steps=4
train 2 average_resumed "${average[@]}" --set train.steps=8 --set checkpoint.every_steps=4 --resume
expect_code 0 "a moving average, resumed"
same "$RUN/model.pt" "$WORK/average/model.pt" '*' || wrong "the average is another one after a stop"
train 2 plain --set optimizer.learning_rate=0.1 --set train.steps=8
expect_equal "$(summary parameter_hash)" "$(value "$WORK/average/summary.json" parameter_hash)" "an average does not change training"
same "$RUN/model.pt" "$WORK/average/model.pt" || wrong "the average differs from the last weights"

# A module with frozen parameters of its own.
/usr/bin/python3 - "$WORK" <<'PY'
import sys, torch
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 20), torch.nn.Tanh(), torch.nn.Linear(20, 10))
net[1].requires_grad_(False)
torch.save(net.state_dict(), sys.argv[1] + "/half_state.pt")
torch.jit.script(net).save(sys.argv[1] + "/half.pt")
PY
train 2 module --set model.name=torchscript --set "model.path=$WORK/half.pt"
expect_code 0 "a module with frozen parameters"
expect_equal 210 "$(summary parameters)" "a module with frozen parameters: those that are trained"
same "$RUN/model.pt" "$WORK/half_state.pt" '1.*' || wrong "a module's frozen parameters stay"

# What cannot work.
train 1 bad --set 'model.freeze=["layer9.*"]'
expect_failure 2 'layer9' "a pattern that matches nothing"
train 1 bad --set 'model.freeze=["*"]'
expect_failure 2 'at least one parameter' "everything frozen"
train 1 bad --set 'optimizer.groups=[{"names":["nothing"],"rate_factor":2}]'
expect_failure 2 'nothing' "a group of nothing"
refuse_config 'optimizer.groups' "a group without names" --set 'optimizer.groups=[{"rate_factor":2}]'
refuse_config 'd2' "groups with d2" --set optimizer.decay_norms=false --set synchronization.algorithm=d2
refuse_config 'sgp' "an average with push-sum" --set train.ema=0.9 --set synchronization.algorithm=sgp
refuse_config 'evaluate_every' "early stopping without evaluations" --set train.early_stopping=1 --set train.evaluate_every=0
program --config "$WORK/tiny.json" --simulate 2 --set train.ema=0.9 --out "$WORK/simulated"
expect_failure 2 'simulate' "an average in a simulation"
finish
