#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""DDPHook of python/equant in processes of Gloo.

    ddp_test.py                             starts ranks, and expects that all of them end well
    ddp_test.py RANK RANKS PORT [NAME ...]  is one of them; the names choose cases
"""

import contextlib
import copy
import datetime
import io
import os
import re
import socket
import subprocess
import sys
import time
import unittest
from unittest import mock

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import equant
from equant import _ddp, _library

# 3 rows are fewer than two segments need and fewer values than are compressed; 40 x 50 is compressed.
SHAPES = [(40, 50), (50,), (3, 20), (64, 33), (1,)]


class Network(torch.nn.Module):
    """Its gradients are what a rank wants them to be."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.parts = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in SHAPES])

    def forward(self, gradients):
        return sum((part * gradient).sum() for part, gradient in zip(self.parts, gradients))


def gradients_of(rank, step=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return [(torch.randn(shape, generator=generator) * 0.01).to(dtype) for shape in SHAPES]


def mean_of(ranks, step=0, dtype=torch.float64):
    of_ranks = [gradients_of(rank, step) for rank in range(ranks)]
    return [sum(part.to(dtype) for part in parts) / ranks for parts in zip(*of_ranks)]


def step_of(model, gradients):
    """The averages that backward() leaves."""
    model.zero_grad(set_to_none=True)
    model(gradients).backward()
    return [parameter.grad.detach().clone() for parameter in model.parameters()]


def wrapped(network=None, **options):
    return DistributedDataParallel(network or Network(), bucket_cap_mb=0.01, **options)


def hooked(*arguments, dtype=torch.float32, when="always", **options):
    model = wrapped(Network(dtype))
    return model, equant.DDPHook(model, *arguments, when=when, **options)


def of_all_ranks(tensor):
    found = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(found, tensor.contiguous())
    return found


def require_identical(tensors, what):
    for tensor in tensors:
        first, *others = of_all_ranks(tensor)
        assert all(torch.equal(first, other) for other in others), f"{what}: ranks have different bits"


def refused(kind, words, call):
    """Expects a sentence, the same on all ranks, within 10 seconds."""
    began, text = time.monotonic(), None
    try:
        call()
    except kind as error:
        text = str(error)
    assert text is not None, f"expected {words}, found no error"
    assert re.search(words, text), f"expected {words}, found {text}"
    assert time.monotonic() - began < 10, f"{text}: after {time.monotonic() - began} s"
    sentence = re.search(r"(expected|rank \d+:) .*", text).group(0)
    data = torch.zeros(1000, dtype=torch.uint8)
    data[:len(sentence)] = torch.tensor(list(sentence.encode()), dtype=torch.uint8)
    require_identical([data], f"the sentence {sentence}")


# What each rank does, one after another. A name says what is expected.

def every_compressor_loses_nothing(rank, ranks):
    """All means so far and all residuals make the exact sum; all ranks have the same bits."""
    for name in equant.compressors():
        try:
            _ddp._require_contraction(_library.Codec(name, {}, 1), name)
            feedback = True
        except ValueError:
            feedback = False
        model, hook = hooked(name, error_feedback=feedback)
        total = [torch.zeros(shape, dtype=torch.float64) for shape in SHAPES]
        expected = [torch.zeros(shape, dtype=torch.float64) for shape in SHAPES]
        for step in range(4):
            found = step_of(model, gradients_of(rank, step))
            require_identical(found, name)
            for a, b, c, d in zip(total, found, expected, mean_of(ranks, step)):
                a += b
                c += d
        residuals = hook.state_dict()["residuals"]
        hook.close()
        for number, (shape, a, c) in enumerate(zip(SHAPES, total, expected)):
            coded = number in (0, 3)
            assert coded or torch.allclose(a, c, rtol=1e-6, atol=1e-8), f"{name}: {shape} is not exact"
            assert (f"parts.{number}" in residuals) == (coded and feedback), f"{name}: {sorted(residuals)}"
            if coded and feedback:
                kept = torch.zeros(shape, dtype=torch.float64)
                rows = shape[0]
                for of_rank, residual in enumerate(of_all_ranks(residuals[f"parts.{number}"].view(shape))):
                    for owner in range(ranks):
                        begin, end = rows * owner // ranks, rows * (owner + 1) // ranks
                        kept[begin:end] += residual[begin:end] if owner == of_rank else residual[begin:end] / ranks
                assert torch.allclose(a + kept, c, rtol=0, atol=1e-6), f"{name}: {(a + kept - c).abs().max()} is lost"
                assert name == "none" or kept.abs().max() > 0, f"{name}: nothing is left out"
            elif coded:  # without a memory: of the size of the values, and along them, but for the votes' size
                share = float((a * c).sum() / (a.norm() * c.norm()))
                assert share > 0.1, f"{name}: cosine {share}"


def messages_are_those_of_compress(rank, ranks):
    """The mean is what compress() and decompress() of all ranks' segments make, bit for bit."""
    for name, options in (("e-elastiquant", {}), ("topk", {"density": 0.1}), ("powersgd", {"rank": 4}),
                          ("signsgd", {})):
        votes = name == "signsgd"
        model, hook = hooked(name, error_feedback=not votes, **options)
        memory = [[torch.zeros(SHAPES[0]) for _ in range(ranks)], torch.zeros(SHAPES[0])]
        for step in range(1, 4):
            found = step_of(model, gradients_of(rank, step))[0]
            expected = torch.zeros(SHAPES[0])
            for owner in range(ranks):
                begin, end = 40 * owner // ranks, 40 * (owner + 1) // ranks
                total = torch.zeros(end - begin, 50)
                for sender in range(ranks):
                    values = gradients_of(sender, step)[0][begin:end].contiguous()
                    if sender != owner or votes:
                        values = equant.decompress(equant.compress(
                            values, name, step=step, tensor=owner, sender=sender,
                            residual=None if votes else memory[0][sender][begin:end], **options))
                    total += values * torch.tensor(1 / ranks, dtype=torch.float32)
                if votes:
                    total = torch.where(total >= 0, 1.0, -1.0)
                expected[begin:end] = equant.decompress(equant.compress(
                    total, name, step=step, tensor=owner | 1 << 31, sender=owner,
                    residual=None if votes else memory[1][begin:end], **options))
            assert torch.equal(found, expected), f"{name} at step {step}: {(found - expected).abs().max()}"
        hook.close()


def many_pieces_and_small_frames(rank, ranks):
    """Cut segments and frames of a few messages change when something is sent, not what a residual accounts for."""
    with mock.patch.object(_ddp, "_SEGMENT_VALUES", 300), mock.patch.object(_ddp, "_FRAME_BYTES", 500):
        model, hook = hooked("none")
        for found, expected in zip(step_of(model, gradients_of(rank)), mean_of(ranks)):
            assert torch.allclose(found.double(), expected, rtol=1e-6, atol=1e-8)
        assert len(hook.parameters[0].pieces) == -(-40 // (ranks * 6))
        hook.close()


def types_have_their_means(rank, ranks):
    """Of float64 and of half types, also by allreduce: within the rounding of float32 and of their own."""
    for dtype, error in ((torch.float64, 1e-7), (torch.float32, 1e-7), (torch.float16, 1e-3), (torch.bfloat16, 8e-3)):
        own, expected = gradients_of(rank, dtype=dtype), mean_of(ranks)
        for when in ("always", "allreduce"):
            try:
                model = wrapped(Network(dtype))
            except RuntimeError:  # Gloo of PyTorch 1.13 makes no DDP of bfloat16
                assert dtype == torch.bfloat16, dtype
                model = wrapped(Network())
            printed = io.StringIO()
            with contextlib.redirect_stderr(printed):
                hook = equant.DDPHook(model, "none", when="always")
            if when == "allreduce":
                hook._compresses = False
            if next(model.parameters()).dtype == dtype:
                found = step_of(model, own)
                assert ("rounded to float32" in printed.getvalue()) == (dtype == torch.float64 and rank == 0)
            else:
                found = []
                for index, parameter in enumerate(model.module.parts):
                    bucket = mock.Mock()
                    bucket.index.return_value, bucket.is_last.return_value = index, index == len(SHAPES) - 1
                    bucket.parameters.return_value, bucket.buffer.return_value = [parameter], own[index].reshape(-1)
                    found.append(hook._on_bucket(bucket).wait().view(SHAPES[index]))
            for a, b in zip(found, expected):
                assert a.dtype == dtype, f"{a.dtype} instead of {dtype}"
                assert (a.double() - b).abs().max() <= error * 0.1, f"{dtype}, {when}: {(a.double() - b).abs().max()}"
            if dtype == torch.float64 and when == "allreduce":
                exact = [sum(gradients_of(r, dtype=dtype)[0] for r in range(ranks)) / ranks]
                assert (found[0] - exact[0]).abs().max() < 1e-17
            require_identical([part.float() for part in found], str(dtype))
            hook.close()


def train(model, hook, optimizer, first, last, rank):
    for step in range(first, last):
        generator = torch.Generator().manual_seed(100 * step + rank)
        inputs = torch.randn(8, 40, generator=generator)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), (inputs @ torch.arange(40.0) > 0).long()).backward()
        optimizer.step()


def network():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(40, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(),
                               torch.nn.Linear(64, 30), torch.nn.ReLU(), torch.nn.Linear(30, 2))


def resumed_run_is_equal(rank, ranks):
    """Bit for bit, whenever it is stopped: after the first step DDP has other buckets."""
    def start():
        model = wrapped(network())
        hook = equant.DDPHook(model, "e-elastiquant", rate=1, when="always")
        return model, hook, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    for stop in (1, 4):
        model, hook, optimizer = start()
        train(model, hook, optimizer, 0, stop, rank)
        file = io.BytesIO()
        torch.save([model.module.state_dict(), hook.state_dict(), optimizer.state_dict()], file)
        train(model, hook, optimizer, stop, 8, rank)
        hook.close()
        again, other, its_optimizer = start()
        file.seek(0)
        weights, state, momenta = torch.load(file)  # weights_only from PyTorch 2.6 on
        again.module.load_state_dict(weights)
        other.load_state_dict(state)
        its_optimizer.load_state_dict(momenta)
        assert state["step"] == stop and all(r.abs().max() > 0 for r in state["residuals"].values())
        train(again, other, its_optimizer, stop, 8, rank)
        for a, b in zip(model.parameters(), again.parameters()):
            assert torch.equal(a, b), f"resumed after {stop} steps: {(a - b).abs().max()}"
        require_identical(list(again.parameters()), "the resumed run")
        # States of other runs.
        for change, words in (({"rank": (rank + 1) % ranks}, f"state of rank {rank} of {ranks}"),
                              ({"residuals": {"0.bias": torch.zeros(3)}}, "3 values of 0.bias"),
                              ({"settings": state["settings"].replace('"rate": 1', '"rate": 2')}, "options")):
            try:
                other.load_state_dict(dict(state, **change))
                raise AssertionError(f"a state with other {list(change)} is taken")
            except ValueError as error:
                assert words in str(error), error
        other.close()


def training_follows_the_exact_mean(rank, ranks):
    losses = {}
    for name in ("allreduce", "e-elastiquant", "topk"):
        model = wrapped(network())
        hook = None if name == "allreduce" else equant.DDPHook(model, name, when="always")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        train(model, hook, optimizer, 0, 60, rank)
        inputs = torch.randn(500, 40, generator=torch.Generator().manual_seed(9))
        labels = (inputs @ torch.arange(40.0) > 0).long()
        losses[name] = torch.nn.functional.cross_entropy(model.module(inputs), labels).item()
        if hook:
            hook.close()
    assert losses["allreduce"] < 0.5, losses
    assert all(loss < losses["allreduce"] + 0.1 for loss in losses.values()), losses


def gradients_of_several_batches(rank, ranks):
    """With no_sync(), and with parameters that a batch does not use."""
    model, hook = hooked("none")
    with model.no_sync():
        model(gradients_of(rank, 1)).backward()
    model(gradients_of(rank, 2)).backward()
    for parameter, a, b in zip(model.parameters(), mean_of(ranks, 1), mean_of(ranks, 2)):
        assert torch.allclose(parameter.grad.double(), a + b, rtol=1e-5, atol=1e-8)
    hook.close()
    unused = DistributedDataParallel(Network(), find_unused_parameters=True)
    hook = equant.DDPHook(unused, "none", when="always")
    unused(gradients_of(rank)[:2]).backward()  # zip ends with the second parameter
    for parameter, expected in zip(unused.parameters(), mean_of(ranks)[:2]):
        assert torch.allclose(parameter.grad.double(), expected, rtol=1e-5, atol=1e-8)
    hook.close()


def what_is_left_out_waits_for_a_mean_that_is_applied(rank, ranks):
    """DDP drops the mean of a parameter that no rank has used, compressed or by allreduce."""
    for when in ("always", "auto"):
        model = DistributedDataParallel(Network(), find_unused_parameters=True)
        hook = equant.DDPHook(model, "topk", when=when)
        total = sum(step_of(model, gradients_of(rank, step))[3].double() for step in range(2))
        kept = hook.state_dict()["residuals"]["parts.3"].clone()
        assert kept.abs().max() > 0
        model.zero_grad(set_to_none=True)
        model(gradients_of(rank, 2)[:2]).backward()  # zip ends with the second parameter
        assert hook._now_compresses() == (when == "always")
        assert model.module.parts[3].grad is None and torch.equal(hook.state_dict()["residuals"]["parts.3"], kept)
        if when == "auto":  # the next mean by allreduce makes it up
            hook._compresses = False
            total += step_of(model, gradients_of(rank, 3))[3]
            expected = sum(mean_of(ranks, step)[3] for step in (0, 1, 3))
            assert torch.allclose(total, expected, rtol=0, atol=1e-6), (total - expected).abs().max()
        hook.close()


def kinds_of_ddp(rank, ranks):
    """The mean is exact with one bucket or many, of static graphs, in views, of empty parameters, and after join()."""
    torch.manual_seed(3)
    cases = [(torch.nn.Linear(40, 30, bias=False), {}), (torch.nn.Linear(40, 300), {"bucket_cap_mb": 1e-4}),
             (network(), {"static_graph": True, "bucket_cap_mb": 0.01}),
             (network(), {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.01})]
    if not torch.__version__.startswith("1."):  # DDP of 1.13 cannot have them
        cases.append((torch.nn.Sequential(torch.nn.Linear(40, 30), Empty()), {"bucket_cap_mb": 1e-4}))
    for module, options in cases:
        plain = DistributedDataParallel(copy.deepcopy(module), **options)
        model = DistributedDataParallel(module, **options)
        hook = equant.DDPHook(model, "none", when="always")
        for step in range(4):
            inputs = torch.randn(8, 40, generator=torch.Generator().manual_seed(100 * step + rank))
            for each in (plain, model):
                each.zero_grad()
                each(inputs).square().mean().backward()
            for a, b in zip(model.parameters(), plain.parameters()):
                assert torch.allclose(a.grad, b.grad, rtol=1e-4, atol=1e-6), (options, (a.grad - b.grad).abs().max())
        hook.close()
    for when in ("always", "auto"):  # uneven numbers of batches
        model = wrapped(network())
        hook = equant.DDPHook(model, "topk", when=when)
        with contextlib.redirect_stderr(io.StringIO()), model.join():
            train(model, hook, torch.optim.SGD(model.parameters(), lr=0.01), 0, 5 + 3 * rank, rank)
        assert hook.step == 5 + 3 * (ranks - 1)
        require_identical(list(model.parameters()), f"join() with {when}")
        hook.close()


class Empty(torch.nn.Module):
    """Adds the sum of no values."""

    def __init__(self):
        super().__init__()
        self.none = torch.nn.Parameter(torch.zeros(0, 5))

    def forward(self, inputs):
        return inputs + self.none.sum()


class Slow:
    """A process group whose sums, or whose messages, take longer."""

    def __init__(self, group, allreduce=0.0, send=0.0):
        self.group, self.seconds, self.of_send, self.recv = group, allreduce, send, group.recv

    def allreduce(self, tensors, *arguments):
        if tensors[0].numel() > 2:
            time.sleep(self.seconds)
        return self.group.allreduce(tensors, *arguments)

    def send(self, *arguments):
        time.sleep(self.of_send)
        return self.group.send(*arguments)


def slow_links_are_compressed_and_fast_ones_not(rank, ranks):
    """All ranks decide alike, rank 0 says so once, and what was left out until then is made up."""
    for slow, compresses, words in (({"allreduce": 0.1}, True, "compresses with topk"),
                                    ({"send": 0.1}, False, "leaves them to allreduce")):
        model, hook = hooked("topk", when="auto")
        slow = slow if rank == ranks - 1 else {}
        hook._group = Slow(hook._group, **slow)
        printed, total = io.StringIO(), torch.zeros(SHAPES[0], dtype=torch.float64)
        with contextlib.redirect_stderr(printed):
            for step in range(9):
                found = step_of(model, gradients_of(rank, step))
                require_identical(found, "while it is measured")
                total += found[0]
        assert hook._compresses is compresses, (hook._compresses, hook._pairs)
        lines = printed.getvalue().splitlines()
        assert len(lines) == (rank == 0) and all(words in line for line in lines), lines
        if not compresses:
            expected = sum(mean_of(ranks, step)[0] for step in range(9))
            assert torch.allclose(total, expected, rtol=0, atol=1e-6), (total - expected).abs().max()
        state = copy.deepcopy(hook.state_dict())
        hook.close()
        model, hook = hooked("topk", when="auto")
        hook.load_state_dict(state)
        assert hook._compresses is compresses  # it is not measured again
        hook.close()


def other_settings_are_refused(rank, ranks):
    last = rank == ranks - 1
    cases = [
        (dict(bits=3 if last else 4), 'the same options .* found {"bits": 4} on rank 0 and {"bits": 3} on rank '),
        (dict(seed=rank), "the same seed .* found 0 on rank 0 and 1 on rank 1"),
        (dict(error_feedback=not last), "the same error_feedback of DDPHook on all ranks, found true on rank 0"),
        (dict(when="always" if last else "auto"), "the same when"),
        (dict(compressor="topkk" if last else "topk"), f'rank {ranks - 1}: .*the nearest is "topk"'),
        (dict(when="never" if last else "auto"), f'rank {ranks - 1}: expected "auto" or "always"'),
        (dict(compressor="terngrad"), "rank 0: .* leaves out less than it gets, found terngrad"),
        (dict(bits=99), "rank 0: .*bits"),
        (dict(bits={4}), "rank 0: .*options that JSON can say"),
    ]
    for options, words in cases:
        model = wrapped()
        refused((TypeError, ValueError), words.replace("rank 0: ", "(rank 0: )?").replace(
            f"rank {ranks - 1}: ", f"(rank {ranks - 1}: )?"), lambda: equant.DDPHook(model, **options))
    model = wrapped()
    dist.barrier()
    if last:
        _ddp._made[tuple(range(ranks))] += 1  # it makes none
    began = time.monotonic()
    if not last:
        try:
            equant.DDPHook(model, wait_seconds=3)
            raise AssertionError("a rank without a hook is taken")
        except ValueError as error:
            assert f"found none on rank {ranks - 1} after 3 s" in str(error), error
        assert time.monotonic() - began < 10
    dist.barrier()
    try:
        equant.DDPHook(Network())
        raise AssertionError("a model without DDP is taken")
    except TypeError as error:
        assert "found Network; try" in str(error), error
    sparse = DistributedDataParallel(torch.nn.Sequential(torch.nn.Embedding(50, 40, sparse=True)))
    refused(ValueError, "expected dense gradients of the module 0 for DDPHook", lambda: equant.DDPHook(sparse))
    twice, hook = hooked("topk")
    refused(ValueError, "without a communication hook for DDPHook, found one", lambda: equant.DDPHook(twice))
    hook.close()
    with mock.patch.object(_ddp, "_backend", lambda group: "nccl"):
        refused(ValueError, "the backend gloo for DDPHook, found nccl", lambda: equant.DDPHook(model))
    with mock.patch.object(dist, "get_backend_config", lambda group: "cpu:gloo,cuda:nccl", create=True):
        assert _ddp._backend(dist.group.WORLD) == "gloo"
    with mock.patch.object(dist, "get_backend_config", lambda group: "cpu:mpi,cuda:mpi", create=True):
        assert _ddp._backend(dist.group.WORLD) == "mpi"
    for tensor, words in ((torch.zeros(2, device="meta"), "on the device meta"), (torch.zeros(2).int(), "torch.int32"),
                          (torch.zeros(2).to_sparse(), "sparse")):
        try:
            _ddp._require_gradient("a bucket", tensor)
            raise AssertionError(f"{words} is taken")
        except TypeError as error:
            assert words in str(error), error


def groups_of_some_ranks(rank, ranks):
    """Two of three ranks have a hook, which does not disturb those of all that follow."""
    if ranks < 3:
        return
    group = dist.new_group([0, 2])
    if rank != 1:
        model = DistributedDataParallel(Network(), process_group=group)
        hook = equant.DDPHook(model, "none", when="always")
        for a, b, c in zip(step_of(model, gradients_of(rank)), gradients_of(0), gradients_of(2)):
            assert torch.allclose(a.double(), (b.double() + c.double()) / 2, rtol=1e-6, atol=1e-8)
        hook.close()
    model, hook = hooked("none")
    for a, b in zip(step_of(model, gradients_of(rank)), mean_of(ranks)):
        assert torch.allclose(a.double(), b, rtol=1e-6, atol=1e-8)
    hook.close()


def gradients_that_are_not_finite(rank, ranks):
    """One rank has them, in a segment of whatever owner or in a small tensor; all ranks say so and go on saying it."""
    bad = ranks - 1
    for name, number, index in (("e-elastiquant", 0, 0), ("e-elastiquant", 0, -1), ("e-elastiquant", 1, 7),
                                ("none", 3, 0), ("none", 3, -1), ("topk", 4, 0)):
        model, hook = hooked(name, error_feedback=name != "none")
        step_of(model, gradients_of(rank))
        gradients = gradients_of(rank)
        if rank == bad:
            gradients[number].view(-1)[index] = float("nan")
        words = (f"expected finite gradients in DDPHook, found NaN, .* on rank {bad} in the parameter parts.{number} "
                 "at step 2; try")
        refused(RuntimeError, words, lambda: step_of(model, gradients))
        try:
            hook.state_dict()
            raise AssertionError("a hook that failed has a state")
        except FloatingPointError:
            pass


def gradients_that_are_not_finite_in_allreduce(rank, ranks):
    """While it is measured and after a choice of allreduce, in the first or the last bucket, in half types, too."""
    bad = ranks - 1
    for number, value, steps, dtype in ((0, "nan", 2, torch.float32), (4, "inf", 2, torch.float32),
                                        (3, "-inf", 9, torch.float32), (1, "nan", 9, torch.float64),
                                        (2, "nan", 9, torch.float16)):
        model, hook = hooked("topk", when="auto", dtype=dtype)
        hook._group = Slow(hook._group, send=0.02)
        with contextlib.redirect_stderr(io.StringIO()):
            for step in range(steps):
                step_of(model, gradients_of(rank, step, dtype))
        assert hook._compresses is (None if steps == 2 else False), (steps, hook._pairs)
        gradients = gradients_of(rank, steps, dtype)
        if rank == bad:
            gradients[number].view(-1)[-1] = float(value)
        words = (f"expected finite gradients in DDPHook, found NaN, .* on rank {bad} in the parameter parts.{number} "
                 f"at step {steps + 1}; try")
        refused(RuntimeError, words, lambda: step_of(model, gradients))
        hook.close()


def a_rank_whose_hook_fails(rank, ranks):
    """The others learn it from that rank, at once."""
    model, hook = hooked("topk")
    step_of(model, gradients_of(rank))
    if rank == ranks - 1:
        hook._numbers.clear()
        hook._layouts.clear()
    words = "that the model had when" if rank == ranks - 1 else f"rank {ranks - 1} exchanges .* failed at step 2"
    began = time.monotonic()
    try:
        step_of(model, gradients_of(rank))
        raise AssertionError("a hook that fails is not missed")
    except (RuntimeError, ValueError) as error:
        assert re.search(words, str(error)), error
    assert time.monotonic() - began < 10


def ends_with_an_error(rank, ranks):
    """By itself: its status is that of the error, on ranks that wait for it, too."""
    model, hook = hooked("topk")
    for step in range(2):  # DDP itself sends something in the second step
        step_of(model, gradients_of(rank, step))
    if rank == ranks - 1:
        raise KeyError("an error of the script")
    step_of(model, gradients_of(rank))


def a_rank_that_ends(rank, ranks):
    """The others say so within seconds. It is the last case: the process group is broken."""
    model, hook = hooked("topk")
    for step in range(2):  # DDP itself sends something in the second step
        step_of(model, gradients_of(rank, step))
    dist.barrier()
    if rank == ranks - 1:
        print("all cases hold", flush=True)
        os._exit(0)
    began = time.monotonic()
    try:
        step_of(model, gradients_of(rank))
        raise AssertionError("a rank that has ended is not missed")
    except RuntimeError as error:
        words = r"expected that rank \d exchanges gradients .*, found that it (does not answer|failed)"
        assert re.search(words, str(error)), error
    assert time.monotonic() - began < 20
    print("all cases hold", flush=True)
    os._exit(0)  # threads that wait for the lost rank


CASES = [every_compressor_loses_nothing, messages_are_those_of_compress, many_pieces_and_small_frames,
         types_have_their_means, resumed_run_is_equal, training_follows_the_exact_mean, gradients_of_several_batches,
         what_is_left_out_waits_for_a_mean_that_is_applied, kinds_of_ddp, slow_links_are_compressed_and_fast_ones_not,
         other_settings_are_refused, groups_of_some_ranks, gradients_that_are_not_finite,
         gradients_that_are_not_finite_in_allreduce, a_rank_whose_hook_fails, a_rank_that_ends]


def be_rank(rank, ranks, port, cases=CASES):
    torch.set_num_threads(1)
    os.environ["USE_LIBUV"] = "0"  # Debian 13's PyTorch is built without libuv and asks for it
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=30))
    only = os.environ.get("ONLY")
    for case in cases:
        if not only or re.search(only, case.__name__):
            began = time.monotonic()
            case(rank, ranks)
            print(f"{case.__name__}: {time.monotonic() - began:.1f} s", flush=True)


class Ranks(unittest.TestCase):
    def outputs_of(self, ranks, *names):
        """Starts the ranks and returns their processes, which have ended, and what they printed."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        processes = [subprocess.Popen(
            [sys.executable, "-B", __file__, str(rank), str(ranks), str(port), *names], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in range(ranks)]
        try:
            return processes, [process.communicate()[0] for process in processes]
        finally:
            for process in processes:
                process.kill()

    def run_ranks(self, ranks):
        processes, outputs = self.outputs_of(ranks)
        text = "".join(f"--- rank {rank}\n{output}" for rank, output in enumerate(outputs))
        for process, output in zip(processes, outputs):
            self.assertEqual(process.returncode, 0, text)
            self.assertIn("all cases hold", output, text)

    def test_two_ranks(self):
        self.run_ranks(2)

    def test_three_ranks(self):
        self.run_ranks(3)

    def test_a_script_that_ends_with_an_error(self):
        processes, outputs = self.outputs_of(3, "ends_with_an_error")
        for process, output, words in zip(processes, outputs, (r"rank \d exchanges", r"rank \d exchanges", "KeyError")):
            self.assertEqual(process.returncode, 1, output)
            self.assertRegex(output, words)


if __name__ == "__main__":
    if len(sys.argv) >= 4:
        be_rank(*map(int, sys.argv[1:4]), [globals()[name] for name in sys.argv[4:]] or CASES)
    else:
        unittest.main()
