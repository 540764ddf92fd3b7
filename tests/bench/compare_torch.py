#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Our codecs compared with the same work in torch operations, one thread each, alternating.

QSGD in torch: bucketed L2 norm, stochastic rounding to 7 levels, one int8 per value; its decode-and-add.
Top-k: torch.topk of the magnitudes and a gather; its index_add_. fp16: tensor.half(); its float().
Prints GB/s of float32 gradient, the median of all rounds, and ours / torch. compare_torch.sh runs it.

usage: compare_torch.py PROGRAM [--values 25557032] [--rounds 3]
"""

import argparse
import json
import statistics
import subprocess
import time

import torch

LEVELS = 7
BUCKET = 512
DENSITY = 0.01


def qsgd_encode(values):
    buckets = values.view(-1, BUCKET)
    norms = buckets.norm(dim=1, keepdim=True)
    levels = (buckets.abs() * (LEVELS / norms)).add_(torch.rand_like(buckets)).floor_()
    return levels.mul_(buckets.sign()).to(torch.int8), norms


def qsgd_add(message, total):
    codes, norms = message
    total.view(-1, BUCKET).add_(codes.float().mul_(norms / LEVELS))


def topk_encode(values):
    _, indices = torch.topk(values.abs(), int(DENSITY * values.numel()), sorted=False)
    return indices, values[indices]


def topk_add(message, total):
    total.index_add_(0, *message)


def half_encode(values):
    return values.half()


def half_add(message, total):
    total.add_(message.float())


CASES = {
    "qsgd": (qsgd_encode, qsgd_add, ["compressor.bits=4", f"compressor.bucket_size={BUCKET}"]),
    "topk": (topk_encode, topk_add, [f"compressor.density={DENSITY}"]),
    "fp16": (half_encode, half_add, []),
}


def median_gb_s(work, count, passes=5):
    work()
    seconds = []
    for _ in range(passes):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return 4e-9 * count / statistics.median(seconds)


def theirs(case, values):
    encode, add, _ = CASES[case]
    message = encode(values)
    total = torch.zeros_like(values)
    return (median_gb_s(lambda: encode(values), values.numel()),
            median_gb_s(lambda: add(message, total), values.numel()))


def ours(program, case, count):
    command = [program, "bench", "codecs", "--json", "--values", str(count), "--compressor", case]
    for setting in CASES[case][2]:
        command += ["--set", setting]
    row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return row["encode_gb_s"], row["decode_add_gb_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--values", type=int, default=25557032)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    count = max(1, options.values // BUCKET) * BUCKET  # torch's view needs whole buckets
    values = torch.randn(count) * 1e-3

    print(f"{count:,} values, {options.rounds} rounds in turns, torch {torch.__version__}, one thread")
    print(f"{'':6} {'':12} {'ours':>8} {'torch':>8} {'ratio':>7}   [GB/s]")
    for case in CASES:
        rounds = [(ours(options.program, case, count), theirs(case, values))
                  for _ in range(options.rounds)]
        for index, what in enumerate(("encode", "decode-add")):
            mine, other = (statistics.median(side[index] for side in sides)
                           for sides in zip(*rounds))
            print(f"{case:6} {what:12} {mine:8.2f} {other:8.2f} {mine / other:7.1f}", flush=True)


if __name__ == "__main__":
    main()
