#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Images per second of PyTorch's DistributedDataParallel on Gloo: the trainer to compare with.

Plain torch.nn modules, SGD with momentum 0.9, random images in memory, one thread per rank.
Prints one JSON line. compare_ddp.sh runs it alternating with equant-train.

usage: ddp_baseline.py [--model resnet20|resnet18] [--ranks 2] [--batch 64] [--steps 30]
                       [--pixels 32] [--warmup 5] [--classes 10] [--channels-last] [--hook NAME]
                       [--buckets N] [--accumulate N] [--local N] [--threads N] [--join]

Running statistics of batch norm are not sent before each step (broadcast_buffers=False), as ours are
not.

--hook fp16, bf16 and powersgd (rank 2 with error feedback, from the third step on) are PyTorch's own
communication hooks, and alone leaves each rank its own gradient, a lower bound. Another name is a compressor for
equant.DDPHook of python/, which needs 8 steps to choose, or none if the name ends with ":always".

--accumulate averages the mean gradient of N batches. --local averages the parameters after every N steps of each rank
alone, which is what post-local SGD does after its first part. Both report the N-th part of the time between averages.

--ranks 1 is training without DistributedDataParallel.

With --join this process is one of the ranks, as RANK, MASTER_ADDR and MASTER_PORT say; otherwise it
starts all of them on this machine.
"""

import argparse
import contextlib
import hashlib
import json
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.model_averaging.utils import average_parameters


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a projection shortcut; names as in torchvision."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or channels != width:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += shortcut
        return F.relu(y, inplace=True)


class ResNet(nn.Module):
    """A residual network for 32x32 images: 3x3 stem, no max-pooling."""

    def __init__(self, blocks, widths, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.stages = []
        channels = widths[0]
        for index, (count, width) in enumerate(zip(blocks, widths)):
            stage = nn.Sequential(*[
                BasicBlock(channels if i == 0 else width, width, 2 if i == 0 and index > 0 else 1)
                for i in range(count)])
            self.stages.append(f"layer{index + 1}")
            self.add_module(self.stages[-1], stage)
            channels = width
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        for stage in self.stages:
            x = getattr(self, stage)(x)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


MODELS = {
    "resnet20": ([3, 3, 3], [16, 32, 64]),
    "resnet18": ([2, 2, 2, 2], [64, 128, 256, 512]),
}


def build(model, classes=10):
    return ResNet(*MODELS[model], classes)


def register_hook(model, name):
    if name == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif name == "bf16":
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    elif name == "powersgd":
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=2, start_powerSGD_iter=2, orthogonalization_epsilon=1e-8,
            batch_tensors_with_same_shape=True)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif name == "alone":
        model.register_comm_hook(None, keep_gradient)
    elif name:
        here = os.path.dirname(os.path.abspath(__file__))
        sys.path.append(os.path.join(here, "../../python"))
        import equant
        compressor, _, when = name.partition(":")
        equant.DDPHook(model, compressor, when=when or "auto")


def keep_gradient(_, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def buckets_of(options):
    """So many buckets of equal size, the first one included; 0: those that DDP takes by default."""
    if options.buckets == 0:
        return {}
    values = sum(p.numel() for p in build(options.model, options.classes).parameters())
    size = max(1, 4 * values // options.buckets)
    dist._DEFAULT_FIRST_BUCKET_BYTES = size  # its documentation's way to set it
    return {"bucket_cap_mb": size / 2**20}


def train(rank, options, port, report):
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    if options.ranks > 1:
        host = os.environ["MASTER_ADDR"] if options.join else "127.0.0.1"
        dist.init_process_group("gloo", init_method=f"tcp://{host}:{port}", rank=rank,
                                world_size=options.ranks)
    layout = torch.channels_last if options.channels_last else torch.contiguous_format
    torch.manual_seed(0)
    model = build(options.model, options.classes).to(memory_format=layout)
    averages_gradients = options.ranks > 1 and options.local == 1
    if averages_gradients:
        model = nn.parallel.DistributedDataParallel(
            model, gradient_as_bucket_view=True, broadcast_buffers=False, **buckets_of(options))
        register_hook(model, options.hook)
    torch.manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(options.batch, 3, options.pixels, options.pixels).contiguous(memory_format=layout)
    labels = torch.randint(0, options.classes, (options.batch,))
    ends = []
    batches = options.accumulate * options.local  # between averages
    for step in range(options.warmup + options.steps):
        if step == options.warmup:
            if options.ranks > 1:
                dist.barrier()
            ends.append(time.perf_counter())
        for batch in range(1, batches + 1):
            if batch == 1 or options.accumulate == 1:
                optimizer.zero_grad(set_to_none=False)
            waits = averages_gradients and batch < batches
            with model.no_sync() if waits else contextlib.nullcontext():
                (F.cross_entropy(model(images), labels) / options.accumulate).backward()
            if batch == batches or options.accumulate == 1:
                optimizer.step()
        if options.local > 1:
            average_parameters(model.parameters(), dist.group.WORLD)
        if ends:
            ends.append(time.perf_counter())
    if options.ranks > 1 and options.hook != "alone":
        require_identical(model)
    if rank == 0:
        report([(b - a) / batches for a, b in zip(ends, ends[1:])])
    if options.ranks == 1:
        return
    # A process that ends may reset connections from which others have yet to read.
    dist.barrier()
    time.sleep(1)
    dist.destroy_process_group()


def require_identical(model):
    """All ranks have the same parameters, bit for bit: otherwise the steps were not those of one training."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().contiguous().numpy().tobytes())
    mine = torch.tensor(list(digest.digest()), dtype=torch.uint8)
    of_ranks = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(of_ranks, mine)
    if not all(torch.equal(mine, other) for other in of_ranks):
        sys.exit("ddp_baseline.py: expected the same parameters on all ranks, found others")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def describe(options, step_seconds):
    images = options.ranks * options.batch * options.steps
    print(json.dumps({
        "images_per_second": round(images / sum(step_seconds), 1), "ranks": options.ranks,
        "batch": options.batch, "steps": options.steps, "model": options.model,
        "channels_last": options.channels_last, "torch": torch.__version__,
        "step_seconds": [round(s, 5) for s in step_seconds]}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(MODELS), default="resnet20")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64, help="per rank")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--pixels", type=int, default=32, help="side of the images")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--buckets", type=int, default=0, help="of the gradient; 0: DDP's default")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--hook", default="")
    parser.add_argument("--accumulate", type=int, default=1, help="batches of a step")
    parser.add_argument("--local", type=int, default=1, help="steps between averages of the parameters")
    parser.add_argument("--threads", type=int, default=1, help="of a rank")
    parser.add_argument("--join", action="store_true")
    options = parser.parse_args()

    if options.accumulate > 1 and options.local > 1:
        parser.error("expected --accumulate or --local, found both")
    if options.local > 1 and options.ranks == 1:
        parser.error("expected several ranks with --local, found one")
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    os.environ.setdefault("USE_LIBUV", "0")  # Debian 13's PyTorch is built without libuv and asks for it
    if options.join:
        train(int(os.environ["RANK"]), options, int(os.environ["MASTER_PORT"]),
              lambda seconds: describe(options, seconds))
        return
    if options.ranks == 1:
        train(0, options, None, lambda seconds: describe(options, seconds))
        return
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(train, (options, free_port(), queue.put), nprocs=options.ranks)
    describe(options, queue.get())


if __name__ == "__main__":
    main()
