#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes lossless.json: payloads of lossless coding, computed from src/codecs/codec/FORMAT.md alone.

A second, simple implementation of the format. Run it in this folder only when a format version changes.
"""
import json
import math
import random
import struct

from make_codec_basic import KEY, bf16
from make_levels import f32, rans_container, rans_frequencies

BLOCK = 8192


def words_of(values, codec):
    """The bits of the numbers, and how many bits each has."""
    if codec == "none":
        return list(struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))), 32
    return list(struct.unpack(f"<{len(values)}H", bf16(values))), 16


def run_of_exponents(exponents, d, most):
    """The largest exponent of the run, and its length."""
    def within(top):
        return sum(top - most < e <= top for e in exponents)
    top = max(range(255), key=lambda t: (within(t), t))
    width = min(most, top + 1)

    def rare(e):
        return exponents.count(e) * 1024 < d
    while width and rare(top):
        top, width = top - 1, width - 1
    while width and rare(top + 1 - width):
        width -= 1
    return (top, width) if width else (0, 0)


def coded(words, bits):
    d = len(words)
    rotated = [w << 1 & (1 << bits) - 1 | w >> bits - 1 for w in words]
    exponents = [r >> bits - 8 for r in rotated]
    first = int(words.count(0) * 256 >= d)
    kept = [i for i in range(d) if not first or words[i]]
    top, width = run_of_exponents([exponents[i] for i in kept], d, 15 - first)
    codes, escapes = [0] * d, b""
    for i in kept:
        inside = top - width < exponents[i] <= top
        codes[i] = first + (top - exponents[i] if inside else width)
        if not inside:
            escapes += bytes([exponents[i]])
    counts = [codes.count(k) for k in range(max(codes) + 1)]
    upper = bytes(rotated[i] >> bits - 16 & 0xFF for i in kept)
    lower = b"" if bits == 16 else b"".join(struct.pack("<H", rotated[i] & 0xFFFF) for i in kept)
    hidden = [byte >> k & 1 for byte in upper[:64] for k in range(8)]
    container, held = rans_container(codes, rans_frequencies(counts, 8), 8, hidden)
    body = bytes(int(container[i:i + 8], 2) for i in range(0, len(container), 8))
    body = bytes([top, width]) + body + upper[held // 8:] + lower + escapes
    return struct.pack("<BH", 1 + first, len(body)) + body


def payload(values, codec):
    words, bits = words_of(values, codec)
    out = b""
    for start in range(0, len(words), BLOCK):
        block = words[start:start + BLOCK]
        plain = b"\0" + struct.pack(f"<{len(block)}{'I' if bits == 32 else 'H'}", *block)
        out += min(plain, coded(block, bits), key=len)  # the former of equals
    return out


def inputs():
    random.seed(5)
    normal = [random.gauss(0, 1e-3) for _ in range(700)]
    wide = [random.gauss(0, 1) * 2.0 ** random.choice([0] * 60 + [-60, -30, 30, 60]) for _ in range(900)]
    return {
        "normal": normal,
        "zeros": [0.0] * 40,
        "half": [v if random.random() < 0.5 else 0.0 for v in normal],
        "some": [v if random.random() > 0.01 else random.choice([0.0, -0.0, 1e-40, -1e-45]) for v in normal],
        "wide": wide,
        "scattered": [random.choice([-1, 1]) * 2.0 ** random.randrange(-126, 127) * random.uniform(1, 2)
                      for _ in range(60)],
        "one": [-0.7],
        "equal": [0.375] * 50,
        "small": [math.ldexp(k % 97 - 48, -149) for k in range(200)],
        "outlier": [1.5] + [0.0] * 99,
    }


def main():
    values = {name: [f32(v) for v in vs] for name, vs in inputs().items()}
    cases = [{"codec": codec, "format_version": 2, "input": name, "payload": payload(vs, codec).hex()}
             for name, vs in values.items() for codec in ("none", "bf16")]
    words = {name: [f"{w:08x}" for w in words_of(vs, "none")[0]] for name, vs in values.items()}
    with open("lossless.json", "w") as file:
        head = json.dumps({"key": KEY, "inputs": words})[:-1]
        file.write(head + ', "cases": [\n  ' + ",\n  ".join(json.dumps(c) for c in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
