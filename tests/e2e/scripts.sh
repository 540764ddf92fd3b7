#!/usr/bin/env bash
# The scripts around the program: exit codes and deadlines are passed on; a sweep makes a table,
# survives a run that fails, and resumes.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
launch=$EQT_ROOT/scripts/run_local.sh
sweep=$EQT_ROOT/scripts/sweep.sh

# A stand-in for the program: each rank leaves with the code it is asked for.
cat >"$WORK/stand-in" <<'SH'
#!/bin/sh
case $1 in
  --code) exit "$2" ;;
  --sleep) exec sleep "$2" ;;
  --show) echo "threads $OMP_NUM_THREADS" ;;
esac
SH
chmod +x "$WORK/stand-in"
for code in 0 4 7 70; do
  run "$launch" --program "$WORK/stand-in" --ranks 2 -- --code "$code"
  expect_code "$code" "run_local.sh passes $code on"
done
run "$launch" --program "$WORK/stand-in" --ranks 2 --timeout 1 -- --sleep 30
expect_code 124 "run_local.sh --timeout"
expect_within 10 "run_local.sh --timeout"
run "$launch" --program "$WORK/stand-in" --ranks 3 --threads 5 -- --show
expect_equal 3 "$(grep -c '^threads 5$' "$OUT")" "ranks that see --threads"
run "$launch" --program "$WORK/absent" -- --show
expect_failure 2 'absent' "a program that is not there"
run "$launch" --ranks two -- --show
expect_failure 2 'ranks' "a rank count that is no number"

sed 's/"resnet20"/"resnet999"/' "$WORK/tiny.json" >"$WORK/broken.json"
arguments=(--out "$WORK/sweep" --ranks 2 --config "$WORK/tiny.json" --config "$WORK/broken.json"
  --seed 1 --seed 2)
run "$sweep" "${arguments[@]}" -- --set train.steps=1
expect_code 1 "a sweep with a run that fails"
grep -q 'exit 2' "$OUT" || wrong "the sweep does not report exit 2"
python3 - "$WORK/sweep/table.csv" <<'PY' || wrong "table.csv is not what was run"
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1], newline="")))
assert len(rows) == 4, len(rows)
good = [r for r in rows if r["state"] == "ok"]
assert [r["seed"] for r in good] == ["1", "2"], good
assert all(0 <= float(r["test_accuracy"]) <= 1 and float(r["total_seconds"]) > 0 for r in good)
assert all(r["state"] == "exit 2" and r["test_accuracy"] == "" for r in rows if r not in good)
PY

stamp=$(stat -c %Y "$WORK"/sweep/*seed=1*/summary.json | head -n 1)
run "$sweep" "${arguments[@]}" -- --set train.steps=1
grep -q '^4 runs, 2 of them finished before' "$OUT" || wrong "the sweep runs finished runs again"
expect_equal "$stamp" "$(stat -c %Y "$WORK"/sweep/*seed=1*/summary.json | head -n 1)" \
  "time of a finished summary"
run "$sweep" "${arguments[@]}" -- --set train.steps=2
expect_failure 2 'another' "a sweep with other arguments into the same folder"
finish
