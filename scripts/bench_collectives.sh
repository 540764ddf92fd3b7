#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures collectives for several ranks, link rates, sizes and compressors, with every rank on its
# own host (netlab.sh), and compares each with MPI_Allreduce of float32 on the same links. Writes
# CSV, a Markdown table with speed-ups over the fastest float32, and a plot if gnuplot is installed.
#
#   scripts/bench_collectives.sh --out FILE [options]
#
#   --out FILE          the CSV; the table goes to FILE.md, the plot to FILE.svg
#   --ranks LIST        comma-separated [2,4]
#   --rates LIST        comma-separated rates for netlab.sh; "unlimited" does not limit, "shared"
#                       runs all ranks on this host without netlab [100mbit,1gbit]
#   --values LIST       comma-separated sizes [272474,1050000,11173962]
#   --compressors LIST  comma-separated [none,bf16,qsgd,e-elastiquant,dgc]
#   --collective NAME   only this collective; repeatable [all that work with the compressor]
#   --seconds S         time for each row [3]
#   --help              this text
#
#   scripts/bench_collectives.sh --ranks 2 --rates 100mbit --compressors none --collective dense --out dense.csv
# EQT_PROGRAM is the executable, if not build/release/equant-train.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

out=""
ranks=2,4
rates=100mbit,1gbit
sizes=272474,1050000,11173962
compressors=none,bf16,qsgd,e-elastiquant,dgc
only=()
seconds=3
declare -A options=(
  [--out]="text out" [--ranks]="text ranks" [--rates]="text rates" [--values]="text sizes"
  [--compressors]="text compressors" [--collective]="passed only" [--seconds]="text seconds"
)
read_all_options "$@"
[[ -n $out ]] || fail 2 "--out FILE is missing; see --help."
program=${EQT_PROGRAM:-$EQT_DEFAULT_PROGRAM}
[[ -x $program ]] || fail 2 "expected the program at $program: $EQT_PROGRAM_REMEDY, or set EQT_PROGRAM."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

values=()
for size in ${sizes//,/ }; do natural --values "$size"; values+=(--values "$size"); done

# launch N RATE COMMAND...: on N hosts behind links of RATE, or on this one.
launch() {
  local n=$1 rate=$2
  shift 2
  if [[ $rate == shared ]]; then
    echo '{"burst_bytes": 0}' >"$work/counters"
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
      mpirun -np "$n" --oversubscribe --bind-to none "$@"
  else
    "$EQT_ROOT/scripts/netlab.sh" --ranks "$n" --rate "$rate" --counters "$work/counters" -- "$@"
  fi
}

for n in ${ranks//,/ }; do
  natural --ranks "$n"
  for rate in ${rates//,/ }; do
    for compressor in ${compressors//,/ }; do
      say "$n ranks, $rate, $compressor" >&2
      launch "$n" "$rate" "$program" bench collectives --json --seconds "$seconds" "${values[@]}" \
        ${only[0]+"${only[@]}"} --set "compressor.name=$compressor" >"$work/rows" 2>"$work/log" || {
        tail -n 5 "$work/log" >&2
        fail 1 "measuring $compressor on $n ranks at $rate failed; its last words stand above."
      }
      burst=$(head -n 1 "$work/counters" | python3 -c 'import json, sys; print(json.load(sys.stdin)["burst_bytes"])')
      sed "s/^{/{\"rate\":\"$rate\",\"burst_bytes\":$burst,/" "$work/rows" | grep '^{' >>"$work/all"
    done
  done
done

python3 - "$work/all" "$out" "$work/plot" "$out.md" <<'PYTHON'
import csv, json, statistics, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
columns = ["ranks", "rate", "burst_bytes", "values", "compressor", "collective", "median_ms", "p95_ms", "wire_bytes",
           "formula_bytes", "mpi_allreduce_ms", "ratio_vs_mpi", "fastest_float32", "ratio_vs_fastest_float32"]
# The fastest float32: MPI's own, measured alternately with every row, and the rows of compressor
# none.
place = lambda row: (row["ranks"], row["rate"], row["values"])
float32 = {}
for row in rows:
    float32.setdefault(place(row), {}).setdefault("MPI_Allreduce", []).append(row["mpi_allreduce_ms"])
    if row["compressor"] == "none":
        float32[place(row)].setdefault(row["collective"], []).append(row["median_ms"])
for row in rows:
    ways = {name: statistics.median(found) for name, found in float32[place(row)].items()}
    row["fastest_float32"] = min(ways, key=ways.get)
    row["fastest_float32_ms"] = ways[row["fastest_float32"]]
    row["ratio_vs_fastest_float32"] = round(row["fastest_float32_ms"] / row["median_ms"], 2)
with open(sys.argv[2], "w", newline="") as out:
    table = csv.DictWriter(out, columns, extrasaction="ignore")
    table.writeheader()
    table.writerows(rows)
best = {}
for row in rows:
    key = (*place(row), row["compressor"])
    if key not in best or row["median_ms"] < best[key]["median_ms"]:
        best[key] = row
names = list(dict.fromkeys(row["compressor"] for row in rows))
with open(sys.argv[4], "w") as out:
    print("Milliseconds of the fastest collective of each compressor; in brackets how many times as fast as the fastest "
          "float32, which is named.\n", file=out)
    print("| ranks | link (burst in bytes) | values | fastest float32 | " + " | ".join(names) + " |", file=out)
    print("|" + "---|" * (4 + len(names)), file=out)
    for ranks, rate, values in float32:
        cells = [best.get((ranks, rate, values, name)) for name in names]
        any_row = next(row for row in cells if row)
        print(f"| {ranks} | {rate} ({any_row['burst_bytes']}) | {values} "
              f"| {any_row['fastest_float32']} {any_row['fastest_float32_ms']:.4g} | "
              + " | ".join(f"{row['median_ms']:.4g} ({row['ratio_vs_fastest_float32']:.2f})" if row else "–" for row in cells)
              + " |", file=out)
# A bar for the best collective of every compressor, at the largest size.
largest = max(row["values"] for row in rows)
bars = {key[:2] + key[3:]: row for key, row in best.items() if row["values"] == largest}
with open(sys.argv[3], "w") as plot:
    for (n, rate, compressor), row in sorted(bars.items(), key=lambda item: (item[0][1], item[0][0])):
        plot.write(f'"{compressor}, {row["collective"]}\\n{n} ranks, {rate}" {row["ratio_vs_fastest_float32"]}\n')
PYTHON
say "wrote $out and $out.md" >&2

if command -v gnuplot >/dev/null; then
  # gnuplot runs commands in its quotes and backquotes, so its script contains no file names.
  (cd "$work" && gnuplot) <<'PLOT'
set terminal svg size 1000,520 font "sans-serif,12"
set output "plot.svg"
set style fill solid 0.7
set boxwidth 0.7
set logscale y
set ylabel "times as fast as the fastest float32"
set xtics rotate by -45
set grid ytics
set key off
plot "plot" using 0:2:xtic(1) with boxes, 1 with lines dashtype 2
PLOT
  cp -- "$work/plot.svg" "$out.svg"
  say "wrote $out.svg" >&2
else
  say "no plot: gnuplot is not installed" >&2
fi
