#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A sweep in JSON: errors are one sentence, its time is estimated, it makes a table, skips finished
# runs, continues from checkpoints, and can simulate ranks in one process.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
sweep=$EQT_ROOT/scripts/sweep.sh

# The program, but its schema, which every sweep asks for, from a file: starting LibTorch takes longer
# than reading a sweep, and here are more than a hundred.
"$EQT_PROGRAM" schema >"$WORK/schema.json"
cat >"$WORK/equant-train" <<SH
#!/bin/sh
[ "\$1" != schema ] || exec cat "$WORK/schema.json"
exec "$EQT_PROGRAM" "\$@"
SH
chmod +x "$WORK/equant-train"
EQT_PROGRAM=$WORK/equant-train

# refuses REGEX JSON [ARGUMENTS]
refuses() {
  local regex=$1 json=$2
  shift 2
  printf '%s' "$json" >"$WORK/bad.json"
  run "$sweep" "$WORK/bad.json" --out "$WORK/none" --dry-run "$@"
  expect_failure 2 "$regex" "$json"
}
refuses 'bad\.json: expected JSON' '{"configs":'
refuses 'the comma before \] at line 2, column 2 has nothing after it' $'{"configs": ["tiny.json", // ,\n ]}'
refuses 'levels of nesting' "{\"set\": $(printf '[%.0s' {1..2000})$(printf ']%.0s' {1..2000})}"
refuses 'levels of nesting' "{\"set\": {\"a\": $(printf '[%.0s' {1..40})$(printf ']%.0s' {1..40})}}"
refuses 'bad\.json: expected JSON' '{"configs": ["\ud800.json"]}'
refuses 'whole numbers.*"ranks"' '{"configs": ["tiny.json"], "ranks": [10000000000]}'
refuses 'there is no config file' "{\"configs\": [\"$(printf 'a%.0s' {1..5000})\"]}"
refuses 'expected an object' '[]'
refuses 'unknown key "seed".*did you mean "seeds"' '{"configs": ["tiny.json"], "seed": [1]}'
refuses 'unknown key "rank".*did you mean "ranks"' '{"configs": ["tiny.json"], "rank": 2}'
refuses 'unknown key "zzz"; keys are .*"?configs' '{"configs": ["tiny.json"], "zzz": 1}'
refuses 'unknown key "seeed"' '{"configs": [{"name": "a", "config": "tiny.json", "seeed": 1}]}'
refuses 'expected a list for "seeds", found \{\}' '{"configs": ["tiny.json"], "seeds": {}}'
refuses 'whole numbers in "seeds", found "1"' '{"configs": ["tiny.json"], "seeds": "1"}'
refuses 'at least 1 in "ranks", found true' '{"configs": ["tiny.json"], "ranks": true}'
refuses 'unknown config key "train.stepz"; did you mean "train.steps"' '{"configs": ["tiny.json"], "set": {"train.stepz": 1}}'
refuses 'unknown config key "zzz"; .*schema' '{"configs": ["tiny.json"]}' --set zzz=1
refuses 'whole numbers in "seeds", found -1' '{"configs": ["tiny.json"], "seeds": [1, -1]}'
refuses 'at least 1 in "ranks", found 0' '{"configs": ["tiny.json"], "ranks": [2, 0]}'
refuses 'at least 1 for "threads", found true' '{"configs": ["tiny.json"], "threads": true}'
# What a spreadsheet would compute is text in a table; numbers stay numbers.
PYTHONPATH=$EQT_ROOT/scripts/lib python3 -B - <<'PY' || wrong "cells of a table that are formulas"
from sweep_tables import csv_cell
for cell in ("=1+1", "+a", "-a=1", "@SUM(1)", "\t=1"):
    assert csv_cell(cell) == "'" + cell, cell
for cell in ("a=1", "-", "-1.5e-3", "+2", -3, 0.5, None, ""):
    assert csv_cell(cell) == cell, cell
PY
printf 'a 1 tiny.json\n\377' >bad.rows
refuses 'bad\.rows: expected rows as UTF-8 text' '{"rows": "bad.rows"}'
refuses 'rates.*"link", found "fast"' '{"configs": ["tiny.json"], "link": ["fast"]}'
refuses 'rates above 0 in Mb/s in "plan_links", found 0' '{"configs": ["tiny.json"], "plan_links": [10, 0]}'
refuses 'rates above 0 in Mb/s in "plan_links", found true' '{"configs": ["tiny.json"], "plan_links": true}'
refuses 'rates above 0 in Mb/s such as 10,100, found "10,fast"' '{"configs": ["tiny.json"]}' --plan-links 10,fast
refuses 'seconds above 0 for "plan_step_seconds", found 0' '{"configs": ["tiny.json"], "plan_step_seconds": 0}'
refuses 'seconds above 0 for "plan_step_seconds", found true' \
  '{"configs": [{"name": "a", "config": "tiny.json", "plan_step_seconds": true}]}'
refuses 'true or false for "simulate", found 2' '{"configs": ["tiny.json"], "simulate": 2}'
refuses 'no "link" with "simulate"' '{"configs": ["tiny.json"], "simulate": true, "link": ["1gbit"]}'
refuses 'cores above 0 for "cores", found 0' '{"configs": ["tiny.json"], "link": "1gbit", "cores": 0}'
refuses 'a "link" with "cores"' '{"configs": ["tiny.json"], "cores": 0.5}'
refuses 'at least 1 for "stage", found 0' '{"configs": [{"name": "a", "config": "tiny.json", "stage": 0}]}'
refuses 'hours above 0 such as 2.5, found "0"' '{"configs": ["tiny.json"]}' --hours 0
refuses 'at least 1, found "0"' '{"configs": ["tiny.json"]}' --jobs 0
refuses 'either "configs" or "rows", found neither' '{"seeds": [1]}'
refuses 'either "configs" or "rows", found both' '{"configs": ["tiny.json"], "rows": "a.rows"}'
refuses 'no config file.*absent\.json' '{"configs": ["absent.json"]}'
refuses 'found \[\]' '{"configs": []}'
refuses 'values for "train.steps" in "set", found \[\]' '{"configs": ["tiny.json"], "set": {"train.steps": []}}'
refuses 'unknown key "sets"' '{"configs": [{"name": "a", "config": "tiny.json", "sets": {}}]}'
refuses '"name" and "config"' '{"configs": [{"config": "tiny.json"}]}'
refuses 'same name' '{"configs": ["tiny.json", "tiny.json"]}'
refuses '"x\*" fits none' '{"configs": ["tiny.json"], "only": ["x*"]}'
refuses 'in "short": unknown key "epochs"' '{"configs": ["tiny.json"], "short": {"epochs": 1}}'
refuses 'no "short"' '{"configs": ["tiny.json"]}' --short
refuses 'needs a sweep in JSON|not allowed' '{"configs": ["tiny.json"]}' --config "$WORK/tiny.json"
printf '{"configs": ["tiny.json"], "set": {"train.stepz": 1}}' >"$WORK/bad.json"
run "$sweep" "$WORK/bad.json" --out "$WORK/none"
expect_failure 2 'refused.*train\.stepz.*train\.steps' "a key that the program does not know"
[[ ! -e $WORK/none ]] || wrong "a refused sweep leaves a folder"

# A single value is a list of one.
cat >"$WORK/lone.json" <<'JSON'
{"$schema": "any.json", "configs": [{"name": "a", "config": "tiny.json", "ranks": 3}, {"name": "b", "config": "tiny.json"}],
 "seeds": 4, "only": "a", "short": {"ranks": 2, "seeds": 5}}
JSON
run "$sweep" "$WORK/lone.json" --out "$WORK/lone" --dry-run
expect_equal 'to run: a seed=4 on 3 ranks' "$(grep '^to run: ' "$OUT")" "a sweep without lists"
run "$sweep" "$WORK/lone.json" --out "$WORK/lone" --dry-run --short
expect_equal 'to run: a seed=5 on 2 ranks' "$(grep '^to run: ' "$OUT")" "a short sweep without lists"

# A row says by itself whether one process plays its ranks.
cat >"$WORK/played.json" <<'JSON'
{"configs": [{"name": "a", "config": "tiny.json"}, {"name": "b", "config": "tiny.json", "simulate": false}],
 "simulate": true}
JSON
run "$sweep" "$WORK/played.json" --out "$WORK/played" --dry-run
expect_equal $'to run: a on 2 ranks by one process\nto run: b on 2 ranks' "$(grep '^to run: ' "$OUT")" "a row without simulate"

# The grid: rows with their own settings, a list as a value, ranks, seeds.
cat >"$WORK/grid.json" <<'JSON'
{"configs": ["tiny.json", {"name": "topk", "config": "tiny.json", "ranks": [3],
                           "set": {"compressor.name": "topk"}}],
 "set": {"schedule.milestones": [[1, 2]], "schedule.kind": "step", "train.batch_size": [8, 16]},
 "seeds": [4, 5],
 "short": {"set": {"train.batch_size": 4}, "seeds": [7]}}
JSON
run "$sweep" "$WORK/grid.json" --out "$WORK/grid" --dry-run
expect_equal 8 "$(grep -c '^to run: ' "$OUT")" "runs of the grid"
expect_equal 4 "$(grep -c 'topk compressor.name=topk schedule.milestones=\[1, 2\] .*batch_size=.*on 3 ranks' "$OUT")" "runs of topk"
run "$sweep" "$WORK/grid.json" --out "$WORK/grid" --dry-run --short
expect_equal 2 "$(grep -c 'batch_size=4 seed=7' "$OUT")" "runs of the short grid"
run "$sweep" "$WORK/grid.json" --out "$WORK/grid" --dry-run --only topk --seed 9 --ranks 2
expect_equal 2 "$(grep -c 'topk .*seed=9 on 2 ranks' "$OUT")" "runs that the command line chose"

# Two runs: one under MPI, and the same ranks simulated in one process.
cat >"$WORK/two.json" <<'JSON'
// Comments as in configs.
{"configs": [{"name": "ranks", "config": "tiny.json"}, /* the same in
             one process: */ {"name": "played", "config": "tiny.json", "simulate": true}],
 "set": {"compressor.name": "topk", "synchronization.collective": "allgather",
         "train.batch_size": 4, "data.limit_test": 10, "train.steps": 8, "checkpoint.every_steps": 4},
 "threads": 1, "ranks": [2], "timeout": 60}
JSON
run "$sweep" "$WORK/two.json" --out "$WORK/two"
expect_code 0 "a sweep of two runs"
grep -qE '^estimate: about [0-9]+ s for 2 runs$' "$OUT" || wrong "the sweep does not say how long it will take"
python3 - "$WORK/two" <<'PY' || wrong "the two runs are not what was asked for"
import csv, json, pathlib, sys
out = pathlib.Path(sys.argv[1])
rows = {row["config"]: row for row in csv.DictReader(open(out / "table.csv", newline=""))}
assert set(rows) == {"ranks", "played"} and all(r["state"] == "ok" for r in rows.values()), rows
ranks, played = (json.load(open(out / name / "summary.json")) for name in ("ranks", "played"))
assert ranks["parameter_hash"] == played["parameter_hash"], "hashes"
assert played["simulated"] and "simulated" not in ranks and rows["played"]["ranks"] == "2"
PY

# One run is finished, the other was cut off after its checkpoint of step 4 and continues from
# there.
hash=$(value "$WORK/two/played/summary.json" parameter_hash)
stamp=$(stat -c %Y "$WORK/two/ranks/summary.json")
rm -r "$WORK"/two/played/summary.json "$WORK"/two/played/checkpoints/*8
run "$sweep" "$WORK/two.json" --out "$WORK/two"
expect_code 0 "a resumed sweep"
grep -q '^2 runs, 1 of them finished before' "$OUT" || wrong "the sweep runs a finished run again"
expect_equal "$stamp" "$(stat -c %Y "$WORK/two/ranks/summary.json")" "time of a finished summary"
grep -q 'from the checkpoint of step 4' "$WORK/two/played/metrics.jsonl" ||
  wrong "the run that was cut off does not continue from its checkpoint"
expect_equal "$hash" "$(value "$WORK/two/played/summary.json" parameter_hash)" "parameters of a resumed run"

# What the runs would take on boards: 16 more ms of sending a step at a tenth of the rate, a hundredth
# of the bytes for topk, a tenth for dgc, whose only epoch is its warm-up to a hundredth; ad-psgd and emulated
# boards.
cat >"$WORK/planned.json" <<'JSON'
{"configs": [{"name": "none", "config": "tiny.json"},
             {"name": "topk", "config": "tiny.json", "set": {"compressor.name": "topk"}},
             {"name": "dgc", "config": "tiny.json", "simulate": true, "plan_step_seconds": 0.25,
              "set": {"compressor.name": "dgc", "compressor.warmup_epochs": 1}},
             {"name": "played", "config": "tiny.json", "simulate": true},
             {"name": "board", "config": "tiny.json", "plan_step_seconds": 0.25},
             {"name": "emulated", "config": "tiny.json", "set": {"train.emulate_compute": [0.001, 0.125]}},
             {"name": "ad-psgd", "config": "tiny.json", "set": {"synchronization.algorithm": "ad-psgd"}}],
 "set": {"train.batch_size": 4, "data.limit_test": 10, "train.steps": 6},
 "threads": 1, "seeds": [1], "timeout": 60, "plan_links": 10}
JSON
run "$sweep" "$WORK/planned.json" --out "$WORK/planned"
expect_code 0 "a sweep with plans"
grep -q 'no plan of ad-psgd .*: .*found ad-psgd' "$OUT" || wrong "the sweep does not say why ad-psgd has no plan"
run "$sweep" "$WORK/planned.json" --out "$WORK/planned" --only played --seed 1 --seed 2
grep -q 'plan 10 s' "$WORK/planned/means.txt" || wrong "means.txt has no planned seconds"
run "$sweep" "$WORK/planned.json" --out "$WORK/planned" --plan-links 1,10,10,1000
expect_code 0 "the same with other links"
python3 - "$WORK/planned" <<'PY' || wrong "planned seconds that cannot be right"
import csv, json, pathlib, statistics, sys
out = pathlib.Path(sys.argv[1])
rows = {row["config"]: row for row in csv.DictReader(open(out / "table.csv", newline="")) if row["seed"] == "1"}
def seconds(name): return [float(rows[name][f"plan_{rate}_s"]) for rate in (1, 10, 1000)]
def run(name): return next(out.glob(f"{name},*seed=1"))
assert [rows["ad-psgd"][f"plan_{rate}_s"] for rate in (1, 10, 1000)] == ["", "", ""], rows["ad-psgd"]
plan = json.load(open(next(out.glob("dgc,*seed=1.plan.json"))))
assert all(plan["epochs"][rate] == [plan["seconds"][rate]] for rate in ("1", "10", "1000")), plan
# One board takes the samples of both: twice the steps, and in each its computing and the update.
alone = json.load(open(next(out.glob("board,*seed=1.plan.json"))))["one_board"]
assert 2 * 6 * 0.25 < alone < 2 * 6 * 0.26, alone
dense, tenth = (seconds(name)[0] - 6 * 0.25 for name in ("board", "dgc"))
assert 0.1 * dense < tenth < 0.2 * dense, (dense, tenth)  # a sent value has an index, too
for name in ("none", "topk", "played", "board", "emulated"):
    summary = json.load(open(run(name) / "summary.json"))
    steps = [json.loads(line) for line in open(run(name) / "metrics.jsonl") if '"type":"step"' in line]
    computing = statistics.median(s["seconds"]["compute"] for s in steps if s["step"] >= 3)
    computing = {"played": computing / 2, "board": 0.25, "emulated": 0.125}.get(name, computing)
    slow, middle, fast = seconds(name)
    # Two ranks send each other all values once; of 1514 bytes on the wire 1448 are data. The first
    # tensors of the backward pass may be sent during it, the last ones not.
    wire = 4 * summary["parameters"] * 8 / 1e6 * 1514 / 1448
    if name == "topk":
        assert slow < seconds("none")[0] and 6 * computing < slow, (slow, computing)
        continue
    assert 6 * wire < slow < 6 * (computing + wire) * 1.05 + 0.1, (name, slow, computing, wire)
    assert abs(slow - middle - 6 * 0.9 * wire) < 6 * computing + 0.1 * slow, (name, slow, middle, wire)
    assert 6 * computing < fast < middle < slow, (name, fast, middle)
PY
[[ $(wc -l <"$WORK/planned/table.txt") == 8 ]] || wrong "the table does not have seven runs"

# An estimate does not run the sweep. Here six steps of one process are tried instead of MPI.
run "$sweep" "$WORK/two.json" --out "$WORK/estimated" --estimate --only played
expect_code 0 "an estimate"
grep -qE 'played .*: [0-9.]+ s a step' "$OUT" || wrong "--estimate does not say what a step takes"
[[ ! -e $WORK/estimated ]] || wrong "--estimate leaves a folder"

# Later stages come last. Two runs at a time and a sweep that is stopped again and again end as one that was
# not: when its hours are over, and by a signal.
cat >"$WORK/staged.json" <<'JSON'
{"configs": [{"name": "late", "config": "tiny.json", "stage": 2}, {"name": "early", "config": "tiny.json"}],
 "set": {"train.batch_size": 4, "data.limit_test": 10, "train.steps": 120}, "seeds": [1, 2],
 "threads": 1, "ranks": [2], "simulate": true, "timeout": 120}
JSON
run "$sweep" "$WORK/staged.json" --out "$WORK/whole" --dry-run
expect_equal "early early late late" "$(sed -n 's/^to run: \([a-z]*\) .*/\1/p' "$OUT" | xargs)" "runs by stage"
run "$sweep" "$WORK/staged.json" --out "$WORK/whole" --jobs 2
expect_code 0 "two runs at a time"
run "$sweep" "$WORK/staged.json" --out "$WORK/parts" --jobs 2 --hours 0.0008
expect_code 75 "a sweep whose hours are over"
grep -q 'hours are over with 4 runs to do; the same command continues' "$OUT" || wrong "nothing says that the time is up"
expect_equal 2 "$(grep -c '^\[.*: stopped, ' "$OUT")" "stopped runs"
"$sweep" "$WORK/staged.json" --out "$WORK/parts" --jobs 2 >"$OUT" 2>"$ERR" &
stopped=$!
for _ in $(seq 600); do
  [[ ! -s $WORK/parts/late,seed=1/metrics.jsonl ]] || break
  sleep 0.1
done
kill -TERM "$stopped"
wait "$stopped" && wrong "a sweep that a signal stops ends with exit code 0"
grep -q 'the same command continues' "$ERR" || wrong "nothing says how a stopped sweep goes on"
run "$sweep" "$WORK/staged.json" --out "$WORK/parts" --jobs 2
expect_code 0 "the rest of a stopped sweep"
for name in early,seed=1 early,seed=2 late,seed=1 late,seed=2; do
  expect_equal "$(value "$WORK/whole/$name/summary.json" parameter_hash)" \
    "$(value "$WORK/parts/$name/summary.json" parameter_hash)" "parameters of $name"
done

# A run that diverges is marked, in the sweep's table and in the report, and no mean has it.
cat >"$WORK/diverging.json" <<'JSON'
{"configs": ["tiny.json"], "set": {"train.batch_size": 4, "data.limit_test": 10, "train.steps": 6,
 "optimizer.learning_rate": [0.01, 1e30]}, "seeds": [1, 2], "threads": 1, "simulate": true, "timeout": 60}
JSON
run "$sweep" "$WORK/diverging.json" --out "$WORK/diverging"
expect_code 1 "a sweep with runs that diverge"
expect_equal 2 "$(grep -c ' diverged$' "$WORK/diverging/table.txt")" "diverged runs in the table"
expect_equal 1 "$(grep -c '^ *[^ ]*tiny.*learning_rate' "$WORK/diverging/means.txt")" "means of runs that ended"
run "$EQT_PROGRAM" report "$WORK/diverging"
grep -q 'learning_rate=1e+30,seed=1.* is diverged (no summary.json)' "$OUT" || wrong "the report does not say what diverged"
rm -r "$WORK/diverging/"*1e+30*

# From the archive alone others make the same report, but for losses by step; the same runs give the same archive.
run "$EQT_ROOT/scripts/archive_runs.sh" "$WORK/whole" --out "$WORK/whole.tar.xz"
expect_code 0 "an archive"
grep -q 'whole.tar.xz: 4 runs, ' "$OUT" || wrong "the archive does not have four runs"
run "$EQT_ROOT/scripts/archive_runs.sh" "$WORK/whole" --out "$WORK/again.tar.xz"
cmp "$WORK/whole.tar.xz" "$WORK/again.tar.xz" || wrong "two archives of the same runs differ"
mkdir "$WORK/elsewhere"
tar -xf "$WORK/whole.tar.xz" -C "$WORK/elsewhere"
! grep -rq '"type":"step"' "$WORK/elsewhere" || wrong "the archive has records of steps that no table reads"
mkdir "$WORK/stepless"
cp -r "$WORK/whole" "$WORK/stepless"
sed -i '/^{"type":"step"/d' "$WORK/stepless/whole/"*/metrics.jsonl
for place in "$WORK/stepless" "$WORK/elsewhere"; do
  (cd "$place" && "$EQT_PROGRAM" report whole --out page >page.txt) || wrong "no report of $place/whole"
done
diff -r "$WORK/stepless/page" "$WORK/elsewhere/page" || wrong "the report from the archive differs"
cmp "$WORK/stepless/page.txt" "$WORK/elsewhere/page.txt" || wrong "the tables from the archive differ"
run "$EQT_ROOT/scripts/archive_runs.sh" "$WORK/whole" --out "$WORK/again.tar.xz" --limit 0.0001
expect_failure 1 'the archive of 4 runs would have .* MB, more than 0.0001' "an archive that is too large"
mkdir "$WORK/hollow"
run "$EQT_ROOT/scripts/archive_runs.sh" "$WORK/hollow" --out "$WORK/again.tar.xz"
expect_failure 2 'expected folders with runs, found none' "a folder without runs"

# The schema has the keys of sweep_file.py, and every committed sweep is valid.
cat >"$WORK/schema.py" <<'PY'
import json, pathlib, sys
root = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(root / "scripts/lib"))
import sweep_file
schema = json.loads((root / "configs/sweeps/sweep.jsonschema").read_text())
parts = schema["$defs"]
assert set(parts["flow"]["properties"]) | {"short"} == set(sweep_file.FLOW), "keys of a sweep"
assert set(schema["properties"]) == set(sweep_file.FLOW), "keys of a sweep at the top"
assert set(schema["properties"]["short"]["properties"]) == set(sweep_file.FLOW) - {"short"}, "keys of short"
assert set(parts["item"]["properties"]) == set(sweep_file.ITEM), "keys of a row"
try:
    import jsonschema
except ImportError:
    print("skipped: sweeps by their schema, for Debian's python3-jsonschema is not installed")
    sys.exit()
validator = jsonschema.Draft202012Validator(schema)
validator.check_schema(schema)
for file in sorted((root / "configs/sweeps").glob("*.json")):
    sweep = json.loads(file.read_text())
    errors = [error.message for error in validator.iter_errors(sweep)]
    assert not errors, (file, errors)
for wrong in ({}, {"configs": ["a.json"], "rows": "b"}, {"configs": ["a.json"], "seed": 1}, {"configs": []},
              {"configs": ["a.json"], "ranks": 0}, {"configs": ["a.json"], "ranks": []},
              {"configs": ["a.json"], "link": "fast"}, {"configs": ["a.json"], "link": "1gbit", "cores": 0}, {"configs": [{"config": "a.json"}]},
              {"configs": ["a.json"], "short": {"short": {}}}, {"configs": ["a.json"], "threads": 1.5},
              {"configs": ["a.json"], "plan_links": 0}, {"configs": ["a.json"], "plan_links": [1000000]},
              {"configs": ["a.json"], "set": {"a": []}}, {"configs": ["a.json"], "table": "b"}):
    assert list(validator.iter_errors(wrong)), wrong
for good in ({"configs": ["a.json"], "ranks": 2, "link": "10mbit", "cores": 0.5}, {"rows": "a.rows", "only": "b*", "short": {"seeds": 1, "plan_links": [0.5, 10]}},
             {"$schema": "sweep.jsonschema", "configs": [{"name": "a", "config": "a.json", "ranks": 3}]}):
    assert not list(validator.iter_errors(good)), good
PY
python3 "$WORK/schema.py" "$EQT_ROOT" || wrong "the schema of sweeps"

# Every committed sweep can be read, in full and short.
for file in "$EQT_ROOT"/configs/sweeps/*.json; do
  for size in "" --short; do
    run "$sweep" "$file" --out "$WORK/committed" --dry-run $size
    expect_code 0 "$(basename "$file") $size"
  done
done
finish
