#!/usr/bin/env bash
# A sweep in JSON: what is wrong with it is said in one sentence, it is estimated first, makes a table,
# skips what is finished, goes on from checkpoints, and plays ranks in one process where it says so.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
sweep=$EQT_ROOT/scripts/sweep.sh

# refuses REGEX JSON [ARGUMENTS]
refuses() {
  local regex=$1 json=$2
  shift 2
  printf '%s' "$json" >"$WORK/bad.json"
  run "$sweep" "$WORK/bad.json" --out "$WORK/none" --dry-run "$@"
  expect_failure 2 "$regex" "$json"
}
refuses 'bad\.json: expected JSON' '{"configs":'
refuses 'expected an object' '[]'
refuses 'unknown key "seed".*did you mean "seeds"' '{"configs": ["tiny.json"], "seed": [1]}'
refuses 'expected a list for "seeds", found 1' '{"configs": ["tiny.json"], "seeds": 1}'
refuses 'whole numbers in "seeds", found -1' '{"configs": ["tiny.json"], "seeds": [1, -1]}'
refuses 'at least 1 in "ranks", found 0' '{"configs": ["tiny.json"], "ranks": [2, 0]}'
refuses 'at least 1 for "threads", found true' '{"configs": ["tiny.json"], "threads": true}'
refuses 'rates.*"link", found "fast"' '{"configs": ["tiny.json"], "link": ["fast"]}'
refuses 'true or false for "simulate", found 2' '{"configs": ["tiny.json"], "simulate": 2}'
refuses 'no "link" with "simulate"' '{"configs": ["tiny.json"], "simulate": true, "link": ["1gbit"]}'
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

# The grid: rows with settings of their own, a list as a value, ranks, seeds.
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

# Two runs: one under MPI, the same ranks played by one process.
cat >"$WORK/two.json" <<'JSON'
{"configs": [{"name": "ranks", "config": "tiny.json"},
             {"name": "played", "config": "tiny.json", "simulate": true}],
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

# One stands, the other was cut off after its checkpoint of step 4 and goes on from there.
hash=$(value "$WORK/two/played/summary.json" parameter_hash)
stamp=$(stat -c %Y "$WORK/two/ranks/summary.json")
rm -r "$WORK"/two/played/summary.json "$WORK"/two/played/checkpoints/*8
run "$sweep" "$WORK/two.json" --out "$WORK/two"
expect_code 0 "a sweep that goes on"
grep -q '^2 runs, 1 of them finished before' "$OUT" || wrong "the sweep runs a finished run again"
expect_equal "$stamp" "$(stat -c %Y "$WORK/two/ranks/summary.json")" "time of a finished summary"
grep -q 'from the checkpoint of step 4' "$WORK/two/played/metrics.jsonl" ||
  wrong "the run that was cut off does not go on from its checkpoint"
expect_equal "$hash" "$(value "$WORK/two/played/summary.json" parameter_hash)" "parameters of a run that went on"

# What is estimated is not run. Six steps of one process take the place of MPI's here.
run "$sweep" "$WORK/two.json" --out "$WORK/estimated" --estimate --only played
expect_code 0 "an estimate"
grep -qE 'played .*: [0-9.]+ s a step' "$OUT" || wrong "--estimate does not say what a step takes"
[[ ! -e $WORK/estimated ]] || wrong "--estimate leaves a folder"

# Every committed sweep can be read, whole and short.
for file in "$EQT_ROOT"/configs/sweeps/*.json; do
  for size in "" --short; do
    run "$sweep" "$file" --out "$WORK/committed" --dry-run $size
    expect_code 0 "$(basename "$file") $size"
  done
done
finish
