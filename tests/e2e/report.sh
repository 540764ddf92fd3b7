#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Reports: means over seeds, compared with another program's, a complete page that needs no other
# file, and an error for every folder that cannot be reported.
# CTest gives it the program without LibTorch, which starts faster: runs here compute nothing, and a report reads
# what they wrote. memory_states.sh reports runs of LibTorch.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

boards=(--set train.emulate_compute=0.001 --set train.steps=3 --quiet)
train 2 sweep/none-1 "${boards[@]}" --set seed=1 --set compressor.name=none
expect_code 0 "an emulated run"
[[ $CODE -eq 0 ]] || finish
train 2 sweep/none-2 "${boards[@]}" --set seed=2 --set compressor.name=none
sweep=$WORK/sweep
# Text from folders is not trusted: this compressor's name contains markup.
cp -r "$sweep/none-1" "$sweep/hostile"
python3 - "$sweep/hostile/config.json" <<'PY'
import json, sys
config = json.load(open(sys.argv[1]))
config["compressor"]["name"] = "<b>\x1b[31m`touch pwned`\n'; system('touch pwned') #</b>"
json.dump(config, open(sys.argv[1], "w"))
PY
mkdir "$sweep/never-began" && echo '{}' >"$sweep/never-began/config.json"

program report "$sweep" --table scalability
expect_code 0 "report"
grep -q '±' "$OUT" || wrong "report prints no deviation"
grep -q 'never-began' "$OUT" || wrong "a run that never began is not named"
report=$sweep/report
for file in report.html report.json comparison.txt comparison.csv comparison.md runs.csv scalability.csv \
  scalability-conditions.md; do
  [[ -s $report/$file ]] || wrong "report: there is no $file"
done
[[ ! -e pwned ]] || wrong "a name was run as a command"
! grep -qP '\x1b' "$OUT" "$report"/*.txt "$report"/*.html || wrong "a control character got into a table"

python3 - "$report/report.html" <<'PY' || wrong "the page is not whole, or wants something from elsewhere"
import html.parser, sys
text = open(sys.argv[1], encoding="utf-8").read()
class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.ids = [], [], set()
    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.seen.append((tag, attributes))
        assert tag not in ("script", "link", "img", "iframe", "object", "b"), tag
        assert not any(name.startswith("on") for name in attributes), attributes
        if "id" in attributes:
            assert attributes["id"] not in self.ids, attributes
            self.ids.add(attributes["id"])
        if tag == "th":
            assert attributes["scope"] in ("row", "col"), attributes
        if tag not in ("meta",):
            self.open.append(tag)
    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)
    def handle_endtag(self, tag):
        assert self.open.pop() == tag, (tag, self.getpos())
page = Page()
page.feed(text)
page.close()
assert not page.open, page.open
count = lambda name: sum(tag == name for tag, _ in page.seen)
assert count("table") == count("caption") > 3
assert count("svg") == sum(a.get("role") == "img" for tag, a in page.seen if tag == "svg")
for _, attributes in page.seen:
    for words in (attributes.get("aria-labelledby") or "").split():
        assert words in page.ids, words
assert "http" not in text and "url(//" not in text
PY

python3 - "$sweep" <<'PY' || wrong "the report's means are not those of the summaries"
import csv, json, math, statistics, sys
sweep = sys.argv[1]
report = json.load(open(f"{sweep}/report/report.json"))
groups = {group["label"]: group for group in report["groups"]}
assert len(groups) == 2 and "float32" in groups, groups.keys()
[hostile] = set(groups) - {"float32"}
assert hostile.startswith("<b>\ufffd[31m`touch pwned`\ufffd'"), hostile
runs = [json.load(open(f"{sweep}/none-{seed}/summary.json")) for seed in (1, 2)]
rows = {row["run"]: row for row in csv.DictReader(open(f"{sweep}/report/details.csv"))}
for key in ("wall_seconds", "images_per_second", "peak_rss_mib"):
    values = [run[key] for run in runs]
    figure = groups["float32"]["figures"][key]
    assert math.isclose(figure["mean"], statistics.fmean(values), rel_tol=1e-12), key
    assert math.isclose(figure["deviation"], statistics.stdev(values), rel_tol=1e-9, abs_tol=1e-12), key
    assert float(rows["float32"][key]) == figure["mean"], key
    assert float(rows["float32"][key + "_deviation"]) == figure["deviation"], key
    assert math.isclose(figure["standard_error"], figure["deviation"] / math.sqrt(2), rel_tol=1e-12), key
    assert int(rows["float32"][key + "_count"]) == figure["count"] == 2, key
assert groups[hostile]["figures"]["wall_seconds"]["deviation"] is None
assert groups["float32"]["figures"]["sent_bytes_per_rank"]["mean"] == runs[0]["sent_bytes"] / 2
assert {run["seed"] for run in groups["float32"]["runs"]} == {"1", "2"}
PY
if command -v gnuplot >/dev/null; then
  [[ -s $report/seconds-by-phase.svg && -s $report/bits-per-value.png ]] || wrong "plots are missing"
  ! command -v xmllint >/dev/null || xmllint --noout "$report"/*.svg || wrong "a plot is no XML"
fi

program report "$sweep/none-1" --json --out "$WORK/elsewhere"
expect_code 0 "report --json"
python3 -m json.tool <"$OUT" >/dev/null || wrong "report --json: not JSON"
[[ -s $WORK/elsewhere/report.html ]] || wrong "report --out writes somewhere else"

# A table in LaTeX: compiled if TeX is installed, otherwise only checked.
program report "$sweep" --format latex --out "$WORK/latex"
expect_code 0 "report --format latex"
grep -q '^\\begin{tabular}{l' "$OUT" || wrong "report --format latex prints no tabular"
! grep -v '^%' "$OUT" | grep -q '[_#&%]touch' || wrong "report --format latex does not escape"
if command -v pdflatex >/dev/null; then
  { printf '\\documentclass{article}\\begin{document}\n' && cat "$OUT" "$WORK"/latex/*.tex && printf '\\end{document}\n'; } \
    >"$WORK/tables.tex"
  (cd "$WORK" && pdflatex -interaction=nonstopmode -halt-on-error tables.tex >tables.out) || wrong "LaTeX refuses the tables"
fi
program report "$sweep" --format latex --json
expect_failure 2 'format' "two formats of one answer"
program report "$sweep" --format word
expect_failure 2 'word' "an unknown format"

# Differences: against a row that is named; there is nothing to test without accuracies and losses.
program report "$sweep" --baseline float32 --margin 0.2
expect_code 0 "report --baseline"
grep -q '^No row is tested against float32: a test needs several runs' "$OUT" || wrong "report --baseline is silent"
program report "$sweep" --baseline qsgd
expect_failure 2 'expected a row of the report in --baseline, found qsgd; it has .*; float32' "an unknown baseline"
program report "$sweep" --margin 0
expect_failure 2 'margin' "a margin of nothing"

run env PATH=/nowhere "$EQT_PROGRAM" report "$sweep" --out "$WORK/unplotted"
expect_code 0 "report without gnuplot"
grep -q 'gnuplot-nox' "$OUT" || wrong "report without gnuplot does not say what to install"
[[ -s $WORK/unplotted/report.html && -s $WORK/unplotted/comparison.md ]] || wrong "without gnuplot there are no tables"
[[ ! -e $WORK/unplotted/pareto.svg ]] || wrong "a plot without gnuplot"

cp -r "$sweep/none-1" "$WORK/half"
rm "$WORK/half/summary.json"
printf '{"type":"epoch","epo' >>"$WORK/half/metrics.jsonl"
program report "$WORK/half" "$sweep/none-2"
expect_code 0 "report of a half-written run"
grep -q 'half is unfinished' "$OUT" || wrong "a half-written run is not marked"
grep -q 'cut off' "$OUT" || wrong "a cut record is not mentioned"

cp -r "$sweep/none-1" "$WORK/other"
sed -i 's/"dataset":"drawn gradients"/"dataset":"cifar10"/' "$WORK/other/metrics.jsonl"
program report "$sweep/none-1" "$WORK/other"
expect_failure 2 'one data set.*drawn gradients.*cifar10' "report of two data sets"
sed -i 's/"schema":1/"schema":2/' "$WORK/other/metrics.jsonl"
program report "$WORK/other"
expect_failure 3 'schema 1, found 2' "report of another schema"
mkdir "$WORK/empty"
program report "$WORK/empty"
expect_failure 3 'expected runs' "report of an empty folder"
program report "$sweep/never-began"
expect_failure 3 'none had begun' "report of a run that never began"
program report "$WORK/nowhere"
expect_failure 2 'no folder' "report of nothing"
program report
expect_failure 2 'DIR' "report without folders"
program report "$sweep" --table precision
expect_failure 2 'precision' "report with an unknown table"
mkdir "$WORK/own"
echo mine >"$WORK/own/comparison.csv"
program report "$sweep/none-1" --out "$WORK/own"
expect_failure 2 'comparison\.csv, which is another' "report over a file that no report wrote"
expect_equal "mine comparison.csv" "$(cat "$WORK"/own/comparison.csv) $(ls "$WORK/own")" "report over a file that no report wrote"
program report "$sweep/none-1" --out "$WORK/own" --overwrite
expect_code 0 "report --overwrite"
program report "$sweep/none-1" --out "$WORK/own"
expect_code 0 "report over a report"
echo "a note" >>"$WORK/own/report.html"
program report "$sweep/none-1" --out "$WORK/own"
expect_failure 2 'report\.html' "report over a page that was changed"
program report "$sweep" --out "$WORK/tiny.json/report"
expect_failure 74 'choose another' "report into a file"
finish
