#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""configs/cifar10_94.json in PyTorch, in one process: what the network and the recipe reach on the same files.

The network and recipe are those of K. Jordan, arXiv:2404.00498, with Muon in place of its optimizer for convolutions.
Other than in equant-train the first layer's bias stops after three eighths of the steps, the head has no bias, and a
batch is normalized as a whole, not in halves by rank. Prints one JSON line.

usage: cifar10_94_torch.py DATA [--epochs 8] [--seed 1] [--precision bf16] [--threads 2]

DATA has data_batch_1.bin to data_batch_5.bin and test_batch.bin.
"""

import argparse
import json
import os
import platform
import time

import numpy
import torch
import torch.nn.functional as F
from torch import nn

BATCH = 2000
MOMENTUM = 0.85  # of biases and the head
MUON_RATE, MUON_MOMENTUM = 0.24, 0.6
BIAS_RATE, HEAD_RATE = 0.053, 0.67  # for the sum of a batch's losses
DECAY = 2e-6 * BATCH
SMOOTHING = 0.2
WHITENED_SHARE = 3 / 8  # of the steps, in which the first layer's bias is trained
PLACES = (0, 2)  # of a test picture moved by one pixel, in its frame of one


def pictures(folder, names):
    """Standardized pictures (n, 3, 32, 32) and labels."""
    rows = numpy.concatenate(
        [numpy.fromfile(os.path.join(folder, name), dtype=numpy.uint8).reshape(-1, 3073) for name in names])
    mean = torch.tensor((0.4914, 0.4822, 0.4465)).view(1, 3, 1, 1)
    deviation = torch.tensor((0.2470, 0.2435, 0.2616)).view(1, 3, 1, 1)
    images = torch.from_numpy(rows[:, 1:].reshape(-1, 3, 32, 32)).float() / 255
    return (images - mean) / deviation, torch.from_numpy(rows[:, 0].astype(numpy.int64))


class Norm(nn.BatchNorm2d):
    def __init__(self, channels):
        super().__init__(channels, eps=1e-12, momentum=0.4)
        self.weight.requires_grad = False


class Block(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.norm1 = Norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = Norm(width)
        for conv in (self.conv1, self.conv2):
            nn.init.dirac_(conv.weight.data[:conv.in_channels])

    def forward(self, x):
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class Airbench(nn.Module):
    def __init__(self, images):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        self.whiten.weight.requires_grad = False
        self.blocks = nn.Sequential(Block(24, 64), Block(64, 256), Block(256, 256))
        self.head = nn.Linear(256, 10, bias=False)
        self.head.weight.data /= self.head.weight.data.std()
        patches = images.unfold(2, 2, 1).unfold(3, 2, 1).transpose(1, 3).reshape(-1, 12)
        values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
        filters = vectors.T / torch.sqrt(values + 5e-4).view(-1, 1)
        self.whiten.weight.data[:] = torch.cat((filters, -filters)).view(24, 3, 2, 2)

    def forward(self, x, learns_bias=True):
        bias = self.whiten.bias if learns_bias else self.whiten.bias.detach()
        x = self.blocks(F.gelu(F.conv2d(x, self.whiten.weight, bias)))
        with torch.autocast("cpu", enabled=False):
            return self.head(x.amax((2, 3)).float()) / 256


def orthogonal(matrix, iterations=3):
    """Newton-Schulz iterations of fifth order."""
    x = matrix / (matrix.norm() + 1e-7)
    if len(matrix) > matrix.size(1):
        x = x.T
    for _ in range(iterations):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.T if len(matrix) > matrix.size(1) else x


class Muon:
    def __init__(self, parameters):
        self.states = [(p, torch.zeros_like(p)) for p in parameters]

    @torch.no_grad()
    def step(self, rate):
        for p, momentum in self.states:
            momentum.mul_(MUON_MOMENTUM).add_(p.grad)
            direction = p.grad + MUON_MOMENTUM * momentum
            p.mul_(len(p)**0.5 / p.norm())
            p.add_(orthogonal(direction.reshape(len(p), -1)).view(p.shape), alpha=-rate)


def outputs(network, images, cast):
    network.eval()
    with torch.no_grad(), cast():
        found = [network(part.contiguous(memory_format=torch.channels_last)) for part in images.split(500)]
    network.train()
    return torch.cat(found)


def accuracy(scores, labels):
    return (scores.argmax(1) == labels).float().mean().item()


def over_views(network, images, cast):
    """The mean of six views: half for the picture and its mirror image, half for both moved by a pixel."""
    def mirrored(x):
        return (outputs(network, x, cast) + outputs(network, x.flip(-1), cast)) / 2
    framed = F.pad(images, (1,) * 4, "reflect")
    moved = [mirrored(framed[:, :, at:at + 32, at:at + 32]) for at in PLACES]
    return (mirrored(images) + (moved[0] + moved[1]) / 2) / 2


def shifted(framed, side=32, reach=2):
    """Every picture cut from its frame at a place of its own."""
    places = torch.randint(0, 2 * reach + 1, (len(framed), 2))
    images = torch.empty(len(framed), 3, side, side)
    for y in range(2 * reach + 1):
        for x in range(2 * reach + 1):
            here = (places[:, 0] == y) & (places[:, 1] == x)
            images[here] = framed[here, :, y:y + side, x:x + side]
    return images


def train(network, images, labels, epochs, cast):
    """Returns the mean loss of the last epoch."""
    norms = [p for name, p in network.named_parameters() if "norm" in name and p.requires_grad]
    rates = [([network.whiten.bias], BIAS_RATE), (norms, BIAS_RATE), ([network.head.weight], HEAD_RATE)]
    others = torch.optim.SGD([{"params": p, "lr": rate, "weight_decay": DECAY / rate} for p, rate in rates],
                             lr=1, momentum=MOMENTUM, nesterov=True)
    muon = Muon([p for p in network.parameters() if p.dim() == 4 and p.requires_grad])
    batches = len(images) // BATCH
    steps = epochs * batches
    bias_steps = WHITENED_SHARE * steps
    flipped = torch.rand(len(images)) < 0.5
    images = torch.where(flipped.view(-1, 1, 1, 1), images.flip(-1), images)
    framed = F.pad(images, (2,) * 4, "reflect")
    for epoch in range(epochs):
        views = shifted(framed)
        if epoch % 2 == 1:
            views = views.flip(-1)
        total = 0
        for batch, chosen in enumerate(torch.randperm(len(views))[:batches * BATCH].split(BATCH)):
            step = epoch * batches + batch
            with cast():
                scores = network(views[chosen].contiguous(memory_format=torch.channels_last), step < bias_steps)
            loss = F.cross_entropy(scores.float(), labels[chosen], label_smoothing=SMOOTHING, reduction="sum")
            loss.backward()
            left = 1 - step / steps
            shares = [max(0, 1 - step / bias_steps), left, left]
            for group, (_, rate), share in zip(others.param_groups, rates, shares):
                group["lr"] = rate * share
            others.step()
            muon.step(MUON_RATE * left)
            network.zero_grad(set_to_none=True)
            total += loss.item()
    return total / (batches * BATCH)


def processor():
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)

    def cast():
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.precision == "bf16")
    try:
        images, labels = pictures(options.data, [f"data_batch_{i}.bin" for i in range(1, 6)])
        test_images, test_labels = pictures(options.data, ["test_batch.bin"])
    except (OSError, ValueError) as error:
        raise SystemExit(f"cifar10_94_torch.py: expected CIFAR-10's binary files in {options.data}, found {error}; "
                         "scripts/get_data.sh cifar10 gets them") from None
    network = Airbench(images[:5000]).to(memory_format=torch.channels_last)
    begin = time.perf_counter()
    loss = train(network, images, labels, options.epochs, cast)
    seconds = time.perf_counter() - begin
    print(json.dumps({
        "torch": torch.__version__, "processor": processor(), "threads": options.threads,
        "precision": options.precision, "seed": options.seed, "epochs": options.epochs, "train_loss": round(loss, 4),
        "accuracy": accuracy(outputs(network, test_images, cast), test_labels),
        "accuracy_of_views": accuracy(over_views(network, test_images, cast), test_labels),
        "seconds": round(seconds, 1), "images_per_second": round(options.epochs * 50000 / seconds, 1)}))


if __name__ == "__main__":
    main()
