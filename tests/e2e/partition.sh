#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Skewed data: the run record has the classes of each rank, they add up, and they can be plotted.
# CTest gives it the program without LibTorch, which starts faster: data are divided before anything trains.
# local_data.sh divides data with LibTorch.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
plot=$EQT_ROOT/scripts/plot_partition.sh
skew=(--set data.partition.kind=skew --set data.partition.skew=0.8)

# The labels of 256 synthetic images alternate: six classes of 26 and four of 25. 20 of each are in
# the sorted list: 200, of which two ranks take int(102.4) each, and int(25.6) at random. The sorted
# list is too short: 102 + 25 samples and 98 + 25, and 6 are not used. The smaller shard has 7
# batches of 16.
train 2 skewed "${skew[@]}" --set train.steps=0 --set output.progress=lines
expect_code 0 "a run with skew 0.8"
[[ $CODE -eq 0 ]] || finish
python3 - "$RUN/metrics.jsonl" <<'PY' || wrong "the run record does not tell what was trained on"
import json, sys
run = json.loads(open(sys.argv[1]).readline())
ranks = run["class_histogram"]
assert run["type"] == "run" and run["partition"] == {"kind": "skew", "skew": 0.8}, run
assert [sum(rank) for rank in ranks] == [127, 123], ranks
assert run["leftover_samples"] == 6 and run["train_samples"] == 256, run
assert run["steps_per_epoch"] == 7, run
assert all(len(rank) == 10 for rank in ranks), ranks
sizes = [26] * 6 + [25] * 4
assert all(sum(rank[c] for rank in ranks) <= sizes[c] for c in range(10)), ranks
assert all(ranks[0][c] >= 20 for c in range(5)) and all(ranks[1][c] >= 20 for c in range(6, 10)), ranks
PY
expect_equal 7 "$(summary steps)" "steps of the smaller shard"
grep -q 'partition skew 0.8: 6 samples left over' "$ERR" || wrong "the console does not name the partition"
grep -q 'rank 1 .* 123 samples  class' "$ERR" || wrong "the console does not show rank 1"
# A terminal has no time stamp; the lines of a log are longer by one.
awk '{ sub(/^[0-9-]+ [0-9:]+  /, "") } /^(partition|rank) / { seen = 1; if (length > 80) exit 1 } END { if (!seen) exit 1 }' "$ERR" ||
  wrong "a line is wider than 80 columns"
hash=$(summary parameter_hash)
skewed=$RUN
train 2 repeated "${skew[@]}" --set train.steps=0
expect_equal "$hash" "$(summary parameter_hash)" "the same skewed run again"

train 3 dirichlet --set data.partition.kind=dirichlet --set data.partition.alpha=0.5
expect_code 0 "a run with a Dirichlet partition"
python3 - "$RUN/metrics.jsonl" <<'PY' || wrong "Dirichlet: shards are not equal"
import json, sys
run = json.loads(open(sys.argv[1]).readline())
assert run["partition"] == {"kind": "dirichlet", "alpha": 0.5}, run
assert [sum(rank) for rank in run["class_histogram"]] == [85, 85, 85], run
assert run["leftover_samples"] == 1, run
PY

train 2 even --set output.progress=lines
python3 - "$RUN/metrics.jsonl" <<'PY' || wrong "IID: histogram or leftovers"
import json, sys
run = json.loads(open(sys.argv[1]).readline())
assert run["partition"] == {"kind": "iid", "reshuffle": True} and run["leftover_samples"] == 0, run
assert [sum(counts) for counts in zip(*run["class_histogram"])] == [26] * 6 + [25] * 4, run
PY
! grep -q 'rank 0' "$ERR" || wrong "IID: the console speaks of the partition"

# Fixed shards have other batches from the first step on, and also cover the set.
hash=$(summary parameter_hash)
train 2 fixed --set data.partition.reshuffle=false
expect_code 0 "fixed shards"
[[ $(summary parameter_hash) != "$hash" ]] || wrong "data.partition.reshuffle changes nothing"

# Invalid configs.
program check --config "$WORK/tiny.json" "${skew[@]}" --set data.partition.reshuffle=true
expect_failure 2 'data\.partition\.reshuffle.*skew' "skewed shards that are reshuffled"
program check --config "$WORK/tiny.json" --set data.partition.skew=0.8
expect_failure 2 'data\.partition\.kind.*skew.*iid' "a skew without the kind"
program check --config "$WORK/tiny.json" --set data.partition.kind=skewed
expect_failure 2 'data\.partition\.kind.*skew' "a misspelt kind"
train 2 refused "${skew[@]}" --set train.batch_size=124
expect_failure 2 'train\.batch_size.*123.*skew.*124' "a batch larger than the smaller shard"
train 4 refused --set data.partition.kind=dirichlet --set data.limit_train=3 --set train.batch_size=1
expect_failure 2 'data\.limit_train' "more ranks than samples"

# The plot. A replacement for gnuplot prints its input.
mkdir "$WORK/without" "$WORK/stand-in"
for name in bash python3 dirname basename env awk mktemp rm cat tail; do
  ln -s "$(command -v $name)" "$WORK/without/$name"
done
run env "PATH=$WORK/without" bash "$plot" "$skewed"
expect_failure 1 'gnuplot' "no gnuplot"
[[ ! -e $skewed/partition.svg ]] || wrong "no gnuplot: a plot is there"
cat >"$WORK/stand-in/gnuplot" <<'SH'
#!/bin/sh
script=$(cat)
bars=$(printf '%s\n' "$script" | sed -n 's/^plot .*"\(.*\)" using.*/\1/p')
cp "$bars" "$(printf '%s\n' "$script" | sed -n 's/^set output "\(.*\)"/\1/p')"
SH
chmod +x "$WORK/stand-in/gnuplot"
run env "PATH=$WORK/stand-in:$PATH" "$plot" "$skewed" --out "$WORK/bars"
expect_code 0 "a plot"
python3 - "$WORK/bars" "$skewed/metrics.jsonl" <<'PY' || wrong "the bars are not the class histogram"
import json, sys
bars = [[int(n) for n in line.split()] for line in open(sys.argv[1])]
ranks = json.loads(open(sys.argv[2]).readline())["class_histogram"]
assert bars == [[rank] + counts for rank, counts in enumerate(ranks)], bars
PY
run env "PATH=$WORK/stand-in:$PATH" "$plot" "$WORK/nowhere"
expect_failure 3 'nowhere' "a plot of no run"
mkdir "$WORK/foreign"
echo '{"type": "run"}' >"$WORK/foreign/metrics.jsonl"
run env "PATH=$WORK/stand-in:$PATH" "$plot" "$WORK/foreign"
expect_failure 3 'class_histogram' "a plot of a run without histogram"
run "$plot"
expect_failure 2 'run folder' "a plot of nothing"
if command -v gnuplot >/dev/null; then
  run "$plot" "$skewed"
  expect_code 0 "a plot by gnuplot"
  grep -q '</svg>' "$skewed/partition.svg" || wrong "gnuplot wrote no whole SVG"
fi
finish
