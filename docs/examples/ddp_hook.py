#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DistributedDataParallel with gradients that equant's codecs compress, over Gloo.

    from ddp_hook import EquantHook
    model = torch.nn.parallel.DistributedDataParallel(network)
    hook = EquantHook("qsgd", "bits=4 bucket_size=512")
    model.register_comm_hook(hook, EquantHook.run)

Each rank encodes its bucket, all ranks gather all messages, and each decodes them in the order of ranks, so
that the mean is the same on all of them, bit for bit. What a biased codec leaves out is added to the next
gradient. Needs PyTorch (Debian: python3-torch) and libequant_codec.so (set EQUANT_CODEC_LIBRARY if it is not
installed). As a program it times steps of a small network, for instance on two hosts, or on this one:

    torchrun --nproc-per-node 2 ddp_hook.py --codec qsgd --options "bits=4 bucket_size=512"
    RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT may be set by hand instead.
"""

import argparse
import ctypes
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

ABI = 1


class Message(ctypes.Structure):
    """equant_message of equant/codec.h."""

    _fields_ = [
        ("seed", ctypes.c_uint64),
        ("step", ctypes.c_uint64),
        ("rank", ctypes.c_uint32),
        ("index", ctypes.c_uint32),
        ("rows", ctypes.c_uint64),
    ]


def load_library():
    """The C library with the types of the functions that are used here."""
    library = ctypes.CDLL(os.environ.get("EQUANT_CODEC_LIBRARY", "libequant_codec.so.0"))
    if library.equant_codec_abi() != ABI:
        raise OSError(f"expected libequant_codec with ABI {ABI}, found {library.equant_codec_abi()}")
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    library.equant_codec_error.restype = ctypes.c_char_p
    library.equant_codec_create.restype = pointer
    library.equant_codec_create.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    library.equant_codec_destroy.argtypes = [pointer]
    library.equant_codec_needs_feedback.argtypes = [pointer]
    library.equant_codec_max_bytes.restype = size
    library.equant_codec_max_bytes.argtypes = [pointer, size]
    message = ctypes.POINTER(Message)
    library.equant_codec_encode.argtypes = [pointer, message, pointer, size, pointer, pointer, size,
                                            ctypes.POINTER(size)]
    library.equant_codec_decode_add.argtypes = [pointer, message, pointer, size, ctypes.c_float, pointer, size]
    library.equant_codec_finish_mean.argtypes = [pointer, pointer, size]
    return library


class EquantHook:
    """The state of a communication hook; hooks of DDP are called once per bucket and step."""

    def __init__(self, codec, options="", seed=1, group=None):
        self.library = load_library()
        self.codec = self.library.equant_codec_create(codec.encode(), options.encode())
        if not self.codec:
            raise ValueError(self.library.equant_codec_error().decode())
        self.seed = seed
        self.group = group
        self.steps = {}  # bucket -> steps so far
        self.residuals = {}  # bucket -> what was not sent
        self.sent_bytes = 0

    def __del__(self):
        if getattr(self, "codec", None):
            self.library.equant_codec_destroy(self.codec)

    def check(self, code):
        if code != 0:
            raise RuntimeError(self.library.equant_codec_error().decode())

    def message(self, bucket, step):
        return Message(self.seed, step, dist.get_rank(self.group), bucket, 0)

    def encode(self, gradient, bucket, step):
        """The bytes of the message, as a tensor."""
        residual = None
        if self.library.equant_codec_needs_feedback(self.codec):
            # DDP deals parameters to buckets anew after its first step.
            if self.residuals.get(bucket, gradient[:0]).numel() != gradient.numel():
                self.residuals[bucket] = torch.zeros_like(gradient)
            residual = self.residuals[bucket].data_ptr()
        capacity = self.library.equant_codec_max_bytes(self.codec, gradient.numel())
        out = torch.empty(capacity, dtype=torch.uint8)
        written = ctypes.c_size_t()
        self.check(self.library.equant_codec_encode(
            self.codec, self.message(bucket, step), gradient.data_ptr(), gradient.numel(), residual,
            out.data_ptr(), capacity, written))
        return out[:written.value]

    def decode(self, messages, sizes, bucket, step, mean):
        """Writes the mean of all ranks' gradients into `mean`."""
        mean.zero_()
        for bytes_, size in zip(messages, sizes):
            self.check(self.library.equant_codec_decode_add(
                self.codec, self.message(bucket, step), bytes_.data_ptr(), size, 1 / len(sizes),
                mean.data_ptr(), mean.numel()))
        self.check(self.library.equant_codec_finish_mean(self.codec, mean.data_ptr(), mean.numel()))
        return mean

    def run(self, bucket):
        """The hook itself: a future of the mean of `bucket`, a dist.GradBucket."""
        gradient, index = bucket.buffer(), bucket.index()
        step = self.steps[index] = self.steps.get(index, 0) + 1
        message = self.encode(gradient, index, step)
        # Gloo gathers tensors of one size, so ranks tell theirs first.
        size = torch.tensor([message.numel()])
        sizes = [torch.empty_like(size) for _ in range(dist.get_world_size(self.group))]
        dist.all_gather(sizes, size, group=self.group)
        sizes = [int(s) for s in sizes]
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[:message.numel()] = message
        self.sent_bytes += padded.numel() * (len(sizes) - 1)
        gathered = [torch.empty_like(padded) for _ in sizes]
        work = dist.all_gather(gathered, padded, group=self.group, async_op=True)
        return work.get_future().then(lambda _: self.decode(gathered, sizes, index, step, gradient))


def network(hidden):
    return torch.nn.Sequential(
        torch.nn.Linear(784, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, hidden), torch.nn.ReLU(),
        torch.nn.Linear(hidden, 10))


def main():
    parser = argparse.ArgumentParser(description="Times steps of DistributedDataParallel over Gloo.")
    parser.add_argument("--codec", default="qsgd", help="a codec, or \"fp16\" for torch's own hook, or \"none\"")
    parser.add_argument("--options", default="", help="of the codec: \"bits=4 bucket_size=512\"")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--hidden", type=int, default=1024, help="width of the network")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=0.05)
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.parallel.DistributedDataParallel(network(arguments.hidden))
    hook = None
    if arguments.codec == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif arguments.codec != "none":
        hook = EquantHook(arguments.codec, arguments.options)
        model.register_comm_hook(hook, EquantHook.run)
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.rate)
    # The same task on all ranks, other samples on each: which of ten fixed directions a sample is nearest to.
    directions = torch.randn(10, 784)
    draw = torch.Generator().manual_seed(dist.get_rank())
    seconds, losses = [], []
    for _ in range(arguments.steps):
        samples = torch.randn(arguments.batch, 784, generator=draw)
        labels = (samples @ directions.T).argmax(1)
        dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(samples), labels)
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
        losses.append(loss.item())
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    others = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(others, flat)
    if dist.get_rank() == 0:
        print(json.dumps({
            "codec": arguments.codec, "options": arguments.options, "parameters": flat.numel(),
            "first_loss": losses[0], "last_loss": losses[-1],
            # The first step deals the buckets and is slower.
            "median_step_ms": round(1000 * statistics.median(seconds[1:]), 3),
            "sent_bytes_per_step": hook.sent_bytes // arguments.steps if hook else None,
            "replicas_identical": all(torch.equal(flat, other) for other in others),
        }))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
