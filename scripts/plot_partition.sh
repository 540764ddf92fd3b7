#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws the classes that each rank of a run trained on, as one stacked bar per rank, from the run
# record in RUN_DIR/metrics.jsonl. Needs python3 and gnuplot.
#
#   scripts/plot_partition.sh RUN_DIR [--out FILE.svg]
#
#   --out FILE   the SVG file to write [RUN_DIR/partition.svg]
#   --help       this text
#
# Exit code: 0 when the plot was written, 1 without python3 or gnuplot, 2 for a wrong command line, 3
# when RUN_DIR has no usable run record, 74 when the plot could not be written.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

folder='' out=''
while [[ $# -gt 0 ]]; do
  case $1 in
    --out) value_of "$1" $#; out=$2; shift ;;
    --help) usage; exit 0 ;;
    -*) fail 2 "unknown option \"$1\"; see --help." ;;
    *) [[ -z $folder ]] || fail 2 "expected one run folder, found \"$folder\" and \"$1\"; see --help."
       folder=$1 ;;
  esac
  shift
done
[[ -n $folder ]] || fail 2 "expected a run folder, found none; see --help."
out=${out:-$folder/partition.svg}
for program in python3 gnuplot; do
  command -v "$program" >/dev/null ||
    fail 1 "$program was not found: install Debian's ${program/%plot/plot-nox}."
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 - "$folder/metrics.jsonl" "$work" <<'PYTHON' || exit $?
import json, sys

def fail(sentence):
    sys.exit(print(f"plot_partition.sh: {sentence}", file=sys.stderr) or 3)

path, work = sys.argv[1:]
try:
    with open(path) as lines:
        record = json.loads(lines.readline())
        ranks = record["class_histogram"]
        if ranks is None:
            fail(f"{path}: expected a run that read a data set, found an emulated one.")
        classes = len(ranks[0])
        if not all(len(rank) == classes and all(type(n) is int for n in rank) for rank in ranks):
            raise ValueError("rows of class_histogram differ")
        kind = record["partition"]
        label = kind["kind"]
        if "skew" in kind:
            label += f" {kind['skew']:g}"
        if "alpha" in kind:
            label += f", alpha {kind['alpha']:g}"
        title = f"{record['dataset']}, {label}, {record['leftover_samples']:d} samples left over"
except OSError as error:
    fail(f"{path}: expected the records of a run, found none ({error.strerror}); name a run folder.")
except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
    fail(f"{path}: expected a run record with partition and class_histogram in the first line, found "
         f"something else ({type(error).__name__}: {error}); make the run again.")
with open(f"{work}/bars", "w") as bars:
    for rank, counts in enumerate(ranks):
        print(rank, *counts, file=bars)
with open(f"{work}/names", "w") as names:
    print(f"classes = {classes}", file=names)
    print("run = '" + "".join(c for c in title if c.isprintable() and c not in "'\\`") + "'", file=names)
PYTHON

# gnuplot runs commands in its quotes and backquotes, so its script contains no file names.
(cd "$work" && gnuplot >log 2>&1) <<'PLOT' || { tail -n 3 "$work/log" >&2; fail 74 "gnuplot could not write $out; its words stand above."; }
load "names"
set terminal svg size 900,480 font "sans-serif,12" noenhanced
set output "plot.svg"
set title run
set xlabel "rank"
set ylabel "samples"
set yrange [0:*]
set style data histograms
set style histogram rowstacked
set style fill solid 0.85 border rgb "white"
set boxwidth 0.8
set grid ytics
if (classes <= 20) { set key outside right top invert } else { set key off }
plot for [c=0:classes-1] "bars" using c+2:xtic(1) title sprintf("class %d", c) \
  linecolor rgb hsv2rgb(1.0 * c / classes, 0.45 + 0.35 * (c % 2), 0.9)
PLOT
[[ -s $work/plot.svg ]] || fail 74 "gnuplot wrote no plot; check the space left in ${TMPDIR:-/tmp}."
cp -- "$work/plot.svg" "$out" 2>/dev/null || fail 74 "the plot could not be written to $out; check its folder and the space left."
say "wrote $out" >&2
