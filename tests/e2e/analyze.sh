#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The verb analyze: every question has text and JSON output, known values are reproduced, and
# questions outside a theorem's conditions are refused with the condition.
# CTest gives it the program without LibTorch, which starts faster: theory computes nothing with networks. What it
# measures of them is measured with LibTorch.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

mkdir -p "$WORK/bin"  # a PATH without gnuplot

program analyze worst-case --bits 4 --bucket 8192 --json
expect_code 0 "analyze worst-case"
python3 - "$OUT" <<'PY' || wrong "analyze worst-case: not the known worst cases"
import json, math, sys
[row] = [json.loads(line) for line in open(sys.argv[1])]
near = lambda a, b: abs(a - b) < 1e-6 * b
# QSGD: phi(sqrt(8192) / 7) = sqrt(8192) / 7 - 1; QSGD-V: its closed form; the rest: reference values.
assert near(row["qsgd"], math.sqrt(8192) / 7 - 1), row
assert near(row["qsgd_v"], (math.sqrt(1 + 8191 / 49) - 1) / 2), row
assert near(row["elastiquant_l2"], 0.23442181), row
assert near(row["elastiquant_max"], 0.14433844), row
assert near(row["nuqsgd"], 0.5693706), row
assert near(row["exponential"], 0.2502754), row
PY

program analyze levels --compressor nuqsgd --compressor elastiquant --bucket 512 --json
expect_code 0 "analyze levels"
python3 - "$OUT" <<'PY' || wrong "analyze levels: not a table, or its worst vector exceeds the bound"
import json, sys
nuqsgd, elastiquant = [json.loads(line) for line in open(sys.argv[1])]
assert nuqsgd["levels"] == [0] + [2.0 ** (j - 7) for j in range(1, 8)], nuqsgd
assert nuqsgd["ratio"] == 2
for row in (nuqsgd, elastiquant):
    worst = row["adversary"]
    assert 0.95 * row["worst_case"] < worst["reaches"] <= row["worst_case"] * (1 + 1e-6), row
    assert abs(worst["measured"] - worst["reaches"]) < 5 * worst["measured_standard_error"] + 1e-6, row
    assert row["worst_case"] <= row["theorem2"]
PY

program analyze variance --source laplace --values 20000 --json
expect_code 0 "analyze variance"
python3 - "$OUT" <<'PY' || wrong "analyze variance: exact, measured and bounds are out of order"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert {"qsgd", "nuqsgd", "elastiquant", "natural"} <= {row["compressor"] for row in rows}
for row in rows:
    assert row["exact"] <= row["worst_case"] <= row["theorem2"], row
    assert abs(row["measured"] - row["exact"]) < 5 * row["measured_standard_error"] + 1e-6, row
PY

# A gradient file of NumPy is one tensor; with a layout, small tensors are sent exactly.
if python3 -c 'import numpy' 2>/dev/null; then
  python3 - "$WORK" <<'PY'
import json, numpy, sys
random = numpy.random.default_rng(1)
values = random.standard_normal(5000).astype("<f4")
numpy.save(sys.argv[1] + "/plain.npy", values)
numpy.save(sys.argv[1] + "/tensors.npy", values)
json.dump({"step": 3, "rank": 0, "tensors": [
    {"name": "a", "offset": 0, "count": 4096, "shape": [64, 64]},
    {"name": "b", "offset": 4096, "count": 904, "shape": [904]}]}, open(sys.argv[1] + "/tensors.json", "w"))
PY
  program analyze variance --compressor elastiquant --gradient plain.npy --json
  expect_code 0 "analyze variance of a file"
  expect_equal 5000 "$(value "$OUT" compressed_values)" "values compressed without a layout"
  program analyze variance --compressor elastiquant --gradient tensors.npy --by-tensor --json
  expect_code 0 "analyze variance by tensor"
  python3 - "$OUT" <<'PY' || wrong "analyze variance: tensors are not treated as training treats them"
import json, sys
a, b = [json.loads(line) for line in open(sys.argv[1])]
assert (a["tensor"], a["compressed_values"]) == ("a", 4096) and a["exact"] > 0, a
assert (b["tensor"], b["compressed_values"]) == ("b", 0) and b["exact"] == b["measured"] == 0, b
PY
  program analyze bits --compressor e-elastiquant --gradient tensors.npy --json
  expect_code 0 "analyze bits of a file"
  expect_equal 4096 "$(value "$OUT" values)" "values that bits are counted of"
  printf 'no array' >"$WORK/bad.npy"
  program analyze variance --gradient bad.npy
  expect_failure 3 'NumPy' "a gradient file that is none"
fi

# Shannon's bound knows no unit of the values, and no error of none: PowerSGD sends vectors as float32.
python3 - "$WORK" <<'PY'
import random, struct, sys
def save(name, values):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % len(values)
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    with open(f"{sys.argv[1]}/{name}.npy", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        file.write(struct.pack(f"<{len(values)}f", *values))
random.seed(1)
values = [random.gauss(0, 1) for _ in range(5000)]
save("normal", values)
save("small", [2.0 ** -100 * v for v in values])
save("zeros", [0.0] * 4096)
save("ones", [1.0] * 4096)
PY
for file in normal small; do
  program analyze rates --gradient $file.npy --draws 2 --json
  expect_code 0 "analyze rates of $file.npy"
  cp "$OUT" "$WORK/$file.rates"
done
python3 - "$WORK" <<'PY' || wrong "analyze rates: a bound of no error, or one that depends on the unit"
import json, sys
normal, small = ([json.loads(line) for line in open(f"{sys.argv[1]}/{name}.rates")] for name in ("normal", "small"))
for row in normal + small:
    assert (row["bound_bits"] is None) == (row["above_bound"] is None) == (row["error"] == 0), row
assert any(row["compressor"] == "powersgd" and row["error"] == 0 for row in normal), normal
find = lambda rows: next(row for row in rows if row["compressor"] == "elastiquant" and row["setting"] == "bits 4")
assert abs(find(normal)["bound_bits"] - find(small)["bound_bits"]) < 0.05, (find(normal), find(small))
PY
# Other compressors send these exactly, and nothing is a multiple of no error.
for file in zeros ones; do
  program analyze rates --gradient $file.npy --draws 1
  expect_code 0 "analyze rates of $file.npy"
  expect_equal 7 "$(grep -cE '^e-elastiquant +rate .* -$' "$OUT")" "rates without error/its, of $file.npy"
done

program analyze bits --compressor qsgd --compressor e-elastiquant --values 20000 --json
expect_code 0 "analyze bits"
python3 - "$OUT" <<'PY' || wrong "analyze bits: lengths are out of order"
import json, sys
for line in open(sys.argv[1]):
    row = json.loads(line)
    expected = row["expected"]
    assert expected["entropy"] <= expected["huffman"] <= expected["theorem3"], row
    for coder in row["coders"]:
        if coder["bound"] is not None:
            assert coder["measured"] <= coder["bound"] + 1e-9, coder
        assert coder["measured"] >= 0.97 * expected["entropy"], coder
PY

program analyze energy --paper --json
expect_code 0 "analyze energy --paper"
python3 - "$OUT" <<'PY' || wrong "analyze energy --paper: an energy of the table is not reproduced"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert len(rows) == 12 and all(row["reproduced"] for row in rows), rows
PY
program analyze memory --paper --json
expect_code 0 "analyze memory --paper"
python3 - "$OUT" <<'PY' || wrong "analyze memory --paper: not 20 of 24 figures"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert sum(row["reproduced_float32"] + row["reproduced_int8"] for row in rows) == 20, rows
PY
for verb in energy memory; do
  usual program analyze $verb --measured --json
  expect_code 0 "analyze $verb --measured"
  python3 - "$OUT" <<'PY' || wrong "analyze $verb --measured: not a row of plausible figures for each precision"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert {row["precision"] for row in rows} == {"fp32", "bf16", "int8"}, rows
for row in rows:
    figure, found = ("step", "measured") if "measured" in row else ("energy", "counted")
    assert 0.1 < row[found][figure] / row["modelled"][figure] < 3, row
PY
done
for question in energy memory "energy --measured" "memory --measured" "variance --values 2000"; do
  # shellcheck disable=SC2086
  program analyze $question
  expect_code 0 "analyze $question"
  [[ $(wc -l <"$OUT") -ge 3 && $(wc -L <"$OUT") -le 130 ]] || wrong "analyze $question: no table"
done

loss=(--smoothness 1 --excess 1 --second-moment 2 --target 0.01)
problem=("${loss[@]}" --noise 1 --ranks 8)
program analyze convergence nonconvex "${problem[@]}" --compressor none --json
expect_code 0 "analyze convergence"
python3 - "$OUT" <<'PY' || wrong "analyze convergence: not the steps of 2 L D / T + 2 sqrt(2 L D s / T) = target"
import json, math, sys
row = json.load(open(sys.argv[1]))
bound = lambda t: 2 / t + 2 * math.sqrt(2 * (1 / 8) / t)
assert bound(row["steps"]) <= 0.01 < bound(row["steps"] - 1), row
PY
program analyze convergence error-feedback "${problem[@]}" --compressor e-elastiquant --error 0.25 --json
expect_code 0 "analyze convergence error-feedback"
python3 - "$OUT" <<'PY' || wrong "analyze convergence error-feedback: not the steps of its bound"
import json, sys
row = json.load(open(sys.argv[1]))
memory = 4 * 0.25 * 2 / 0.75 ** 2
of_step = lambda t, h: (2 / (h * t) + h / 8 + h * h * memory) / (1 - h)
bound = lambda t: min(of_step(t, 0.5 * 0.999 ** k) for k in range(20000))
assert bound(row["steps"]) <= 0.01 * 1.0001 and bound(row["steps"] - 1) > 0.01 * 0.9999, row
PY
program analyze convergence decentralised "${problem[@]}" --bits 8
expect_code 0 "analyze convergence decentralised"

# Outside a theorem's conditions: exit code 2, and the error names the condition.
refused() {
  local words=$1
  shift
  program analyze convergence "$@"
  expect_failure 2 "$words" "analyze convergence $*"
}
refused 'smoothness' nonconvex --target 0.1
refused 'target' nonconvex --smoothness 1 --excess 1
refused 'radius' convex --smoothness 1 --target 0.1
refused 'B >= sigma' nonconvex "${loss[@]}" --noise 3
refused 'momentum < 1' momentum "${problem[@]}" --momentum 1
refused 'unbiased' nonconvex "${problem[@]}" --compressor topk
refused 'measured with --error' error-feedback "${problem[@]}" --compressor powersgd
refused 'only with error-feedback' nonconvex "${problem[@]}" --error 0.5
refused 'second moment' nonconvex --smoothness 1 --excess 1 --target 0.1 --compressor qsgd
refused 'at most \(1 - rho\)' decentralised "${problem[@]}" --compressor elastiquant --bits 4
refused 'same in every step' decentralised "${problem[@]}" --topology one-peer-exponential
refused 'at least 2 ranks' decentralised "${loss[@]}"
refused 'gradient-bound' convex-momentum "${problem[@]}" --radius 1

program analyze bits --compressor topk
expect_failure 2 'rounds to levels' "analyze bits of a codec without levels"
program analyze levels --bits 9
expect_failure 2 'bits' "analyze levels of 9 bits"
program analyze variance --by-tensor
expect_failure 2 'by-tensor' "drawn values by tensor"
# Levels that a run chooses: said with the key and what to try, or which ones stand for them.
for verb in bits levels; do
  program analyze $verb --compressor e-elastiquant --set compressor.bits=auto
  expect_failure 2 'compressor.bits "auto".*each tensor; try --set compressor.bits=4' "analyze $verb of open bits"
  program analyze $verb --compressor elastiquant --set compressor.elasticity=measured
  expect_failure 2 'compressor.elasticity "measured".*try --set compressor.elasticity=auto' "analyze $verb of open elasticity"
  program analyze $verb --compressor auto
  expect_failure 2 'compressor.name "auto".*try --compressor e-elastiquant' "analyze $verb of auto"
done
program analyze variance --values 2000 --compressor e-elastiquant --set compressor.bits=auto
expect_code 0 "analyze variance of open bits"
grep -q 'begins with, e-elastiquant:4@1' "$OUT" || wrong "analyze variance of open bits: which are they?"
mkfifo "$WORK/pipe.svg"
program analyze worst-case --bits 4 --plot "$WORK/pipe.svg"
expect_failure 74 'found a pipe' "analyze --plot into a pipe"
[[ -p $WORK/pipe.svg ]] || wrong "analyze --plot took the place of a pipe"
program analyze worst-case --plot picture.pdf
expect_failure 2 'svg' "a plot that nobody can draw"

# Without gnuplot: the table, then the error.
run env PATH="$WORK/bin" "$EQT_PROGRAM" analyze worst-case --bits 4 --plot picture.svg
expect_failure 74 'gnuplot-nox' "a plot without gnuplot"
grep -q 'ElastiQuant' "$OUT" || wrong "a plot without gnuplot: expected the table, found none"
if command -v gnuplot >/dev/null; then
  for question in levels "bits --values 2000" worst-case topology "convergence nonconvex ${problem[*]}"; do
    # shellcheck disable=SC2086
    program analyze $question --plot picture.svg
    expect_code 0 "analyze $question --plot"
    grep -q '<svg' picture.svg || wrong "analyze $question --plot: expected a drawing, found none"
    rm -f picture.svg
  done
fi
finish
