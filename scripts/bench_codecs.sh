#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures every compressor on one core and writes a Markdown table: each compressor with its
# defaults, then with the settings that change speed or size most.
#
#   scripts/bench_codecs.sh [--values N] [--compressor NAME]... [--out FILE]
#
#   --values N          size of the gradient; 25557032 (ResNet-50) by default
#   --compressor NAME only this compressor; repeatable
#   --out FILE          writes FILE, and the JSON lines as FILE.jsonl; stdout by default
#   --help              this text
#
# EQT_PROGRAM is the executable, if not build/release/equant-train.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

values=25557032
compressors=()
out=""
declare -A options=(
  [--values]="natural values" [--compressor]="list compressors" [--out]="text out"
)
read_all_options "$@"

program=${EQT_PROGRAM:-$EQT_DEFAULT_PROGRAM}
[[ -x $program ]] || fail 2 "expected the program at $program: $EQT_PROGRAM_REMEDY, or set EQT_PROGRAM."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

names() { "$program" list compressors --json | python3 -c 'import json, sys; print(*(n["name"] for n in json.load(sys.stdin)), sep="\n")'; }
codings() { "$program" schema | python3 -c 'import json, sys
print(*json.load(sys.stdin)["properties"]["compressor"]["properties"]["coding"]["enum"], sep="\n")'; }

mapfile -t known < <(names)
[[ ${#compressors[@]} -gt 0 ]] || compressors=("${known[@]}")
for name in "${compressors[@]}"; do
  printf '%s\n' "${known[@]}" | grep -qxF -- "$name" ||
    fail 2 "unknown compressor \"$name\"; equant-train list compressors names them."
done

# settings NAME: one line of "key=value ..." per run; an empty line is the defaults.
settings() {
  echo
  case $1 in
    qsgd) printf '%s\n' bucket_size=8192 'bits=8 bucket_size=8192' 'bits=2 bucket_size=8192' ;;
    elastiquant) printf '%s\n' bucket_size=512 bits=8 bits=2 ;;
    qsgd-v) echo bucket_size=8192 ;;
    e-elastiquant) codings | grep -vxE 'fixed|auto|lossless' | sed 's/^/coding=/' ;;
    none | bf16) echo coding=lossless ;;
    topk) echo density=0.001 ;;
  esac
}

for name in "${compressors[@]}"; do
  while IFS= read -r line; do
    arguments=()
    for set in $line; do arguments+=(--set "compressor.$set"); done
    echo "$name $line" >&2
    "$program" bench codecs --values "$values" --json --compressor "$name" "${arguments[@]}" >"$work/line" ||
      fail 1 "bench codecs failed for $name $line; its sentence stands above."
    python3 -c 'import json, sys
row = json.load(open(sys.argv[1])); row["settings"] = sys.argv[2]; print(json.dumps(row))' \
      "$work/line" "$line" >>"$work/rows.jsonl"
  done < <(settings "$name")
done

tree=$(dirname "$program")
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$tree/CMakeCache.txt" 2>/dev/null || true)
compiler=$({ "${compiler:-c++}" --version 2>/dev/null || echo "unknown compiler"; } | head -n 1)
cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
python3 - "$work/rows.jsonl" "${cpu:-unknown CPU}" "$compiler" >"$work/table.md" <<'PY'
import json, statistics, sys

rows = [json.loads(line) for line in open(sys.argv[1])]
read = [row["read_gb_s"] for row in rows]

def shown(value, form="{:.2f}"):
    return "–" if value is None else form.format(value)

print(f"One thread of {sys.argv[2]}, {rows[0]['simd']}, {sys.argv[3]}. {rows[0]['values']:,} normal values;")
print(f"reading them: {statistics.median(read):.1f} GB/s (from {min(read):.1f} to {max(read):.1f} over the runs of this table).")
print("GB/s are bytes of float32 gradient per second. Link: the rate [Gbit/s] below which encode + send +")
print("decode take less time than sending float32.")
print()
print("| compressor | coding | bits | bucket | ratio | encode | decode | sum of 8 | with feedback | variance | bound | link |")
print("|---|---|---|---|---|---|---|---|---|---|---|---|")
for row in rows:
    name = row["compressor"]
    extra = [s for s in row["settings"].split() if s.split("=")[0] not in ("bits", "bucket_size", "coding")]
    coded = row["bits"] is not None
    print("|", " | ".join([
        " ".join([f"`{name}`", *extra]), row["coding"] if coded else "–", shown(row["bits"], "{}"),
        shown(row["bucket_size"], "{}"), f"{32 / row['bits_per_value']:.2f}",
        shown(row["encode_gb_s"]), shown(row["decode_add_gb_s"]), shown(row["sum8_gb_s"]),
        shown(row["feedback_gb_s"]), shown(row["variance"], "{:.3g}"),
        shown(row["variance_bound"], "{:.3g}"), shown(row["break_even_gbit_s"], "{:.1f}")]), "|")
PY
if [[ -n $out ]]; then
  cp "$work/table.md" "$out"
  cp "$work/rows.jsonl" "$out.jsonl"
  say "Wrote $out and $out.jsonl" >&2
else
  cat "$work/table.md"
fi
