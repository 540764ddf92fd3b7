#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes levels.json: payloads of the level codecs, computed from src/codecs/codec/FORMAT.md alone.

A second, simple implementation of the format: the test compares the program's bytes with it. Run it only when
a format version changes.
"""
import fractions
import json
import math
import pathlib
import struct

from random_words import MASK32, product, stream_of

MAX_FLOAT = 3.4028234663852886e38
KEY = {"run_seed": 42, "step": 7, "rank": 3, "slice": 5}


def f32(x):
    """The nearest float32 (right for a sum, product or quotient of two of them, too)."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def above(x):
    """The next float32 after x > 0."""
    return struct.unpack("<f", struct.pack("<I", struct.unpack("<I", struct.pack("<f", x))[0] + 1))[0]


def random_word(first_index, count, i):
    """Of value i of the bucket of `count` values that starts at first_index."""
    block = first_index >> 32
    if (first_index + count - 1) >> 32 != block:
        block |= 0x80000000
    drawn = product(stream_of(KEY, block), first_index + i // 64 * 16 + i % 16)
    return drawn * pow(0x45108B7D, i // 16 % 4) & MASK32


def levels_of(case):
    n = 2 ** (case["bits"] - 1) - 1
    if case["codec"] in ("qsgd", "qsgd-v"):
        return [j / n for j in range(n + 1)]
    e = case["elasticity"]
    if case["levels"] == "exponential":
        return [0.0] + [e ** (n - j) for j in range(1, n + 1)]
    return [math.sinh(j * e) / math.sinh(n * e) for j in range(n + 1)]


def bucket_norm(v, norm):
    if norm == "max":
        return max(abs(x) for x in v)
    partial = [0.0] * 32
    for i, x in enumerate(v):
        partial[i % 32] += x * x
    for width in (16, 8, 4, 2, 1):
        for k in range(width):
            partial[k] += partial[k + width]
    exact = math.sqrt(partial[0])
    if exact > MAX_FLOAT:
        return math.inf
    rounded = f32(exact)
    return above(rounded) if rounded < exact else rounded


def line_of(level, j, n):
    """f(r) = offset + slope r in cell j, in float32; f(1) = n exactly."""
    slope = f32(1 / (level[j + 1] - level[j]))
    offset = f32(j - level[j] / (level[j + 1] - level[j]))
    if j == n - 1:
        unit = 2.0 ** (math.frexp(max(slope, n))[1] - 24)
        slope = round(slope / unit) * unit
        offset = f32(n - slope)
    return slope, offset


def fixed_point(r, level, uniform, one):
    """f(r) times `one`, truncated."""
    n = len(level) - 1
    if uniform:
        return int(r * one)
    if all(x == 2.0 ** (j - n) for j, x in enumerate(level) if j > 0):
        big = r * 2.0**n
        total = f32(big + max(big, 2.0))
        return (struct.unpack("<I", struct.pack("<f", total))[0] * one >> 23) & MASK32
    j = sum(1 for k in range(1, n) if r >= level[k])
    slope, offset = line_of(level, j, n)
    return int(f32(offset * one + f32(slope * one * r)))


def indices_of(v, norm, levels, uniform, first_index):
    n = len(levels) - 1
    bits = n.bit_length() + 1
    one = 1 << (32 - bits)
    level = [f32(x) for x in levels]
    inverse = f32((n if uniform else 1) / norm)
    while uniform and f32(norm * inverse) > n:
        inverse = struct.unpack("<f", struct.pack("<I", struct.unpack("<I", struct.pack("<f", inverse))[0] - 1))[0]
    result = []
    for i, x in enumerate(v):
        fixed = fixed_point(f32(abs(x) * inverse), level, uniform, one)
        result.append((fixed + (random_word(first_index, len(v), i) >> bits)) // one)
    return result


def omega(k):
    s = "0"
    while k > 1:
        b = bin(k)[2:]
        s = b + s
        k = len(b) - 1
    return s


def sign(x):
    return "1" if x < 0 else "0"


def sparse(indices, v, n):
    nonzero = [i for i, k in enumerate(indices) if k > 0]
    out, previous = omega(len(nonzero) + 1), -1
    for i in nonzero:
        out += omega(i - previous) + sign(v[i]) + omega(indices[i])
        previous = i
    return "01" + out


def dense(indices, v, n):
    return "10" + "".join(omega(k + 1) + (sign(x) if k > 0 else "") for k, x in zip(indices, v))


def huffman(indices, v, n):
    count = [indices.count(k) for k in range(n + 1)]
    leaves = sorted((c, k) for k, c in enumerate(count) if c > 0)
    length = [0] * (n + 1)
    if len(leaves) == 1:
        length[leaves[0][1]] = 1
    else:
        queue, nodes = [(c, [k]) for c, k in leaves], []
        while len(queue) + len(nodes) > 1:
            pair = []
            for _ in range(2):
                leaf_first = queue and (not nodes or queue[0][0] <= nodes[0][0])
                pair.append((queue if leaf_first else nodes).pop(0))
            for _, symbols in pair:
                for k in symbols:
                    length[k] += 1
            nodes.append((pair[0][0] + pair[1][0], pair[0][1] + pair[1][1]))
    words, word = {}, 0
    for bits in range(1, 13):
        word *= 2
        for k in range(n + 1):
            if length[k] == bits:
                words[k] = format(word, f"0{bits}b")
                word += 1
    out = "11" + "".join(format(x, "04b") for x in length)
    return out + "".join(words[k] + (sign(x) if k > 0 else "") for k, x in zip(indices, v))


def packed(codes, bits):
    """Blocks of 16 columns, each with its own 32-bit words; the rest in one stream."""
    rows = 32 // bits if 32 % bits == 0 else 32
    out, size = b"", 16 * rows
    while len(codes) >= size:
        columns = [sum(codes[16 * row + c] << (row * bits) for row in range(rows))
                   for c in range(16)]
        for word in range(rows * bits // 32):
            out += b"".join(struct.pack("<I", x >> (32 * word) & MASK32) for x in columns)
        codes = codes[size:]
    stream = sum(code << (i * bits) for i, code in enumerate(codes))
    return out + stream.to_bytes((len(codes) * bits + 7) // 8, "little")


def delta(k):
    width = bin(k.bit_length())[2:]
    return "0" * (len(width) - 1) + width + bin(k)[3:]


def rans_frequencies(counts, precision):
    """count * M / d, half rounded up, at least 1; then units to where they save most."""
    whole, total = 2**precision, sum(counts)
    f = [max(1, (2 * c * whole + total) // (2 * total)) if c else 0 for c in counts]
    while sum(f) > whole:
        k = min((k for k in range(len(f)) if f[k] > 1),
                key=lambda k: (fractions.Fraction(counts[k], 2 * f[k] - 1), k))
        f[k] -= 1
    while sum(f) < whole:
        k = min((k for k in range(len(f)) if f[k]),
                key=lambda k: (-fractions.Fraction(counts[k], 2 * f[k] + 1), k))
        f[k] += 1
    return f


def rans_head(f, precision):
    m = len(f)
    if precision == 8:
        return "000" + format(m - 1, "04b") + "".join(format(x, "08b") for x in f[:-1])
    return "001" + format(m - 1, "07b") + "".join(delta(x + 1) for x in f[:-1])


def rans_cost(counts, f, precision):
    """Expected bits, costs rounded to 2^-16."""
    cost = sum(c * (precision * 65536 - math.floor(math.log2(x) * 65536 + 0.5))
               for c, x in zip(counts, f) if c)
    return cost // 65536 + len(rans_head(f, precision))


def rans_container(indices, f, precision, bits):
    """The container up to the states' bytes, and how many of the bits its states hold."""
    m, d = len(f), len(indices)
    out, stream, lanes = rans_head(f, precision), [], 0
    if 2**precision not in f:
        lanes = min(32, d)
        held = (bits + [0] * 512)[:16 * lanes]
        states = [2**16 + sum(held[16 * i + j] << j for j in range(16)) for i in range(lanes)]
        start = [sum(f[:k]) for k in range(m)]
        for i in range(d - 1, -1, -1):
            k, x = indices[i], states[i % 32]
            # If a state would leave its range, its lower bytes are first written to the stream.
            while (x // f[k] << precision) + start[k] + x % f[k] >= 2**24:
                stream.append(x % 256)
                x //= 256
            states[i % 32] = (x // f[k] << precision) + start[k] + x % f[k]
        for x in states:
            out += format(24 - x.bit_length(), "03b") + bin(x)[3:]
    out += "0" * (-len(out) % 8)
    return out + "".join(format(x, "08b") for x in reversed(stream)), 16 * lanes


def rans(indices, v, n):
    d, m = len(indices), max(indices) + 1
    counts = [indices.count(k) for k in range(m)]
    precision, f = 8 if m <= 16 else 12, None
    if m <= 16:
        f, wide = rans_frequencies(counts, 8), rans_frequencies(counts, 12)
        if 256 not in f:
            lanes = min(32, d)
            signs = d - counts[0]
            rest = signs + 19 * lanes - min(signs, 16 * lanes)
            bits = rans_cost(counts, wide, 12) + rest
            if bits + bits // 256 < rans_cost(counts, f, 8) + rest:
                precision = 12
    signs = [int(x < 0) for k, x in zip(indices, v) if k > 0]
    out, held = rans_container(indices, rans_frequencies(counts, precision), precision, signs)
    left = signs[held:]
    left += [0] * (-len(left) % 8)
    return out + "".join(str(left[i + 7 - i % 8 - i % 8]) for i in range(len(left)))


def body(case, v, indices):
    n = 2 ** (case["bits"] - 1) - 1
    if case["coding"] == "fixed":
        return packed([k | (k > 0 and x < 0) << (case["bits"] - 1) for k, x in zip(indices, v)],
                      case["bits"])
    writers = {"elias": (sparse, dense), "huffman": (huffman,), "rans": (),
               "automatic": (sparse, dense, huffman)}[case["coding"]]
    best = min((w(indices, v, n) for w in writers), key=len, default=None)
    if best is not None:
        best += "0" * (-len(best) % 8)
    if case["coding"] in ("rans", "automatic"):
        other = rans(indices, v, n)
        if best is None or len(other) < len(best):
            best = other
    return bytes(int(best[i:i + 8], 2) for i in range(0, len(best), 8))


def payload(case, values):
    levels, size, out = levels_of(case), case["bucket_size"], b""
    uniform = case["codec"] in ("qsgd", "qsgd-v")
    for start in range(0, len(values), size):
        v = values[start:start + size]
        norm = bucket_norm(v, case["norm"])
        out += struct.pack("<f", norm)
        if math.isinf(norm):
            out += struct.pack(f"<{len(v)}f", *v)
        elif norm > 0:
            first = case["first_index"] + start
            out += body(case, v, indices_of(v, norm, levels, uniform, first))
    return out


def inputs():
    count = range(45)
    mixed = [((i * 37) % 101 - 50) / 16 * (2 if i % 3 == 0 else 0.25) if i % 7 else 0.0
             for i in count]
    peak = [(40 if i % 11 == 4 else 0.5) * (1 if i % 2 == 0 else -1) for i in count]
    special = [0.0 if 16 <= i < 32 else mixed[i] if i < 16 else f32(3e38) for i in count]
    special[20] = -0.0  # in a bucket of zeros; the last bucket's norm is above the largest float
    # Sums of hashed bytes: nearly Gaussian; the second is sparse.
    noise = [sum((i * 2654435761 + k * 40503 >> k) % 251 - 125 for k in (3, 7, 11, 13)) / 128
             for i in range(1100)]
    spikes = [x * (24 if i % 61 == 7 else 0.01) for i, x in enumerate(noise)]
    long = [((i * 733) % 1999 - 999) / 512 for i in range(530)]  # whole blocks and a remainder
    return {"mixed": mixed, "peak": peak, "special": special, "long": long, "noise": noise,
            "spikes": spikes}


def cases():
    fixed = [dict(codec="qsgd", bits=b, norm="l2", coding="fixed") for b in (2, 3, 4, 5, 8)]
    fixed += [dict(codec="qsgd-v", bits=b, norm="max", coding="fixed") for b in (4, 6)]
    elastic = [dict(codec="elastiquant", bits=b, norm=q, coding="fixed", levels="sinh",
                    elasticity=e)
               for b, q, e in ((4, "l2", 0.75), (4, "max", 0.5), (7, "l2", 0.0625), (8, "l2", 0.0625))]
    elastic += [dict(codec="elastiquant", bits=4, norm="l2", coding="fixed", levels="exponential",
                     elasticity=0.5)]
    entropy = [dict(codec="e-elastiquant", bits=b, norm="l2", coding=c, levels="sinh", elasticity=e)
               for c in ("elias", "huffman", "automatic") for b, e in ((3, 0.5), (4, 0.25), (8, 0.0625))]
    entropy += [dict(codec="qsgd", bits=4, norm="l2", coding="elias")]
    entropy += [dict(codec="e-elastiquant", bits=b, norm="l2", coding="rans", levels="sinh",
                     elasticity=e)
                for b, e in ((2, 0.5), (3, 0.5), (4, 0.25), (5, 0.25), (6, 0.125), (8, 0.0625))]
    for case in fixed + elastic + entropy:
        for name, values in inputs().items():
            long_for = ("fixed",) if name == "long" else ("rans", "automatic")
            if len(values) > 45 and case["coding"] not in long_for:
                continue
            first = 2**32 - 20 if name == "peak" else 3
            size = 16 if len(values) == 45 else 520
            full = dict(case, bucket_size=size, first_index=first, input=name)
            yield dict(full, payload=payload(full, values).hex())


def main():
    lines = [json.dumps(c) for c in cases()]
    text = ('{"format_version": 2,\n "key": ' + json.dumps(KEY) + ',\n "inputs": '
            + json.dumps(inputs()) + ',\n "cases": [\n  ' + ",\n  ".join(lines) + "\n ]}\n")
    (pathlib.Path(__file__).parent / "levels.json").write_text(text)


if __name__ == "__main__":
    main()
