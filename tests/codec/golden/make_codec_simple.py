# SPDX-License-Identifier: Apache-2.0
"""Writes codec_simple.json: payloads of int8, int8-channels, natural and the sign codecs, from FORMAT.md alone.

An implementation in another language, so that the frozen bytes are known independently of the C++
code; exact fractions wherever a rounding decides. Run it in this folder after a change of a payload:
python3 make_codec_simple.py
"""
import json
import math
import struct
from fractions import Fraction

from random_words import stream_of, word

KEY = {"run_seed": 42, "step": 7, "rank": 3, "slice": 9}


def f32_bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def f32_from_bits(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def f32(x):
    """The nearest float32 of an exact fraction at least 0, ties to even."""
    x = Fraction(x)
    bits = f32_bits(float(x))  # within a unit of the last place of the right one
    around = [b for b in (bits - 1, bits, bits + 1) if 0 <= b <= 0x7F7FFFFF]
    best = min(around, key=lambda b: (abs(Fraction(f32_from_bits(b)) - x), b & 1))
    return f32_from_bits(best)


def f32_up(x):
    """The least float32 that is at least the exact fraction x."""
    near = f32(x)
    return near if Fraction(near) >= x else f32_from_bits(f32_bits(near) + 1)


def signed_f32(x):
    return math.copysign(f32(abs(x)), x)


def int8(values, bucket_size):
    out = b""
    largest_step = Fraction(8454659 * 2**98)
    for begin in range(0, len(values), bucket_size):
        bucket = values[begin:begin + bucket_size]
        largest = max(Fraction(abs(v)) for v in bucket)
        # The double quotient lies on the same side of every float32 as the exact one, or on it.
        step = f32_up(Fraction(float(largest) / 127))
        step = float(min(Fraction(step), largest_step))
        out += struct.pack("<f", step)
        for v in bucket:
            q = 0
            if step >= 2.0**-126:
                q = round(Fraction(signed_f32(Fraction(v) * Fraction(f32(1 / Fraction(step))))))
            elif step > 0:
                q = round(Fraction(signed_f32(Fraction(v) / Fraction(step))))
            out += struct.pack("<b", q)
    return out


def int8_channels(values, rows):
    rows = rows if rows and len(values) // rows >= 8 else 1
    return struct.pack("<I", rows) + int8(values, len(values) // rows)


def natural(values, first_index):
    exponents, signs = b"", bytearray((len(values) + 7) // 8)
    for i, v in enumerate(values):
        bits = f32_bits(v)
        exponent = ((bits & 0x7FFFFFFF) + (word(stream_of(KEY, first_index + i >> 32), first_index + i) >> 9)) >> 23
        exponents += bytes([exponent])
        if bits >> 31 and exponent:
            signs[i // 8] |= 1 << i % 8
    return exponents + bytes(signs)


def plane(values):
    bits = bytearray((len(values) + 7) // 8)
    for i, v in enumerate(values):
        if v < 0:
            bits[i // 8] |= 1 << i % 8
    return bytes(bits)


def sixteen_sums(values):
    sums = [0.0] * 16
    for i, v in enumerate(values):
        sums[i % 16] += v
    for width in (8, 4, 2, 1):
        for k in range(width):
            sums[k] += sums[k + width]
    return sums[0]


def ef_signsgd(values):
    return struct.pack("<f", sixteen_sums([abs(v) for v in values]) / len(values)) + plane(values)


def onebit(values, rows):
    columns = len(values) // rows if rows else 0
    if columns < 8:
        rows, columns = 1, len(values)
    out = struct.pack("<I", rows)
    for r in range(rows):
        row = values[r * columns:(r + 1) * columns]
        negatives = sum(v < 0 for v in row)
        for count, side in ((negatives, [min(v, 0.0) for v in row]),
                            (columns - negatives, [max(v, 0.0) for v in row])):
            out += struct.pack("<f", sixteen_sums(side) / count if count else 0.0)
    return out + plane(values)


LARGEST = (2 - 2.0**-23) * 2.0**127
INPUTS = {
    "v8": [0.5, -1.25, 0.0, 2.0, -0.03125, 0.75, -3.0, 0.125],
    "one": [-0.7],
    "zeros": [0.0, -0.0, 0.0, -0.0, 0.0],
    "tiny": [2.0**-149 * k for k in (1, -1, 5, -130, 300, -2**23, 2**22, 77, -3)],
    "large": [2.0**127, -(2.0**126) * 1.5, 1e37, -1.0, 1e-30],
    "largest": [LARGEST, -LARGEST, LARGEST / 2, -1.0],
    "sines": [math.sin(1.7 * i) * 2.0 ** (i % 7 - 16) for i in range(67)],
    "matrix": [math.cos(2.3 * i) * (1 + i // 9) for i in range(54)],
}


def main():
    cases = []

    def row(codec, payload, **options):
        cases.append({"codec": codec, "format_version": 1, "input": name, **options,
                      "payload": payload.hex()})

    for name, values in INPUTS.items():
        values = [signed_f32(v) for v in values]
        for bucket_size in (5, 512) if len(values) > 5 else (512,):
            row("int8", int8(values, bucket_size), bucket_size=bucket_size)
        row("signsgd", plane(values))
        row("ef-signsgd", ef_signsgd(values))
        if name != "largest":
            row("natural", natural(values, 2**32 - 21), first_index=2**32 - 21)
    for name, rows in (("matrix", 0), ("matrix", 6), ("matrix", 9), ("sines", 1), ("zeros", 0)):
        values = [signed_f32(v) for v in INPUTS[name]]
        row("onebit", onebit(values, rows), rows=rows)
        row("int8-channels", int8_channels(values, rows), rows=rows)
    inputs = {name: [struct.pack(">f", signed_f32(v)).hex() for v in values]
              for name, values in INPUTS.items()}
    with open("codec_simple.json", "w") as file:
        head = json.dumps({"key": KEY, "inputs": inputs})[:-1]
        rows = ",\n  ".join(json.dumps(case) for case in cases)
        file.write(head + ', "cases": [\n  ' + rows + "\n]}\n")
    print(len(cases), "cases")


main()
