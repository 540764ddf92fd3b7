#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# output.timeline: what every rank did when in the last steps, and who waits for whom.
# CTest gives it the program without LibTorch, which starts faster: ranks here compute nothing.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

boards=(--set train.steps=8 --set 'train.emulate_compute=[0.02, 0.02, 0.1]' --set compressor.name=none
  --set synchronization.collective=dense)

train 3 off "${boards[@]}"
expect_code 0 "a run without a timeline"
hash=$(summary parameter_hash)
[[ ! -e $RUN/timeline.jsonl ]] || wrong "a timeline that nobody asked for"
! grep -q rank_seconds "$RUN/metrics.jsonl" || wrong "seconds by rank that nobody asked for"

for overlap in true false; do
  train 3 "on-$overlap" "${boards[@]}" --set output.timeline=3 --set "synchronization.overlap=$overlap"
  expect_code 0 "a run with a timeline, overlap $overlap"
  expect_equal "$hash" "$(summary parameter_hash)" "parameters, overlap $overlap"
  python3 - "$RUN" <<'PY' || wrong "the timeline or the seconds by rank are wrong, overlap $overlap"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1] + "/timeline.jsonl")]
assert [(l["step"], l["rank"]) for l in lines] == [(s, r) for s in (6, 7, 8) for r in range(3)], lines
end = 0
for line in lines:
    spans = line["spans"]
    assert all(0 <= begin <= end for _, begin, end in spans), spans
    seconds = {name: 0 for name in ("compute", "wait", "messages", "transfer", "update", "data")}
    for name, begin, end in spans:
        seconds[name] += end - begin
    assert seconds["compute"] >= (0.1 if line["rank"] == 2 else 0.02) - 1e-5, line
    # Ranks 0 and 1 have their gradient when rank 2 still computes, and cannot go on.
    assert line["rank"] == 2 or seconds["wait"] >= 0.03, line
    assert seconds["transfer"] > 0 or line["rank"] == 2, line
# The steps of all ranks overlap, by a clock that they share.
for step in (6, 7, 8):
    computing = [(s[1], s[2]) for l in lines if l["step"] == step for s in l["spans"] if s[0] == "compute"]
    assert max(begin for begin, _ in computing) < min(begin + 0.1 for begin, _ in computing), computing
epochs = [r for r in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")) if r["type"] == "epoch"]
ranks = epochs[0]["rank_seconds"]
assert len(ranks) == 3 and ranks[2]["compute"] >= 0.8, ranks
assert ranks[0]["transfer"] >= 8 * 0.03, ranks
assert max(r["compute"] for r in ranks) == epochs[0]["seconds"]["compute"], epochs
PY
done

program report "$RUN" --out "$WORK/report" --steps 7:8
expect_code 0 "a report"
grep -q 'rank 2 is the slowest' "$OUT" || wrong "the report does not name the slowest rank"
[[ -s $WORK/report/waiting.csv ]] || wrong "there is no table of waits"
if command -v gnuplot >/dev/null; then
  grep -q 'steps 7 to 8' "$WORK/report/timeline.svg" || wrong "there is no timeline of the steps asked for"
fi
program report "$WORK/off" --out "$WORK/report-off"
expect_code 0 "a report without a timeline"
! grep -qi 'timeline\|is the slowest' "$OUT" || wrong "a report tells of a timeline that is not there"
program report "$RUN" --out "$WORK/report" --steps 8:7
expect_failure 2 '--steps' "steps in the wrong order"
echo '{"step": 1' >>"$RUN/timeline.jsonl" && echo >>"$RUN/timeline.jsonl"
program report "$RUN" --out "$WORK/report"
expect_failure 3 'timeline.jsonl:10' "a line that is none"

# Gossip, local SGD and asynchronous ranks; a new run replaces the old timeline.
for algorithm in choco-sgd local-sgd; do
  train 3 "on-false" "${boards[@]}" --overwrite --set output.timeline=2 --set "synchronization.algorithm=$algorithm" \
    --set synchronization.collective=auto
  expect_code 0 "$algorithm"
  expect_equal 6 "$(wc -l <"$RUN/timeline.jsonl")" "$algorithm: lines of two steps"
done
train 4 pairs "${boards[@]}" --set train.emulate_compute=0.02 --set output.timeline=2 \
  --set synchronization.algorithm=ad-psgd --set synchronization.collective=auto
expect_code 0 "asynchronous gossip"
expect_number "$(wc -l <"$RUN/timeline.jsonl")" ">=" 4 "asynchronous gossip: lines"
finish
