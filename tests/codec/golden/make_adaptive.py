#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes adaptive.json: numbers and payloads of adapted, mu-law and general levels.

A second, simple implementation: distribution functions by math.erf and bisection, every closed form compared
with a sum over a fine grid. Payloads come from make_levels.py.
"""
import json
import math
import pathlib
import struct

import make_levels

ROOT_2 = math.sqrt(2)


def below(z):
    return 0.5 * math.erfc(-z / ROOT_2)


def bell(z):
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


class Mixture:
    """Normals (weight, mean, deviation), each truncated to [0, 1]."""

    def __init__(self, parts):
        total = sum(w for w, _, _ in parts)
        self.parts = [(w / total / (below((1 - m) / s) - below(-m / s)), m, s) for w, m, s in parts]

    def f(self, r):
        return sum(w * bell((r - m) / s) / s for w, m, s in self.parts)

    def F(self, r):
        return sum(w * (below((r - m) / s) - below(-m / s)) for w, m, s in self.parts)

    def moments(self, a, b):
        m0 = m1 = m2 = 0.0
        for w, m, s in self.parts:
            p, q = (a - m) / s, (b - m) / s
            k = below(q) - below(p)
            m0 += w * k
            m1 += w * (m * k - s * (bell(q) - bell(p)))
            m2 += w * ((m * m + s * s) * k - s * ((b + m) * bell(q) - (a + m) * bell(p)))
        return m0, m1, m2


def cell(mix, a, b):
    m0, m1, m2 = mix.moments(a, b)
    return -m2 + (a + b) * m1 - a * b * m0


def psi(mix, levels):
    value = sum(cell(mix, a, b) for a, b in zip(levels, levels[1:]))
    steps = 20000
    grid = [(i + 0.5) / steps for i in range(steps)]
    direct, j = 0.0, 0
    for r in grid:
        while r > levels[j + 1]:
            j += 1
        direct += (levels[j + 1] - r) * (r - levels[j]) * mix.f(r) / steps
    assert abs(direct - value) < 1e-3 * value, (direct, value)
    return value


def beta(mix, a, c):
    m0, m1, _ = mix.moments(a, c)
    want = mix.F(c) - (m1 - a * m0) / (c - a)
    low, high = a, c
    for _ in range(200):
        middle = (low + high) / 2
        if mix.F(middle) < want:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def sweep(mix, levels):
    for j in range(1, len(levels) - 1):
        levels[j] = beta(mix, levels[j - 1], levels[j + 1])


def slope(mix, a, b, c):
    m0, m1, _ = mix.moments(a, b)
    n0, n1, _ = mix.moments(b, c)
    return (m1 - a * m0) - (c * n0 - n1)


def gradient_sweep(mix, levels, rate):
    for j in range(1, len(levels) - 1):
        g = slope(mix, *levels[j - 1:j + 2])
        room = min(levels[j] - levels[j - 1], levels[j + 1] - levels[j])
        levels[j] -= math.copysign(min(rate * abs(g), room / 2), g)


def exponential(n, p):
    return [0.0] + [p ** (n - j) for j in range(1, n + 1)]


def best_p(mix, n):
    """Least psi of exponential levels: a grid, then ternary search."""
    plain = lambda p: sum(cell(mix, a, b) for a, b in zip(exponential(n, p), exponential(n, p)[1:]))
    grid = [0.02 + 0.001 * i for i in range(979)]
    middle = min(grid, key=plain)
    low, high = middle - 0.001, middle + 0.001
    for _ in range(60):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        if plain(a) < plain(b):
            high = b
        else:
            low = a
    p = (low + high) / 2
    step = 1e-6
    return p, plain(p), (plain(0.4 + step) - plain(0.4 - step)) / (2 * step)


def mixtures():
    for parts in ([[1, 0, 0.011]], [[1, 0, 0.3]], [[2, 0.1, 0.05], [1, 0, 0.2]],
                  [[1, 0, 0.004], [4, 0, 0.01], [2, 0, 0.05], [0.5, 0, 0.5]]):
        mix = Mixture(parts)
        swept, stepped = exponential(7, 0.5), exponential(7, 0.5)
        for _ in range(60):
            sweep(mix, swept)
        for _ in range(10):
            gradient_sweep(mix, stepped, 2)
        p, least, p_slope = best_p(mix, 3)
        yield {"parts": parts, "psi_exponential": psi(mix, exponential(7, 0.5)),
               "psi_uniform3": psi(mix, [0, 1 / 3, 2 / 3, 1]), "beta": beta(mix, 0.01, 0.2),
               "slope": slope(mix, 0.01, 0.05, 0.2), "swept": swept, "swept_psi": psi(mix, swept),
               "stepped": stepped, "best_p3": p, "best_p3_psi": least, "p3_slope_at_0.4": p_slope}


def statistics():
    """Magnitudes in bins of a quarter octave, each a normal around its mean."""
    values = make_levels.inputs()["mixed"] + [1e-3 * ((i * 29) % 17 - 8) for i in range(70)]
    values = [make_levels.f32(x) for x in values]
    for norm in ("l2", "max"):
        for size in (16, 40, 1000):
            weight, total, all_squares = {}, {}, 0.0
            for start in range(0, len(values), size):
                bucket = values[start:start + size]
                squares = sum(x * x for x in bucket)
                scale = math.sqrt(squares) if norm == "l2" else max(abs(x) for x in bucket)
                all_squares += squares
                for x in bucket:
                    if x == 0:
                        continue
                    r = abs(x) / scale
                    k = max(0, math.ceil(-4 * math.log2(r)) - 1)
                    weight[k] = weight.get(k, 0) + scale**2
                    total[k] = total.get(k, 0) + scale**2 * r
            kept = [k for k in weight if total[k] >= 1e-6 * sum(total.values())]
            parts = [[weight[k], total[k] / weight[k], 0.12 * total[k] / weight[k]] for k in kept]
            value = psi(Mixture(parts), exponential(3, 0.3))
            yield {"norm": norm, "bucket_size": size, "values": values,
                   "psi_exponential": value,
                   "relative": value * sum(weight[k] for k in kept) / all_squares}


def fingerprint(levels):
    value = 2166136261
    for byte in struct.pack(f"<{len(levels) - 1}f", *levels[1:]):
        value = (value ^ byte) * 16777619 % 2**32
    return value


def tables():
    yield "nuqsgd", 3, exponential(3, 0.5), {}
    yield "nuqsgd", 4, exponential(7, 0.5), {}
    for bits, mu in ((3, 15.0), (4, 255.0), (7, 0.001)):
        n = 2 ** (bits - 1) - 1
        levels = [math.expm1(math.log1p(mu) * j / n) / mu for j in range(n)] + [1.0]
        yield "mulaw", bits, levels, {"elasticity": mu}
    yield "general", 3, [0, 0.01, 0.3, 1], {}
    yield "general", 4, [0, 0.001, 0.0011, 0.05, 0.5, 0.9, 0.95, 1], {}
    yield "alq", 3, [0, 0.02, 0.125, 1], {}
    yield "alq", 4, [0, 0.002, 0.01, 0.04, 0.11, 0.2, 0.5, 1], {}
    yield "amq", 4, exponential(7, 0.4), {}
    yield "elastiquant", 3, [0, 0.02, 0.125, 1], {}


def payloads():
    for codec, bits, levels, extra in tables():
        for coding in ("fixed", "elias", "huffman", "automatic"):
            case = dict(codec=codec, bits=bits, norm="l2", coding=coding, bucket_size=16,
                        first_index=3, **extra)
            values = make_levels.inputs()["mixed"]
            keep, make_levels.levels_of = make_levels.levels_of, lambda _: levels
            body = make_levels.payload(case, values)
            make_levels.levels_of = keep
            mark = fingerprint(levels)
            adapts = codec in ("alq", "amq", "elastiquant")
            head = struct.pack("<I", mark) if adapts else b""
            yield dict(case, table=levels, fingerprint=mark, payload=(head + body).hex())


def main():
    parts = {"mixtures": list(mixtures()), "statistics": list(statistics()),
             "payloads": list(payloads())}
    text = ('{"key": ' + json.dumps(make_levels.KEY) + ',\n "values": '
            + json.dumps(make_levels.inputs()["mixed"]))
    for name, rows in parts.items():
        text += f',\n "{name}": [\n  ' + ",\n  ".join(json.dumps(r) for r in rows) + "\n ]"
    (pathlib.Path(__file__).parent / "adaptive.json").write_text(text + "}\n")


if __name__ == "__main__":
    main()
