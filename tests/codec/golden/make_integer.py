#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes integer.json: the messages of the integer collective, computed from FORMAT.md alone.

A second, simple implementation of the format, with exact fractions where rounding matters.
Run it in this folder after a change of a message: python3 make_integer.py
"""
import json
import struct
from fractions import Fraction

from random_words import MASK32, product, stream

RUN_SEED, STEP, SLICE, INDEX = 42, 7, 9, 5
FIRST_INDEX = 2**32 - 128  # the third bucket lies in the next block of counters
COUNT, RAW, RANKS = 150, 3, 3
CODEC_NUMBER = {"qsgd-v": 4, "terngrad": 7, "int8": 10}
CODEC_VERSION = {"qsgd-v": 2, "terngrad": 1, "int8": 1}


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def from_bits(b):
    return struct.unpack("<f", struct.pack("<I", b))[0]


def terngrad(v, own, shared, rank, first):
    codes = []
    for i, x in enumerate(v):
        h = product(stream(RUN_SEED, STEP, rank, SLICE, (first + i) >> 32), first + i)
        uniform = ((h ^ h >> 15) >> 8) / 2**24
        drawn = shared > 0 and uniform < f32(min(abs(x), own) / shared)
        codes.append(0 if not drawn else 1 if x > 0 else -1)
    return codes


def qsgd_v(v, own, shared, rank, first, width):
    s = 2 ** (width - 1) - 1
    if own == 0:
        return [0] * len(v)
    inverse = f32(s / shared)
    while f32(shared * inverse) > s:
        inverse = from_bits(bits(inverse) - 1)
    one = 2 ** (32 - width)
    codes = []
    for i, x in enumerate(v):
        h = product(stream(RUN_SEED, STEP, rank, SLICE, first >> 32), first + i // 64 * 16 + i % 16)
        h = h * pow(0x45108B7D, i // 16 % 4) & MASK32
        index = (int(f32(abs(x) * inverse) * one) + (h >> width)) // one
        codes.append(index if x > 0 else -index)
    return codes


def int8(v, shared):
    step = f32(shared / 127)
    if Fraction(step) < Fraction(shared) / 127:
        step = from_bits(bits(step) + 1)
    inverse = f32(1 / step) if step else 0
    return [round(f32(x * inverse)) for x in v]  # ties to even


def pack(codes, limit):
    width = (2 * limit).bit_length()
    out = b""
    for start in range(0, len(codes), 64):
        block = [code + limit for code in codes[start:start + 64]]
        for j in range(width):
            plane = sum((u >> j & 1) << i for i, u in enumerate(block))
            out += plane.to_bytes((len(block) + 7) // 8, "little")
    return out


def frame(codec, count, index, payload):
    return struct.pack("<4sHBBQQII", b"EQT1", CODEC_NUMBER[codec], CODEC_VERSION[codec] + 64, 0, STEP,
                       count, index, len(payload)) + payload


def values_of(rank):
    return [((i * 7919 + rank * 1299709 + 17) % 2001 - 1000) / 2.0 ** (8 + (i + rank) % 5) *
            (0 if rank == 1 and 64 <= i < 128 else 1 + rank) for i in range(COUNT + RAW)]


def case(codec, width=0):
    limit = {"terngrad": 1, "int8": 127}.get(codec) or 2 ** (width - 1) - 1
    size = COUNT if codec == "terngrad" else 64
    starts = range(0, COUNT, size)
    values = [values_of(rank) for rank in range(RANKS)]
    own = [[max(abs(x) for x in v[b:min(b + size, COUNT)]) for b in starts] for v in values]
    shared = [max(column) for column in zip(*own)]
    codes = []
    for rank, v in enumerate(values):
        mine = []
        for k, b in enumerate(starts):
            part, first = v[b:min(b + size, COUNT)], FIRST_INDEX + b
            if codec == "terngrad":
                mine += terngrad(part, own[rank][k], shared[k], rank, first)
            elif codec == "qsgd-v":
                mine += qsgd_v(part, own[rank][k], shared[k], rank, first, width)
            else:
                mine += int8(part, shared[k])
        codes.append(mine)
    sums = [sum(column) for column in zip(*codes)]
    raw = [struct.pack(f"<{RAW}f", *v[COUNT:]) for v in values]
    means = []
    for i in range(COUNT, COUNT + RAW):
        total = values[0][i]
        for rank in range(1, RANKS):
            total = f32(total + values[rank][i])
        means.append(f32(total * f32(1 / RANKS)))
    count = COUNT + RAW
    return {
        "codec": codec, "bits": width, "bucket_size": size,
        "scales": [frame(codec, len(shared), INDEX | 0x40000000,
                         struct.pack(f"<{len(o)}f", *o)).hex() for o in own],
        "codes": [frame(codec, count, INDEX, pack(codes[r], limit) + raw[r]).hex()
                  for r in range(RANKS)],
        "sums": frame(codec, count, INDEX | 0x80000000,
                      pack(sums, RANKS * limit) + struct.pack(f"<{RAW}f", *means)).hex(),
    }


def main():
    cases = [case("terngrad"), case("qsgd-v", 2), case("qsgd-v", 4), case("qsgd-v", 5),
             case("qsgd-v", 8), case("int8")]
    head = {"run_seed": RUN_SEED, "step": STEP, "slice": SLICE, "index": INDEX,
            "first_index": FIRST_INDEX, "count": COUNT,
            "values": [[f"{bits(x):08x}" for x in values_of(rank)] for rank in range(RANKS)]}
    with open("integer.json", "w") as file:
        rows = ",\n  ".join(json.dumps(c) for c in cases)
        file.write(json.dumps(head)[:-1] + ', "cases": [\n  ' + rows + "\n]}\n")


main()
