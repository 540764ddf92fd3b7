# SPDX-License-Identifier: Apache-2.0
"""The accuracy of a run's weights, from its folder and the set's own pictures alone.

usage: accuracy_in_python.py RUN IMAGES.gz LABELS.gz

RUN holds model.pt of ResNet-20, preprocessing.json and summary.json; the others are IDX files, of which
the run tested the first ones (data.limit_test).
"""

import gzip
import json
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
from ddp_baseline import build  # noqa: E402

run, images_path, labels_path = sys.argv[1:]
torch.set_num_threads(1)


def load(name):
    with open(os.path.join(run, name)) as file:
        return json.load(file)


def bytes_of(path, header, count):
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read(header + count)[header:]), dtype=torch.uint8)


def prepared(pictures, facts, frame_first=False):
    framing = facts["framing"]
    around = [framing[side] for side in ("left", "right", "top", "bottom")]
    x = pictures.double() / facts["scale"]
    if frame_first:
        x = torch.nn.functional.pad(x, around, value=0.0)
    mean, deviation = (torch.tensor(facts[key]).double().view(-1, 1, 1)
                       for key in ("mean", "deviation"))
    x = (x - mean) / deviation
    return x if frame_first else torch.nn.functional.pad(x, around, value=framing["value"])


facts, summary, config = load("preprocessing.json"), load("summary.json"), load("config.json")
count = config["data"]["limit_test"]
channels, height, width = facts["shape"]
pictures = bytes_of(images_path, 16, count * channels * height * width)
pictures = pictures.view(count, channels, height, width)
labels = bytes_of(labels_path, 8, count).long()

network = build("resnet20", len(facts["class_names"]))
network.conv1 = torch.nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
network.load_state_dict(torch.load(os.path.join(run, "model.pt")))
network = network.double().eval()
with torch.no_grad():
    x = prepared(pictures, facts)
    assert list(x.shape[1:]) == facts["input_shape"], x.shape
    logits = network(x)
    black = (network(prepared(pictures, facts, frame_first=True)).argmax(1) == labels).sum().item()
right = (logits.argmax(1) == labels).sum().item()
top = logits.topk(2).values
undecided = (top[:, 0] - top[:, 1] < 1e-3).sum().item()  # where rounding may decide
told = summary["test_accuracy"] * count
print(f"{right} of {count} pictures are right in Python, {told:g} by summary.json, "
      f"{black} with a black frame")
assert abs(told - round(told)) < 1e-6 and abs(right - told) <= undecided, (right, told, undecided)
