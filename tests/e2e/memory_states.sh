#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# checkpoint.memory_seconds: runs that were killed continue from states in the hosts' memory.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export EQT_MEMORY_FOLDER=$WORK/memory
mkdir "$EQT_MEMORY_FOLDER"
base=$EQT_MEMORY_FOLDER/equant-train-$(id -u)
# Steps of at least 10 ms, so that several states are kept before a fault.
common=(--set train.steps=100 --set data.limit_train=6400 --set compressor.name=topk --set compressor.density=0.05)
memory=(--set checkpoint.memory_seconds=0.1)

hash_of() { value "$WORK/$1/summary.json" parameter_hash; }
note_of() { grep '"type":"note"' "$WORK/$1/metrics.jsonl" | grep -qE -- "$2" || wrong "$1: expected a note that matches \"$2\""; }
expect_none() { [[ -z $(ls -A "$base" 2>/dev/null) ]] || wrong "$1: expected no state in memory, found $(ls "$base")"; }
newest_set() { find "$base" -maxdepth 2 -name "step-*" 2>/dev/null | sort | tail -n 1; }

train 2 whole "${common[@]}"
expect_code 0 "a run without states in memory"
[[ ! -e $base ]] || wrong "a run without checkpoint.memory_seconds wrote to memory"

export EQT_FAULT=kill:rank=1,step=90
train 2 killed "${common[@]}" "${memory[@]}"
expect_different 0 "$CODE" "a killed run"
unset EQT_FAULT
[[ -n $(newest_set) ]] || wrong "no state in memory after a kill"
[[ -z $(find "$WORK/killed/checkpoints" -name '*.eqt') ]] || wrong "checkpoints on the disk"
expect_equal 700 "$(stat -c %a "$base")" "permissions of states in memory"
cp -r "$EQT_MEMORY_FOLDER" "$WORK/kept" && cp -r "$WORK/killed" "$WORK/killed.kept"
# back: as it was after the kill.
back() {
  rm -rf "${base:?}" "$WORK/killed" && cp -r "$WORK/kept"/* "$EQT_MEMORY_FOLDER"/ && cp -r "$WORK/killed.kept" "$WORK/killed"
}

train 2 killed "${common[@]}" "${memory[@]}" --resume
expect_code 0 "a run resumed from memory"
note_of killed 'continues from the state in memory of step [1-9]'
expect_equal "$(hash_of whole)" "$(hash_of killed)" "resumed from memory"
expect_equal 100 "$(grep -c '"type":"step"' "$WORK/killed/metrics.jsonl")" "records of steps"
expect_none "a finished run"
python3 - "$WORK/killed" <<'PY' || wrong "starts of a run that was killed"
import json, sys
starts = json.load(open(sys.argv[1] + "/summary.json"))["starts"]
assert starts == [json.loads(line) for line in open(sys.argv[1] + "/starts.jsonl")]
assert [s["from"] for s in starts] == ["the beginning", "a state in memory"], starts
assert all(s["ranks"] == 2 and len(s["hosts"]) == 1 for s in starts), starts
assert starts[0]["step"] == 0 and starts[0]["steps_lost"] == 0, starts
end = starts[1]["step"] + starts[1]["steps_lost"]
assert 0 < starts[1]["step"] <= end <= 90 and starts[1]["seconds_lost"] > 0, starts
PY
program report "$WORK/killed" --out "$WORK/killed.report"
expect_code 0 "a report of a run that was killed"
python3 - "$WORK" <<'PY' || wrong "the report's starts are not those of the summary"
import csv, json, sys
starts = json.load(open(sys.argv[1] + "/killed/summary.json"))["starts"]
rows = list(csv.DictReader(open(sys.argv[1] + "/killed.report/starts.csv")))
assert [row["start"] for row in rows] == ["start 1", "start 2"], rows
for start, row in zip(starts, rows):
    for key in ("step", "ranks", "steps_lost", "seconds_lost"):
        assert float(row[key]) == start[key], (key, row, start)
assert rows[1]["hosts"] == "the same hosts", rows
PY
program report "$WORK/whole" --out "$WORK/whole.report"
expect_code 0 "a report of a run that was started once"
[[ ! -e $WORK/whole.report/starts.csv ]] || wrong "a run that was started once has a table of starts"

# Another number of ranks; and --resume alone finds the states.
back
train 3 killed "${common[@]}" --resume
expect_code 0 "three ranks from the memory of two"
note_of killed 'continues from the state in memory of step [0-9]+, which 2 ranks saved, on 3'
expect_none "three ranks"

# One host is lost with its memory: the others continue with what they have.
back
rm "$base"/*/step-*/rank-1-of-2.eqt
train 1 killed "${common[@]}" "${memory[@]}" --resume
expect_code 0 "one rank from the memory of two"
note_of killed "rank 1's file of step [0-9]+ is nowhere"

# Half a file is none.
back
# The newest set may have been on its way when the run was killed.
truncate -s 1000 "$(find "$base" -name rank-1-of-2.eqt | sort | tail -n 1)"
train 2 killed "${common[@]}" "${memory[@]}" --resume
expect_code 0 "half a file in memory"
expect_text 'rank-1-of-2.eqt: expected [0-9]+ bytes, found 1000' "half a file in memory"

# All hosts were switched off: nothing is in memory, and nothing on disks.
back
rm -rf "${base:?}"
train 2 killed "${common[@]}" "${memory[@]}" --resume
expect_code 0 "nothing in memory"
note_of killed 'no complete checkpoint: the run starts from the beginning'
expect_equal "$(hash_of whole)" "$(hash_of killed)" "from the beginning"

# States of a run whose folder is gone are not taken, but removed.
back
rm -rf "$WORK/killed"
train 2 killed "${common[@]}" "${memory[@]}" --resume
expect_code 0 "another run of the same name"
note_of killed 'the run starts from the beginning'
expect_none "a run after one that is gone"
back
train 2 killed "${common[@]}" "${memory[@]}" --overwrite
expect_code 0 "a run that begins again"
expect_equal "$(hash_of whole)" "$(hash_of killed)" "a run that begins again"
expect_none "a run that begins again"

# A signal: the state is on the disks and in memory.
train_and_stop() {
  local code=0 job
  "$EQT_ROOT/scripts/run_local.sh" --ranks 2 "$WORK/tiny.json" --out "$WORK/stopped" "${common[@]}" "${memory[@]}" \
    --set train.steps=100000 --set train.epochs=1000 >"$WORK/stop.out" 2>"$WORK/stop.err" &
  job=$!
  for ((i = 0; i < 300; i++)); do
    [[ -z $(newest_set) ]] || break
    sleep 0.1
  done
  kill -TERM $job
  wait $job || code=$?
  expect_equal 75 "$code" "exit code of a run that was stopped"
}
rm -rf "${base:?}"
train_and_stop
expect_equal "$(find "$WORK/stopped/checkpoints" -name 'step-*' -printf '%f\n' | sort | tail -n 1)" "$(newest_set | sed 's|.*/||')" "the step in memory after a stop"
[[ -n $(find "$WORK/stopped/checkpoints" -name '*.eqt') ]] || wrong "no checkpoint after a stop"

# A memory that is full, and one that cannot be written.
export EQT_MEMORY_FOLDER=$WORK/none
train 2 nothing "${common[@]}" "${memory[@]}"
expect_code 0 "no memory"
expect_text "no state is kept in the hosts' memory, because of rank 0" "no memory"
expect_equal "$(hash_of whole)" "$(hash_of nothing)" "no memory"
mkdir "$WORK/little"
if mount -t tmpfs -o size=1m tmpfs "$WORK/little" 2>/dev/null; then
  export EQT_MEMORY_FOLDER=$WORK/little
  train 2 full "${common[@]}" "${memory[@]}"
  umount "$WORK/little"
  expect_code 0 "a full memory"
  expect_text 'the state in memory of step [0-9]+ was not written on rank [01]: .*No space left on device.*; training continues' "a full memory"
  expect_equal "$(hash_of whole)" "$(hash_of full)" "a full memory"
else
  echo "[eqt-note] only root can make a memory that is full"
fi
finish
