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


def code_halves(values):
    largest = max((abs(v) for v in values), default=0)
    exponent = math.frexp(largest)[1] - 15 if largest else 0
    out = struct.pack("<h", exponent)
    for v in values:
        scaled = math.ldexp(v, -exponent)
        # Nearest half, ties to even, but at most the last one below 2^15.
        half = min(max(struct.unpack("<e", struct.pack("<e", scaled))[0], -32752.0), 32752.0)
        out += struct.pack("<e", half)
    return out


def read_halves(data):
    exponent = struct.unpack_from("<h", data)[0]
    halves = struct.unpack_from(f"<{len(data) // 2 - 1}e", data, 2)
    return [f32(math.ldexp(half, exponent)) for half in halves]


def spread(smallest, largest, count):
    """Magnitudes whose square roots are evenly spaced."""
    first, last = math.sqrt(smallest), math.sqrt(largest)
    roots = [first + (last - first) * (j / (count - 1)) for j in range(count)]
    return [root * root for root in roots]


def centroids(values, count):
    """The means of the division of 257 bins that has the least squared error."""
    def bits(v):
        return struct.unpack("<I", struct.pack("<f", abs(v)))[0]

    magnitudes = [abs(v) for v in values]
    largest = bits(max(magnitudes))
    lowest = max(bits(min(magnitudes)), largest - (16 << 23))
    shift = max((largest - lowest).bit_length() - 8, 0)
    bins = {}
    for v in magnitudes:
        key = 0 if bits(v) < lowest else 1 + ((bits(v) - lowest) >> shift)
        total, number = bins.get(key, (0.0, 0.0))
        bins[key] = (total + v, number + 1)
    bins = [bins[key] for key in sorted(bins)]
    sums, numbers = [0.0], [0.0]
    for total, number in bins:
        sums.append(sums[-1] + total)
        numbers.append(numbers[-1] + number)

    def gain(begin, end):
        difference = sums[end] - sums[begin]
        return difference * difference / (numbers[end] - numbers[begin])

    # best[end] is a gain and the beginnings of all ranges but the first.
    ends = range(1, len(bins) + 1)
    best = {end: (gain(0, end), []) for end in ends}
    ranges = min(count, len(bins))
    for more in range(1, ranges):
        longer = {}
        for end in ends[more:]:
            tried = [(best[i][0] + gain(i, end), i) for i in range(more, end)]
            top = max(found for found, _ in tried)
            begin = next(i for found, i in tried if found == top)
            longer[end] = (top, best[begin][1] + [begin])
        best = longer
    bounds = [0] + best[len(bins)][1] + [len(bins)]
    points = []
    for begin, end in zip(bounds, bounds[1:]):
        total, number = 0.0, 0.0
        for bin_total, bin_number in bins[begin:end]:
            total += bin_total
            number += bin_number
        points.append(max([f32(total / number)] + points[-1:]))
    return points + points[-1:] * (count - ranges)


def code_few(values, bits, between):
    """Values as a sign and the index of a magnitude."""
    count = 1 << (bits - 1)
    if between:
        ends = [min(abs(v) for v in values), max(abs(v) for v in values)]
        head = code_halves(ends)
        points = spread(*read_halves(head), count)
        magnitudes = read_halves(code_halves([f32(p) for p in points]))
    else:
        head = code_halves(centroids(values, count))
        magnitudes = read_halves(head)
    fields = []
    for v in values:
        index = sum(abs(v) > (a + b) / 2 for a, b in zip(magnitudes, magnitudes[1:]))
        sign = int(math.copysign(1, v) < 0)
        fields += [(index | sign << (bits - 1)) >> j & 1 for j in range(bits)]
    return head + pack_bits(fields)


def code_values(values, bits):
    """The form's byte and the values, in the shortest of the forms that `bits` allows."""
    floats = (32, struct.pack(f"<{len(values)}f", *values))
    halves = (16, code_halves(values))
    if bits == 32:
        return floats
    if bits == 16:
        return halves
    if not values:
        return floats
    count = 1 << (bits - 1)
    between = bits > 4 or (bits > 2 and len(values) < 64 * count)
    few = (bits | (0x40 if between else 0), code_few(values, bits, between))
    return min([floats, halves, few], key=lambda form: len(form[1]))


def code_count(k):
    out = b""
    while k >= 128:
        out += bytes([k % 128 + 128])
        k //= 128
    return out + bytes([k])


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
    form, coded_values = code_values([values[i] for i in indices], bits)
    return (code_count(k) + bytes([rice, form]) + pack_bits(remainders) + coded_values +
            pack_bits(quotients))


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
    form, coded_values = code_values(sent, bits)
    return struct.pack("<IBQI", k, form, key, check) + coded_values


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

        for bits in (32, 16, 1, 2, 3, 8):
            for density in (0.02, 0.25, 0.7, 1.0):
                row("topk", 3, topk(values, density, bits), density=density, value_bits=bits)
            row("dgc", 3, topk(values, 0.01, bits), density=0.01, value_bits=bits)
            for tau in (0.0015, 0.3):
                row("threshold", 2, threshold(values, tau, bits), threshold=tau, value_bits=bits)
            for unbiased in (False, True):
                if unbiased and (name == "wide" or bits <= 8):
                    continue
                row("randomk", 2, randomk(values, 0.25, bits, unbiased, 3), density=0.25,
                    value_bits=bits, unbiased=unbiased, first_index=3)
    words = {name: [struct.pack(">f", v).hex() for v in values] for name, values in named.items()}
    with open("codec_sparse.json", "w") as file:
        head = json.dumps({"key": KEY, "inputs": words})[:-1]
        rows = ",\n  ".join(json.dumps(case) for case in cases)
        file.write(head + ', "cases": [\n  ' + rows + "\n]}\n")
    print(len(cases), "cases")


main()
