# SPDX-License-Identifier: Apache-2.0
"""Writes low_rank.json: payloads of powersgd and entrywise atomo, computed from FORMAT.md alone.

An implementation in another language, so that the frozen bytes are known independently of the C++
code. Spectral atoms have no frozen bytes: singular vectors are known up to sign and rounding, and
their laws are tested instead. Run it in this folder after a change of a payload:
python3 make_low_rank.py
"""
import json
import math
import struct

import numpy as np

from random_words import stream, stream_of, word

KEY = {"run_seed": 42, "step": 7, "rank": 3, "slice": 9}
START, REPLACEMENT = 0xFFFFFFFE, 0xFFFFFFFD
F32, F64 = np.float32, np.float64


def sixteen_sums(a, b, kind):
    sums = [kind(0)] * 16
    for i, (x, y) in enumerate(zip(a, b)):
        sums[i % 16] = kind(sums[i % 16] + kind(x * y))
    for width in (8, 4, 2, 1):
        for k in range(width):
            sums[k] = kind(sums[k] + sums[k + width])
    return sums[0]


def start(columns, rank):
    q = []
    for k in range(rank):
        column = []
        for j in range(columns):
            total = 0
            for w in range(6):
                b = word(stream(KEY["run_seed"], 0, START, KEY["slice"], k), 6 * j + w)
                total += (b & 0xFFFF) + (b >> 16)
            column.append(F32((total - 6 * 0xFFFF) / 65536))
        q.append(column)
    return q


def join(basis, v):
    """v orthonormalised to the basis, or None."""
    before = math.sqrt(sixteen_sums(v, v, F64))
    for _ in range(2):
        if before == 0:
            return None
        for unit in basis:
            factor = sixteen_sums(unit, v, F64)
            v = [F64(x - F64(factor * u)) for x, u in zip(v, unit)]
        after = math.sqrt(sixteen_sums(v, v, F64))
        if after <= 1e-12 * before:
            return None
        v = [F64(x / after) for x in v]
        before = 1
    return v


def orthonormal(p):
    basis = []
    for k, column in enumerate(p):
        v, draw = join(basis, [F64(x) for x in column]), 0
        while v is None:
            v = [F64(word(stream(0, draw, REPLACEMENT, k), i) - 2.0**31) for i in range(len(column))]
            v, draw = join(basis, v), draw + 1
        basis.append(v)
    return [[F32(x) for x in v] for v in basis]


def transposed(m, p):
    q = []
    for column in p:
        row = []
        for j in range(len(m[0])):
            total = F32(0)
            for first in range(0, len(m), 8):
                x = [F32(0)] * 8
                for i in range(first, min(first + 8, len(m))):
                    x[i - first] = F32(column[i] * m[i][j])
                low = F32(F32(x[0] + x[1]) + F32(x[2] + x[3]))
                high = F32(F32(x[4] + x[5]) + F32(x[6] + x[7]))
                total = F32(total + F32(low + high))
            row.append(total)
        q.append(row)
    return q


def powersgd(values, rows, rank):
    columns = len(values) // rows if rows else 0
    rank = min(rank, rows, columns)
    if rank * (rows + columns) >= len(values):
        rank = 0
    head = struct.pack("<II", rows, rank)
    if rank == 0:
        return head + np.array(values, "<f4").tobytes()
    m = [values[i * columns:(i + 1) * columns] for i in range(rows)]
    p = [[sixteen_sums(row, q, F32) for row in m] for q in start(columns, rank)]
    p = orthonormal(p)
    q = transposed(m, p)
    return head + np.array(p, "<f4").tobytes() + np.array(q, "<f4").tobytes()


def entrywise(values, density):
    """By sorting, unlike the encoder, which iterates."""
    ordered = sorted((abs(float(v)) for v in values), reverse=True)
    budget, rest = density * len(values), math.fsum(ordered)
    if rest == 0:
        return struct.pack("<IIf", 0, 0, 0)
    threshold = rest / budget
    for magnitude in ordered:
        if budget * magnitude < rest or magnitude == 0:
            break
        rest, budget = rest - magnitude, budget - 1
        if rest <= 0 or budget <= 0:
            break
        threshold = rest / budget
    t = F32(threshold)
    exact, drawn = [], []
    for i, v in enumerate(values):
        u = F32(word(stream_of(KEY), i) >> 8)
        if abs(v) >= t:
            exact.append(i)
        elif F32(u * F32(t * F32(2.0**-24))) < abs(v):
            drawn.append(i | (0x80000000 if np.signbit(v) else 0))
    out = struct.pack("<IIf", len(exact), len(drawn), t)
    out += struct.pack(f"<{len(exact)}I", *exact)
    out += np.array([values[i] for i in exact], "<f4").tobytes()
    return out + struct.pack(f"<{len(drawn)}I", *drawn)


def inputs():
    """Multiples of 1/64 and their cubes, heavy in the tails; sums of magnitudes are exact."""
    small = [F32((word(stream(1), i) % 257 - 128.0) / 64) for i in range(21 * 37)]
    return {
        "small": small,
        "heavy": [F32(x * x * x) for x in small],
        "zeros": [F32(0)] * 120,
        "rank1": [F32((i // 10 + 1) * (i % 10 - 4)) for i in range(120)],
        "signed_zero": [F32(-0.0), F32(1), F32(-1), F32(0.25)],
    }


def main():
    values = inputs()
    cases = []
    for name, rows, rank in (("small", 21, 1), ("small", 21, 3), ("small", 37, 2), ("heavy", 21, 5),
                             ("small", 0, 2), ("small", 21, 32), ("zeros", 12, 2),
                             ("rank1", 12, 2), ("signed_zero", 2, 1)):
        cases.append({"codec": "powersgd", "input": name, "rows": rows, "rank": rank,
                      "payload": powersgd(values[name], rows, rank).hex()})
    for name, density in (("small", 0.01), ("small", 0.25), ("heavy", 0.05), ("heavy", 0.3),
                          ("zeros", 0.1), ("signed_zero", 0.5), ("signed_zero", 1.0)):
        cases.append({"codec": "atomo", "input": name, "density": density,
                      "payload": entrywise(values[name], density).hex()})
    words = {name: [struct.pack(">f", v).hex() for v in row] for name, row in values.items()}
    with open("low_rank.json", "w") as file:
        json.dump({"_note": "written by make_low_rank.py", "key": KEY, "inputs": words,
                   "cases": cases}, file, indent=0)
        file.write("\n")


main()
