#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Dumped gradients are exactly the rank's own, with any algorithm, compressor and overlap.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
/usr/bin/python3 -c 'import torch, numpy' 2>/dev/null || skip "python3-torch is not installed"
plain=(--set optimizer.momentum=0 --set optimizer.weight_decay=0)

for steps in 2 3; do
  train 1 "steps$steps" "${plain[@]}" --set "train.steps=$steps" --set output.dump_gradients=1
  expect_code 0 "a run of $steps steps"
done
expect_equal 3 "$(find "$RUN/gradients" -name '*.npy' | wc -l)" "gradients of three steps"

# One step of plain SGD: the difference of the weights is the rate times the gradient.
/usr/bin/python3 - "$WORK/steps2" "$WORK/steps3" <<'PY' || wrong "the gradient of step 3 is not what moved the weights"
import json, sys, numpy, torch
before, after = (torch.load(folder + "/model.pt") for folder in sys.argv[1:])
stem = sys.argv[2] + "/gradients/step00000003.rank0"
gradient, layout = numpy.load(stem + ".npy"), json.load(open(stem + ".json"))
assert gradient.dtype == numpy.float32 and gradient.shape == (layout["values"],)
end = 0
for tensor in layout["tensors"]:
    assert tensor["offset"] == end, tensor
    end += tensor["count"]
    values = gradient[tensor["offset"]:end].reshape(tensor["stored_shape"])
    if values.ndim == 4:
        values = values.transpose(0, 3, 1, 2)
    assert list(values.shape) == tensor["shape"], tensor
    moved = (before[tensor["name"]] - after[tensor["name"]]).numpy() / 0.05
    # Weights below 1 have 24 bits, divided by the rate.
    assert abs(values - moved).max() < 2 * 2**-24 / 0.05 * max(1, abs(before[tensor["name"]]).max()), tensor
assert end == len(gradient)
PY

# Rank 0's own gradient of the first step does not depend on averaging, compression or overlap, and
# dumping does not change a run. Gossip keeps its shards, so all runs do.
shards=(--set data.partition.reshuffle=false)
train 2 dense "${shards[@]}" --set train.steps=4 --set output.dump_gradients=1
hash=$(summary parameter_hash)
first=$RUN/gradients/step00000001.rank0.npy
train 2 compressed --set train.steps=4 --set output.dump_gradients=3 --set compressor.name=terngrad
expect_equal "step00000003.rank0.json step00000003.rank0.npy" "$(cd "$RUN/gradients" && echo *)" "every third step"
for how in compressor.name=topk synchronization.algorithm=d-psgd; do
  train 2 "how$how" "${shards[@]}" --set train.steps=1 --set output.dump_gradients=1 --set "$how"
  expect_code 0 "a run with $how"
  cmp -s "$first" "$RUN/gradients/step00000001.rank0.npy" || wrong "$how: expected the same gradient as without"
done
train 2 undumped "${shards[@]}" --set train.steps=4 --set output.tensorboard=false
expect_equal "$hash" "$(summary parameter_hash)" "the hash with and without looking at gradients"
finish
