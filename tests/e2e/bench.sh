#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench codecs: output and refusals.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

program bench codecs --values 16384 --json
expect_code 0 "bench codecs --json"
cp "$OUT" "$WORK/rows"
"$EQT_PROGRAM" list compressors --json >"$WORK/names"
python3 - "$WORK/rows" "$WORK/names" <<'PY' || wrong "bench codecs --json: see the exception"
import json, math, sys
rows = {row["compressor"]: row for row in map(json.loads, open(sys.argv[1]))}
assert list(rows) == [choice["name"] for choice in json.load(open(sys.argv[2]))], list(rows)
for name, row in rows.items():
    for key in "coding bits bucket_size values encode_gb_s decode_add_gb_s bits_per_value variance variance_bound read_gb_s".split():
        assert key in row, (name, key)
    for key in ("encode_gb_s", "decode_add_gb_s", "sum8_gb_s", "read_gb_s", "bits_per_value"):
        assert math.isfinite(row[key]) and row[key] > 0, (name, key, row[key])
    assert row["values"] == 16384 and row["variance"] >= 0, row
    assert row["variance_bound"] is None or row["variance_bound"] >= 0, row
assert rows["none"]["bits_per_value"] == 32 and rows["none"]["variance"] == 0
assert rows["none"]["bits"] is None and rows["none"]["bucket_size"] is None
assert rows["fp16"]["bits_per_value"] == 16
qsgd = rows["qsgd"]  # 32 buckets: 4 bits per value and a norm each
assert qsgd["bits_per_value"] == 4 + 32 / 512, qsgd
assert (qsgd["bits"], qsgd["bucket_size"], qsgd["coding"]) == (4, 512, "fixed"), qsgd
PY

program bench codecs --values 5120 --compressor qsgd --compressor elastiquant --json \
  --set compressor.bits=8 --set compressor.bucket_size=512
expect_code 0 "bench codecs with settings"
python3 - "$OUT" <<'PY' || wrong "bench codecs with settings: see the exception"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert [row["compressor"] for row in rows] == ["qsgd", "elastiquant"], rows
for row in rows:
    assert row["bits_per_value"] == 8 + 32 / 512 and row["variance"] <= row["variance_bound"], row
PY

# Bits that a run chooses: those that it begins with, which is said.
program bench codecs --values 4096 --compressor e-elastiquant --set compressor.bits=auto
expect_code 0 "bench codecs of open bits"
grep -q '^e-elastiquant: .*begins with, e-elastiquant:4@1' "$OUT" || wrong "bench codecs of open bits: which are they?"
program bench codecs --values 4096 --compressor e-elastiquant --compressor none --set compressor.bits=auto --json
expect_code 2 "bench codecs: open bits of none"
program bench codecs --values 4096 --compressor e-elastiquant --set compressor.bits=auto --json
python3 - "$OUT" <<'PY' || wrong "bench codecs --json of open bits: no note"
import json, sys
(row,) = [json.loads(line) for line in open(sys.argv[1])]
assert 'compressor.bits "auto"' in row["note"] and row["bits"] == 4, row
PY

program bench codecs --values 1000 --compressor none --compressor qsgd
expect_code 0 "bench codecs as a table"
grep -q '^qsgd ' "$OUT" || wrong "the table has no row qsgd"
[[ $(wc -L <"$OUT") -le 100 ]] || wrong "the table is wider than 100 columns"
program bench codecs --values 1 --compressor qsgd
expect_code 0 "bench codecs of one value"
# A random compressor may draw zeros alone, and often does where it sends few values.
program bench codecs --values 3 --compressor qsgd --set compressor.bits=2
expect_code 0 "bench codecs of three values of 2 bits"
for values in 100 5000; do
  program bench codecs --values $values --compressor atomo --set compressor.atoms=entrywise --set compressor.density=0.0001
  expect_code 0 "bench codecs of a part of a value, of $values values"
done

program bench
expect_failure 2 'codecs' "bench without a name"
program bench nothing
expect_failure 2 'codecs' "bench of an unknown name"
program bench codecs --compressor topkk
expect_failure 2 'nearest is "topk"' "an unknown compressor"
program bench codecs --values 0
expect_failure 2 'values' "no values"
program bench codecs --values many
expect_failure 2 'values' "a number that is none"
program bench codecs --set train.epochs=2
expect_failure 2 'section compressor' "a key of another section"
# Values of 16 bits are rounded, also where all are sent.
program bench codecs --values 4096 --compressor topk --set compressor.density=1 --set compressor.value_bits=16
expect_code 0 "all values in 16 bits"
program bench codecs --set compressor.name=topk
expect_failure 2 '\-\-compressor' "the name as a setting"
program bench codecs --compressor qsgd --set compressor.bits=9
expect_failure 2 'compressor\.bits' "a value out of range"
program bench codecs --compressor topk --set compressor.coding=elias
expect_failure 2 'compressor\.coding' "a setting that does not suit"

run "$EQT_ROOT/scripts/bench_codecs.sh" --values 5120 --compressor qsgd --compressor fp16 --out "$WORK/table.md"
expect_code 0 "bench_codecs.sh"
expect_equal 5 "$(grep -cE '^. .(qsgd|fp16).' "$WORK/table.md")" "rows of bench_codecs.sh: four of qsgd, one of fp16"
expect_equal 5 "$(wc -l <"$WORK/table.md.jsonl")" "lines of bench_codecs.sh"
run "$EQT_ROOT/scripts/bench_codecs.sh" --compressor qsgdd
expect_failure 2 'qsgdd' "bench_codecs.sh with an unknown compressor"
run "$EQT_ROOT/scripts/test_arm64.sh" --wrong
expect_failure 2 'wrong' "test_arm64.sh with an unknown argument"
run "$EQT_ROOT/scripts/test_torch2.sh" --wrong
expect_failure 2 'wrong' "test_torch2.sh with an unknown argument"
finish
