#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DistributedDataParallel over Gloo with gradients that equant-train's codecs compress.

    model = torch.nn.parallel.DistributedDataParallel(network)
    model.register_comm_hook(CodecHook("e-elastiquant", {"bits": 4}), CodecHook.run)

Each rank encodes its bucket, gathers the bytes of all ranks and decodes them in the order of the ranks, so that
the mean is the same everywhere, bit for bit. What a biased compressor leaves out is added to the next gradient.
Gradients are in main memory, of type float32, float16 or bfloat16; the codecs and the mean compute in float32.
EQUANT_CODEC_LIBRARY names the library if it is not installed. As a program, this trains a small network:

    torchrun --nproc_per_node 2 ddp_hook.py [COMPRESSOR [OPTIONS [STEPS]]]
"""

import concurrent.futures
import ctypes
import json
import os
import sys

import torch
import torch.distributed as dist

ABI_VERSION, NEEDS_FEEDBACK = 1, 16  # of equant/codec.h
EXACT_IN_FLOAT32 = (torch.float32, torch.float16, torch.bfloat16)


class Array(ctypes.Structure):  # struct equant_array
    _fields_ = [("step", ctypes.c_uint64), ("tensor", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("rows", ctypes.c_uint64)]


class CodecHook:
    """The state of the hook `run`, which DDP calls for each bucket of gradients in each step."""

    def __init__(self, name, options=None, seed=1):
        self.library = ctypes.CDLL(os.environ.get("EQUANT_CODEC_LIBRARY", f"libequant_codec.so.{ABI_VERSION}"))
        if self.library.equant_codec_abi_version() != ABI_VERSION:
            raise OSError(f"expected a library with version {ABI_VERSION} of equant/codec.h, found another one")
        self.library.equant_codec_error.restype = ctypes.c_char_p
        self.library.equant_codec_properties.restype = ctypes.c_uint64
        self.codec, error = ctypes.c_void_p(), ctypes.create_string_buffer(512)
        if self.library.equant_codec_create(name.encode(), json.dumps(options or {}).encode(), ctypes.c_uint64(seed),
                                            ctypes.byref(self.codec), error, ctypes.c_size_t(len(error))) != 0:
            raise ValueError(error.value.decode())
        self.needs_feedback = self.library.equant_codec_properties(self.codec) & NEEDS_FEEDBACK
        self.residuals = {}  # of each bucket: its parameters, and what was not sent of their gradients
        self.step, self.sent_bytes = 0, 0
        # One thread makes all exchanges: in the same order on all ranks, and beside the backward pass.
        self.thread = concurrent.futures.ThreadPoolExecutor(max_workers=1)

    def call(self, function, *arguments):
        """Python's integers are addresses and sizes."""
        words = [ctypes.c_size_t(a) if isinstance(a, int) else a for a in arguments]
        if getattr(self.library, "equant_codec_" + function)(self.codec, *words) != 0:
            raise RuntimeError(self.library.equant_codec_error(self.codec).decode())

    def run(self, bucket):
        """The hook: a future of the mean over ranks of the bucket's gradients."""
        self.step += bucket.index() == 0
        array = Array(self.step, bucket.index(), dist.get_rank(), 0)
        mean, buffer = torch.futures.Future(), bucket.buffer()
        if buffer.dtype not in EXACT_IN_FLOAT32 or buffer.device.type != "cpu":
            mean.set_exception(TypeError(
                f"expected gradients of type float32, float16 or bfloat16 on the device cpu, found {buffer.dtype} on "
                f"{buffer.device}; convert the network with .float() or .cpu(), or train it without this hook"))
        else:
            self.thread.submit(self.exchange, array, buffer, self.residual_of(bucket), mean)
        return mean

    def residual_of(self, bucket):
        """None for unbiased compressors. It begins as zeros, again after DDP's first step, which changes buckets."""
        if not self.needs_feedback:
            return None
        parameters = [parameter.data_ptr() for parameter in bucket.parameters()]
        if self.residuals.get(bucket.index(), (None,))[0] != parameters:
            self.residuals[bucket.index()] = (parameters, torch.zeros_like(bucket.buffer(), dtype=torch.float32))
        return self.residuals[bucket.index()][1]

    def exchange(self, array, buffer, residual, mean):
        try:
            gradient = buffer.float()  # the buffer itself if it is float32
            messages, sizes = self.gather(self.encode(array, gradient, residual))
            gradient.zero_()
            for message, size in zip(messages, sizes):
                self.call("decode_add", ctypes.byref(array), message.data_ptr(), size, ctypes.c_float(1 / len(sizes)),
                          gradient.data_ptr(), gradient.numel())
            self.call("finish_mean", gradient.data_ptr(), gradient.numel())
            mean.set_result(gradient.to(buffer.dtype))
        except Exception as error:  # backward() raises it
            mean.set_exception(error)

    def encode(self, array, gradient, residual):
        capacity, written = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("max_bytes", gradient.numel(), ctypes.byref(capacity))
        message = torch.zeros(capacity.value, dtype=torch.uint8)
        self.call("encode", ctypes.byref(array), gradient.data_ptr(), gradient.numel(),
                  residual.data_ptr() if self.needs_feedback else None, message.data_ptr(), capacity,
                  ctypes.byref(written))
        return message[:written.value]

    def gather(self, message):
        """The messages of all ranks and their bytes. Gloo gathers tensors of one size: that of the longest."""
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
        dist.all_gather(sizes, torch.tensor([message.numel()]))
        padded = torch.zeros(max(map(int, sizes)), dtype=torch.uint8)
        padded[:message.numel()] = message
        messages = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(messages, padded)
        self.sent_bytes += padded.numel() * (len(sizes) - 1)
        return messages, [int(size) for size in sizes]


def main(compressor="e-elastiquant", options="{}", steps="40"):
    if int(steps) < 1:
        raise ValueError(f"expected at least 1 step, found {steps}")
    os.environ.setdefault("USE_LIBUV", "0")  # Debian 13's PyTorch is built without libuv and asks for it
    dist.init_process_group("gloo")
    torch.manual_seed(1)  # the same weights and the same task on all ranks, other samples on each
    network = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    directions, samples = torch.randn(64, 10), torch.Generator().manual_seed(dist.get_rank())
    model = torch.nn.parallel.DistributedDataParallel(network)
    hook = CodecHook(compressor, json.loads(options))
    model.register_comm_hook(hook, CodecHook.run)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(int(steps)):
        inputs = torch.randn(32, 64, generator=samples)
        loss = torch.nn.functional.cross_entropy(model(inputs), (inputs @ directions).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    parameters = torch.nn.utils.parameters_to_vector(network.parameters()).detach()
    of_ranks = [torch.empty_like(parameters) for _ in range(dist.get_world_size())]
    dist.all_gather(of_ranks, parameters)
    if dist.get_rank() == 0:
        print(json.dumps({"identical": all(torch.equal(parameters, other) for other in of_ranks),
                          "first_loss": sum(losses[:5]) / 5, "last_loss": sum(losses[-5:]) / 5,
                          "parameters": len(parameters), "bytes_per_step": hook.sent_bytes // int(steps)}))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, TypeError, ValueError) as error:
        sys.exit(f"ddp_hook.py: {error}")
