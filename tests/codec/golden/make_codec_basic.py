# SPDX-License-Identifier: Apache-2.0
"""Writes codec_basic.json: payloads of the basic codecs, computed from FORMAT.md alone.

An implementation in another language, so that the frozen bytes are known independently of the C++
code. Run it in this folder after a change of a payload: python3 make_codec_basic.py
"""
import json
import math
import struct

from random_words import stream_of, word

KEY = {"run_seed": 42, "step": 7, "rank": 3, "slice": 9}


def f32(x):
    """The nearest float32, as a Python float; right for the quotient of two float32, too."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def uniform(key, index):
    return (word(stream_of(key, index >> 32), index) >> 8) / 2**24


def none(values):
    return struct.pack(f"<{len(values)}f", *values)


def fp16(values):
    return struct.pack(f"<{len(values)}e", *values)


def bf16(values):
    out = b""
    for v in values:
        bits = struct.unpack("<I", struct.pack("<f", v))[0]
        low, high = bits & 0xFFFF, bits >> 16
        up = low > 0x8000 or (low == 0x8000 and high & 1)
        out += struct.pack("<H", high + up)
    return out


def terngrad(values, clip, first_index, shared):
    mean = math.fsum(values) / len(values)
    sigma = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values))
    own = max(abs(v) for v in values)
    if clip > 0 and sigma > 0:
        own = min(own, f32(clip * sigma))
    scale = own if shared is None else shared
    codes = bytearray((len(values) + 3) // 4)
    for i, v in enumerate(values):
        probability = f32(min(abs(v), own) / scale) if scale else 0
        if uniform(KEY, first_index + i) < probability:
            codes[i // 4] |= (1 if v > 0 else 2) << 2 * (i % 4)
    return struct.pack("<f", scale) + bytes(codes)


INPUTS = {
    "v8": [0.5, -1.25, 0.0, 2.0, -0.03125, 0.75, -3.0, 0.125],
    "w16": [0.01, -0.02, 0.03, 0.0, -0.01, 0.02, 0.015, -0.005, 0.012, -0.018, 0.02, 0.004, -0.011,
            0.007, 0.5, -0.006],
    "one": [-0.7],
    "zeros": [0.0] * 5,
    "sines": [math.sin(1.7 * i) * 2.0 ** (i % 7 - 16) for i in range(67)],
}


def main():
    cases = []

    def row(codec, payload, **options):
        cases.append({"codec": codec, "format_version": 1, "input": name, **options,
                      "payload": payload.hex()})

    for name, values in INPUTS.items():
        values = [f32(v) for v in values]
        row("none", none(values))
        row("fp16", fp16(values))
        row("bf16", bf16(values))
        row("terngrad", terngrad(values, 0, 0, None), clip=0)
        row("terngrad", terngrad(values, 2.5, 0, None), clip=2.5)
        row("terngrad", terngrad(values, 2.5, 2**32 - 21, 8), clip=2.5,
            first_index=2**32 - 21, shared=8)
    inputs = {name: [struct.pack(">f", v).hex() for v in values] for name, values in INPUTS.items()}
    with open("codec_basic.json", "w") as file:
        head = json.dumps({"key": KEY, "inputs": inputs})[:-1]
        rows = ",\n  ".join(json.dumps(case) for case in cases)
        file.write(head + ', "cases": [\n  ' + rows + "\n]}\n")


if __name__ == "__main__":
    main()
