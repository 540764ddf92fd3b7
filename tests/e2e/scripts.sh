#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The scripts around the program: exit codes and deadlines are passed on; a sweep makes a table,
# continues after a failed run, and can be resumed.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
launch=$EQT_ROOT/scripts/run_local.sh
sweep=$EQT_ROOT/scripts/sweep.sh

# A replacement for the program: each rank exits with the given code.
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

run "$launch" --program "$WORK/stand-in" --bind core --ranks 999 --threads 7 -- --show
expect_failure 2 'need 6993 cores' "more cores than there are"

# What mpirun cannot start is refused before it, which would crash, hang or fill the machine.
run "$launch" --program "$WORK/stand-in" --ranks 99999 -- --show
expect_failure 2 'at most [0-9]+ on this machine with [0-9]+ cores, found 99999' "more ranks than a machine starts"
run "$launch" --program "$WORK/stand-in" --ranks 99999999999999999999 -- --show
expect_failure 2 'number from 1 to 999999999' "a rank count beyond bash's numbers"
run env TMPDIR="$WORK/tiny.json" "$launch" --program "$WORK/stand-in" -- --show
expect_failure 6 'folder for temporary files.*tiny\.json.*set TMPDIR' "a TMPDIR that is no folder"
run bash -c 'ulimit -n 24; exec "$@"' bash "$launch" --program "$WORK/stand-in" -- --show
expect_failure 6 'limit of at least 60 open files.*found 24' "few descriptors"
run bash -c 'ulimit -Sn 24; exec "$@"' bash "$launch" --program "$WORK/stand-in" -- --show
expect_code 0 "few descriptors, of which there may be more"
run "$launch" --program "$WORK/stand-in" -- --code 1
expect_code 6 "mpirun's own exit code"
expect_text 'mpirun ended with exit code 1: it could not start' "mpirun's own exit code"

# Several hosts: problems are reported before Open MPI is started, which would print a page about
# them.
hosts=$EQT_ROOT/scripts/run_hosts.sh
refused_hosts() {
  local code=$1 text=$2
  shift 2
  run "$hosts" --program "$WORK/stand-in" "$@" -- --show
  expect_failure "$code" "$text" "run_hosts.sh $*"
}
refused_hosts 6 'host nosuch\.invalid does not answer' --hosts localhost,nosuch.invalid --shell "$(command -v false)"
refused_hosts 2 'localhost has no network interface nosuch0, but .*lo' --hosts localhost --interface nosuch0
refused_hosts 2 'at most 2 ranks on 1 hosts, found 3' --hosts localhost:2 --ranks 3
refused_hosts 2 'has no executable /nosuch' --hosts localhost --program /nosuch
refused_hosts 2 'fewer than a rank.s --threads 9999' --hosts localhost --bind core --threads 9999
refused_hosts 2 'needs --threads' --hosts localhost --bind core
refused_hosts 2 'found both' --hosts localhost --hostfile "$WORK/hosts"
refused_hosts 2 'readable file' --hostfile "$WORK/nosuch"
refused_hosts 2 'hosts such as' --hosts 'a;b'
# Open MPI 5.0 takes no loopback.
link=$(ip -o -4 route show default 2>/dev/null | sed -nE '1s/.* dev ([^ ]+).*/\1/p')
printf '%s\n' '# the rack' 'localhost slots=2  # this one' >"$WORK/hosts"
run env -u OMPI_ALLOW_RUN_AS_ROOT -u OMPI_ALLOW_RUN_AS_ROOT_CONFIRM "$hosts" --program "$WORK/stand-in" \
  --hostfile "$WORK/hosts" --interface "${link:-lo}" --threads 5 -- --show
expect_equal 2 "$(grep -c '^threads 5$' "$OUT")" "ranks of a host file"
run "$hosts" --program "$WORK/stand-in" --hosts localhost:2 -- --code 4
expect_code 4 "run_hosts.sh passes 4 on"

# Every script refuses an option that it does not know, before it does anything.
for script in "$EQT_ROOT"/scripts/*.sh; do
  run "$script" --no-such-option
  expect_code 2 "$(basename "$script") --no-such-option"
  grep -q -- '--no-such-option' "$ERR" || wrong "$(basename "$script") does not name what it does not know"
done

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

# A file of rows: each with its ranks and settings, seeds averaged.
printf '%s\n' '# name ranks config settings' \
  'alone 1 tiny.json synchronization.algorithm=none  # no exchange' \
  'local 2 tiny.json synchronization.algorithm=local-sgd synchronization.local_steps=2' \
  >"$WORK/two.rows"
rows=(--out "$WORK/rows" --rows "$WORK/two.rows")
run "$sweep" "${rows[@]}" --set 'train.batch_size=16|32' --dry-run
expect_code 0 "a dry run of rows"
expect_equal 2 "$(grep -c '^to run: alone .*on 1 ranks' "$OUT")" "runs of the first row"
expect_equal 2 "$(grep -c '^to run: local .*local_steps=2 .*on 2 ranks' "$OUT")" "runs of the second"
# The lists of plan --vary; commas in brackets or quotes belong to a value.
run "$sweep" "${rows[@]}" --vary train.batch_size=16,32 --vary 'train.batch_sizes=null,[8,24]' --seed 1,2 --dry-run
expect_code 0 "a dry run of lists"
expect_equal 8 "$(grep -c '^to run: alone .*on 1 ranks' "$OUT")" "runs of the first row, 2 x 2 x 2"
expect_equal 4 "$(grep -c '^to run: alone .*train\.batch_sizes=\[8,24\]' "$OUT")" "runs with a list as a value"
run "$sweep" "${rows[@]}" --seed 1,x --dry-run
expect_failure 2 '--seed needs whole numbers.*"x"' "a seed that is none"
run "$sweep" "${rows[@]}" --only 'loc*' --seed 1 --seed 2 -- --set train.steps=4
expect_code 0 "a sweep of rows"
python3 - "$WORK/rows" <<'PY' || wrong "the tables of a sweep of rows are not what was run"
import csv, json, pathlib, statistics, sys
out = pathlib.Path(sys.argv[1])
rows = list(csv.DictReader(open(out / "table.csv", newline="")))
assert [(row["config"], row["seed"]) for row in rows] == [("local", "1"), ("local", "2")], rows
summaries = [json.load(open(out / f"local,seed={seed}" / "summary.json")) for seed in (1, 2)]
for row, summary in zip(rows, summaries):
    assert (summary["ranks"], summary["algorithm"], summary["steps"]) == (2, "local-sgd", 4), summary
    assert abs(float(row["gb_per_node"]) - summary["sent_bytes"] / 2e9) < 1e-12, row
means = (out / "means.txt").read_text().splitlines()[1].split()
mean = statistics.fmean(summary["test_accuracy"] for summary in summaries)
assert means[:2] == ["local", "2"] and abs(float(means[2]) - 100 * mean) < 0.01, means
PY
run "$sweep" "${rows[@]}" --only 'x*' --dry-run
expect_failure 2 'x\*.*alone, local' "a pattern that fits no row"
echo 'short 2' >"$WORK/bad.rows"
run "$sweep" --out "$WORK/rows" --rows "$WORK/bad.rows" --dry-run
expect_failure 2 'bad\.rows:1.*short 2' "half a row"
echo 'lost 2 absent.json' >"$WORK/bad.rows"
run "$sweep" --out "$WORK/rows" --rows "$WORK/bad.rows" --dry-run
expect_failure 2 'bad\.rows:1.*absent\.json' "a row without its config"
# The table of bench_training.sh: speed-ups are against the fastest float32 column, which is named.
{
  echo model,batch,rate,burst_bytes,way,round,step,seconds
  for step in 3 4 5; do
    printf 'resnet18,16,100mbit,8192,%s,1,%d,%s\n' mpi $step 5.0 ddp $step 4.0 none $step 4.2 bf16 $step 2.5 \
      best $step 1.0 alone $step 0.8
  done
} >"$WORK/steps.csv"
run python3 "$EQT_ROOT/scripts/lib/training_table.py" "$WORK/steps.csv" --compressor e-elastiquant --ranks 2 --machine here
expect_code 0 "the table of measured steps"
for text in '| ResNet-18, 16 | 100 Mb/s (8 KiB) | 5.00 | *4.00* | 4.20 | 2.50 | **1.00** | 0.80 | 4.00 | 5.00 | 25 % | 0.40, 1.60 |' \
  'e-elastiquant, overlapped is 4.00 times as fast as the fastest float32 column, PyTorch DDP + Gloo' \
  'no communication at all would be 5.00 times as fast (80 % of that factor is reached)' \
  '2 ranks are 1.60 times as fast as one alone, with that float32 0.40 times'; do
  grep -qF -- "$text" "$OUT" || wrong "the table of measured steps: expected \"$text\""
done
# A second round, in which only two ways ran: brackets have its medians, and ratios of ways within a round.
for step in 3 4 5; do
  printf 'resnet18,16,100mbit,8192,%s,2,%d,%s\n' ddp $step 4.2 best $step 2.0
done >>"$WORK/steps.csv"
run python3 "$EQT_ROOT/scripts/lib/training_table.py" "$WORK/steps.csv" --compressor e-elastiquant --ranks 2 --machine here
expect_code 0 "the table of two rounds"
for text in 'of 2 rounds, in brackets the least and the largest of a round' '| *4.10 (4.00 to 4.20)* | 4.20 |' \
  '**1.50 (1.00 to 2.00)**' '| 2.73 (2.10 to 4.00) |'; do
  grep -qF -- "$text" "$OUT" || wrong "the table of two rounds: expected \"$text\""
done
finish
