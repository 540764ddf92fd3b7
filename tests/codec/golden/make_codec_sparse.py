# SPDX-License-Identifier: Apache-2.0
"""Writes codec_sparse.json: payloads of the sparse compressors, computed from FORMAT.md alone.

An implementation in another language, so that the frozen bytes are known independently of the C++
code. Run it in this folder after a change of a payload: python3 make_codec_sparse.py
"""
import json
import math
import random
import struct

from random_words import mix64, stream, word

KEY = {"run_seed": 42, "step": 7, "rank": 3, "slice": 9}


def f32(x):
    """The nearest float32, as a Python float."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def pack_bits(bits):
    """Bit j of the list is bit j mod 8 of byte j / 8."""
    bits = bits + [0] * (-len(bits) % 8)
    return bytes(sum(b << j for j, b in enumerate(bits[i:i + 8])) for i in range(0, len(bits), 8))


def code_values(values, bits):
    if bits == 32:
        return struct.pack(f"<{len(values)}f", *values)
    largest = max((abs(v) for v in values), default=0)
    exponent = math.frexp(largest)[1] - 15 if largest else 0
    out = struct.pack("<h", exponent)
    for v in values:
        scaled = math.ldexp(v, -exponent)
        # Nearest half, ties to even, but at most the last one below 2^15.
        half = min(max(struct.unpack("<e", struct.pack("<e", scaled))[0], -32752.0), 32752.0)
        out += struct.pack("<e", half)
    return out


def sparse(values, indices, bits):
    n, k = len(values), len(indices)
    coded = indices if 2 * k <= n else [i for i in range(n) if i not in set(indices)]
    gaps = [b - a - 1 for a, b in zip([-1] + coded, coded)]
    rice = 0
    if coded:
        top = int(math.log2(n // len(coded)))
        rice = min(range(max(top - 2, 0), top + 1),
                   key=lambda b: (sum(b + 1 + (g >> b) for g in gaps), b))
    remainders = [g >> j & 1 for g in gaps for j in range(rice)]
    quotients = [bit for g in gaps for bit in [0] * (g >> rice) + [1]]
    form = rice | (0x80 if bits == 16 else 0)
    return (struct.pack("<IB", k, form) + pack_bits(remainders) +
            code_values([values[i] for i in indices], bits) + pack_bits(quotients))


def topk_indices(values, k):
    order = sorted(range(len(values)), key=lambda i: (-abs(values[i]), i))
    return sorted(order[:k])


def topk(values, density, bits):
    k = max(1, math.floor(density * len(values)))
    return sparse(values, topk_indices(values, k), bits)


def threshold(values, tau, bits):
    above = [i for i, v in enumerate(values) if abs(v) > f32(tau)]
    cap = (len(values) + 1) // 2
    return sparse(values, above if len(above) <= cap else topk_indices(values, cap), bits)


def bounded(constants, index, bound):
    return mix64(word(constants, index) << 32 | (constants[0] ^ index)) * bound >> 64


def randomk(values, density, bits, unbiased, first_index):
    n = len(values)
    k = max(1, math.floor(density * n))
    key = mix64(KEY["run_seed"])
    for part in (KEY["step"], KEY["slice"], first_index):
        key = mix64(key ^ part)
    constants = stream(key)
    chosen = set()
    for j in range(n - k, n):
        drawn = bounded(constants, j, j + 1)
        chosen.add(j if drawn in chosen else drawn)
    factor = f32(n / k) if unbiased else 1
    sent = [f32(factor * values[i]) for i in sorted(chosen)]
    check = mix64(key ^ mix64(k << 32 | n)) >> 32
    return (struct.pack("<IB", k, 0x80 if bits == 16 else 0) + struct.pack("<QI", key, check) +
            code_values(sent, bits))


def inputs():
    draw = random.Random(1)
    return {
        "v8": [0.5, -1.25, 0.0, 2.0, -0.03125, 0.75, -3.0, 0.125],
        "one": [-0.7],
        "zeros": [0.0] * 5,
        "equal": [0.25, -0.25] * 8,
        "sines": [math.sin(1.7 * i) * 2.0 ** (i % 7 - 16) for i in range(67)],
        "wide": [3.4028234663852886e38, -1.0, 2.0 ** -149, -(2.0 ** -126), 3.4e38, 1e30, -1e-30],
        "normal": [draw.gauss(0, 1e-3) for _ in range(500)],
    }


def main():
    cases = []
    named = {name: [f32(v) for v in values] for name, values in inputs().items()}
    for name, values in named.items():
        def row(codec, version, payload, **options):
            cases.append({"codec": codec, "format_version": version, "input": name, **options,
                          "payload": payload.hex()})

        for bits in (32, 16):
            for density in (0.02, 0.25, 0.7, 1.0):
                row("topk", 2, topk(values, density, bits), density=density, value_bits=bits)
            row("dgc", 2, topk(values, 0.01, bits), density=0.01, value_bits=bits)
            for tau in (0.0015, 0.3):
                row("threshold", 1, threshold(values, tau, bits), threshold=tau, value_bits=bits)
            for unbiased in (False, True):
                if unbiased and name == "wide":
                    continue
                row("randomk", 1, randomk(values, 0.25, bits, unbiased, 3), density=0.25,
                    value_bits=bits, unbiased=unbiased, first_index=3)
    words = {name: [struct.pack(">f", v).hex() for v in values] for name, values in named.items()}
    with open("codec_sparse.json", "w") as file:
        head = json.dumps({"key": KEY, "inputs": words})[:-1]
        rows = ",\n  ".join(json.dumps(case) for case in cases)
        file.write(head + ', "cases": [\n  ' + rows + "\n]}\n")
    print(len(cases), "cases")


main()
