#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The bytes of a hypothetical run: as published tables count them, and as they would be sent.
# CTest gives it the program without LibTorch, which starts faster: nothing is trained.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

program analyze volume --model vgg11 --normalization evonorm-s0 --ranks 16 --edges 4 --json
expect_code 0 "analyze volume"
python3 - "$OUT" <<'PY' || wrong "analyze volume: not the published volume, or sent bytes are not four edges of float32"
import json, sys
volume = json.load(open(sys.argv[1]))
steps = 98 * 200
assert volume["steps"] == steps, volume
assert volume["paper"]["bytes_per_step"] == 4 * (9496522 + 1), volume
assert round(volume["paper"]["gigabytes"], 1) == 744.5, volume
sent = volume["sent"]
assert sent["payload_bytes_per_step"] == 4 * 4 * 9496522, volume
# Besides a frame's 32 bytes, 4 for the length of each compressed tensor's piece, over four edges.
lengths, rest = divmod(sent["header_bytes_per_step"] - 32 * sent["frames_per_step"], 4 * 4)
assert rest == 0 and 0 < lengths <= sent["frames_per_step"] // 4 + volume["tensors"], volume
assert sent["bytes_per_step"] == sent["payload_bytes_per_step"] + sent["header_bytes_per_step"]
PY
program analyze volume --json
expect_code 0 "the table of analyze volume"
python3 - "$OUT" <<'PY' || wrong "analyze volume: the table differs from the published one where it should not"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
def row(model, ranks, density, epoch):
    [found] = [r for r in rows if (r["model"], r["ranks"], r["density"], r["steps_per_epoch"]) ==
               (model, ranks, density, epoch)]
    return found["paper"]["gigabytes"]
assert round(row("resnet20", 8, None, 196), 2) == 42.85
assert round(row("resnet20", 8, 0.01, 196), 3) == 0.651
assert round(row("resnet54", 8, None, 196), 1) == 119.2
assert round(row("resnet54", 8, 0.01, 196), 3) == 1.808
assert round(row("resnet20", 16, None, 97), 1) == 21.2
assert round(row("resnet20", 16, 0.1, 97), 3) == 3.177
assert round(row("vgg11", 16, None, 98), 1) == 744.5
assert round(row("vgg11", 16, 0.01, 98), 3) == 11.167
for r in rows:
    assert r["sent"]["gigabytes"] > r["paper"]["gigabytes"] * (0.5 if r["density"] else 1)
PY
program analyze volume --ranks 4
expect_failure 2 'model' "analyze volume with a question that no model answers"
program analyze volume --model vgg12
expect_failure 2 'vgg11' "analyze volume of an unknown model"
program analyze volume --model alexnet --normalization evonorm-s0
expect_failure 2 'alexnet' "analyze volume of a normalization that the model has not got"
program analyze volume --model resnet20 --ranks 2 --edges 2
expect_failure 2 'edges' "analyze volume with more neighbours than ranks"
program analyze volum
expect_failure 2 'volume' "a misspelt question"
program analyze
expect_failure 2 'nothing' "analyze of nothing"
program analyze volume --model resnet20 --density 0
expect_failure 2 'density above 0' "analyze volume of nothing sent"
program analyze volume --model torchscript
expect_failure 2 'a network of the program' "a network whose parameters are in a file"
finish
