#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --resume: checkpoints of killed jobs, notes, refusals.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
saves=(--set train.steps=12 --set checkpoint.every_steps=4)
feedback=(--set compressor.name=topk --set compressor.density=0.05)

# hash_of FOLDER
hash_of() { value "$WORK/$1/summary.json" parameter_hash; }

# cut_to FOLDER STEP: as if the run had been killed with STEP as its newest checkpoint.
cut_to() {
  local set
  for set in "$WORK/$1"/checkpoints/step-*; do
    [[ $((10#${set##*step-})) -le $2 ]] || rm -rf "$set"
  done
  rm -f "$WORK/$1/summary.json" "$WORK/$1/model.pt"
}

# copy_of FOLDER NAME
copy_of() { rm -rf "${WORK:?}/$2" && cp -r "$WORK/$1" "$WORK/$2"; }

note_of() { grep '"type":"note"' "$WORK/$1/metrics.jsonl" | grep -qE -- "$2" || wrong "$1: expected a note that matches \"$2\""; }

train 2 whole "${saves[@]}" "${feedback[@]}" --set checkpoint.keep=3
expect_code 0 "a run with checkpoints"
whole=$(hash_of whole)
for step in 04 08 12; do
  set=$WORK/whole/checkpoints/step-000000$step
  for file in rank-0-of-2.eqt rank-1-of-2.eqt manifest.json; do
    [[ -s $set/$file ]] || wrong "expected $set/$file"
  done
  for rank in 0 1; do
    bytes=$(stat -c %s "$set/rank-$rank-of-2.eqt")
    grep -q "\"rank-$rank-of-2.eqt\", \"bytes\": $bytes," "$set/manifest.json" ||
      wrong "$set/manifest.json does not have the $bytes bytes of rank $rank"
  done
done
note_of whole "3 checkpoints of .* MB a rank paused training"

# Killed twice. The set of step 4 is complete when that of step 8 begins, which may or may not be on
# the disks.
export EQT_FAULT=kill:rank=1,step=9
train 2 killed "${saves[@]}" "${feedback[@]}"
expect_different 0 "$CODE" "a killed run"
# The power fails while the newest file is being written: half of it is on the disk.
export EQT_FAULT=truncate-checkpoint:rank=0,step=12,phase=checkpoint
train 2 killed "${saves[@]}" "${feedback[@]}" --resume
expect_different 0 "$CODE" "a run killed again"
unset EQT_FAULT
train 2 killed "${saves[@]}" "${feedback[@]}" --resume
expect_code 0 "a run resumed twice"
expect_text "rank-0-of-2.eqt: expected" "half a file"
expect_equal "$whole" "$(hash_of killed)" "killed twice"
expect_equal 12 "$(grep -c '"type":"step"' "$WORK/killed/metrics.jsonl")" "records of steps"
expect_equal 1 "$(grep -c '"type":"run"' "$WORK/killed/metrics.jsonl")" "records of the run"
note_of killed "continues from the checkpoint of step [48]"

# A finished run has nothing to do, unless it gets more epochs.
train 2 killed "${saves[@]}" "${feedback[@]}" --resume
expect_code 0 "a finished run, resumed"
expect_text "is finished after 12 steps; raise train.epochs or train.steps" "a finished run, resumed"
[[ -s $WORK/killed/model.pt && -s $WORK/killed/summary.json ]] || wrong "a finished run lost its results"
train 2 killed "${saves[@]}" "${feedback[@]}" --set train.steps=14 --resume
expect_code 0 "a finished run with more steps"
expect_equal 14 "$(summary steps)" "more steps"
train 2 killed "${saves[@]}" "${feedback[@]}" --set train.steps=8 --resume
expect_failure 2 "train.steps: expected at least the 14 steps" "fewer steps than were taken"

# No checkpoint.
train 2 nothing "${saves[@]}" --resume
expect_code 0 "--resume in an empty folder"
note_of nothing "has no complete checkpoint: the run starts from the beginning"
train 1 never
train 1 never --resume
expect_failure 2 "found a finished run without one" "a finished run without checkpoints"
train 2 whole "${saves[@]}" "${feedback[@]}"
expect_failure 2 "try another --out, --resume or --overwrite" "a folder with results"
train 2 whole "${saves[@]}" --resume --overwrite
expect_failure 2 "excludes" "--resume and --overwrite"

# All changed keys that affect the meaning of the state are named and refused; other changes are
# reported.
copy_of whole changed
cut_to changed 8
train 2 changed "${saves[@]}" "${feedback[@]}" --resume --set optimizer.momentum=0.5 --set seed=2
expect_failure 2 "seed 2 instead of 1.*optimizer.momentum 0.5 instead of 0.9" "a changed config"
train 2 changed "${saves[@]}" "${feedback[@]}" --resume --set train.evaluate_every=0 \
  --set optimizer.learning_rate=0.01
expect_code 0 "a config that may change"
note_of changed "train.evaluate_every 0 instead of 1, optimizer.learning_rate 0.01 instead of 0.05"
expect_equal 0.01 "$(value "$WORK/changed/config.json" optimizer.learning_rate)" "config.json"

# A damaged file is named, and the set before is used.
copy_of whole damaged
cut_to damaged 8
file=$WORK/damaged/checkpoints/step-00000008/rank-1-of-2.eqt
printf 'x' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") / 2)) conv=notrunc status=none
train 2 damaged "${saves[@]}" "${feedback[@]}" --resume
expect_code 0 "a damaged file"
expect_text "rank-1-of-2.eqt: expected" "a damaged file"
note_of damaged "continues from the checkpoint of step 4"
expect_equal "$whole" "$(hash_of damaged)" "a damaged file"
cut_to damaged 8
truncate -s -1 "$WORK"/damaged/checkpoints/step-*/rank-?-of-2.eqt
train 2 damaged "${saves[@]}" "${feedback[@]}" --resume
expect_failure 3 "found only damaged ones .*rank-0-of-2.eqt" "only damaged files"

# Boards that changed places: each rank has the other's file in its folder.
mkdir "$WORK/apart"
for rank in 0 1; do
  copy_of whole "apart/$rank"
  cut_to "apart/$rank" 8
  rm -f "$WORK/apart/$rank"/checkpoints/step-*/rank-"$rank"-of-2.eqt
done
cat >"$WORK/own_folder.sh" <<SH
#!/bin/sh
exec "$EQT_PROGRAM" --config "$WORK/tiny.json" --out "$WORK/apart/\$OMPI_COMM_WORLD_RANK" "\$@"
SH
chmod +x "$WORK/own_folder.sh"
run env EQT_PROGRAM="$WORK/own_folder.sh" "$EQT_ROOT/scripts/run_local.sh" --ranks 2 -- \
  "${saves[@]}" "${feedback[@]}" --resume
expect_code 0 "folders that changed places"
expect_text "rank 0 has no file of step 8 and got it from rank 1" "folders that changed places"
expect_equal "$whole" "$(hash_of apart/0)" "folders that changed places"

# Other numbers of ranks: epochs continue, and so does learning.
epochs=(--set train.epochs=3 --set checkpoint.every_steps=1 --set train.steps=0 "${feedback[@]}")
export EQT_FAULT=kill:rank=2,step=6
train 4 ranks "${epochs[@]}"
unset EQT_FAULT
expect_different 0 "$CODE" "4 ranks, killed"
train 2 ranks "${epochs[@]}" --set train.epochs=2 --resume
expect_code 0 "4 ranks, then 2"
note_of ranks "continues from the checkpoint of step [56], which 4 ranks saved, on 2"
expect_equal true "$(summary replicas_identical)" "4 ranks, then 2"
expect_equal 2 "$(summary epochs)" "4 ranks, then 2: epochs"
# Four steps of 4 ranks make an epoch, eight of 2 ranks: step 6 is its middle.
steps=$(summary steps)
[[ $steps -eq 10 || $steps -eq 11 ]] || wrong "4 ranks, then 2: expected 10 or 11 steps, found $steps"
train 3 ranks "${epochs[@]}" --resume
expect_code 0 "2 ranks, then 3"
expect_equal 3 "$(summary epochs)" "2 ranks, then 3: epochs"
expect_equal $((steps + 5)) "$(summary steps)" "2 ranks, then 3: steps"
train 2 gossip "${saves[@]}" --set synchronization.algorithm=choco-sgd --set compressor.name=topk
train 3 gossip "${saves[@]}" --set synchronization.algorithm=choco-sgd --set compressor.name=topk \
  --set train.steps=16 --resume
expect_code 0 "gossip of 2 ranks, then 3"
expect_equal 16 "$(summary steps)" "gossip of 2 ranks, then 3"

# A run that is made longer ends as if it had been planned so: with its rounds of gossip, and without an
# average too many.
longer() { train "$@" --set train.epochs=9 --set checkpoint.every_steps=3; }
gossip=(--set synchronization.algorithm=d-psgd --set synchronization.final_rounds=2)
longer 3 mixed "${gossip[@]}" --set train.steps=3
longer 3 mixed "${gossip[@]}" --set train.steps=6 --resume
expect_code 0 "a longer run with final rounds"
expect_equal "3 6" "$(python3 -c 'import json, sys
notes = [json.loads(line) for line in open(sys.argv[1]) if "rounds of gossip alone" in line]
print(*[note["step"] for note in notes])' "$RUN/metrics.jsonl")" "steps after which models are mixed alone"
delayed=(--set synchronization.algorithm=local-sgd --set synchronization.local_steps=3 --set synchronization.delay=3
  --set synchronization.outer.momentum=0.5)
longer 2 planned "${delayed[@]}" --set train.steps=9
bytes=$(summary sent_bytes)
longer 2 delayed "${delayed[@]}" --set train.steps=6
longer 2 delayed "${delayed[@]}" --set train.steps=9 --resume
expect_code 0 "a longer run of delayed averages"
expect_equal "$bytes" "$(summary sent_bytes)" "a longer run of delayed averages: bytes"

# after FOLDER STEP: the steps behind STEP in which ranks sent something.
after() {
  python3 -c 'import json, sys
steps = [json.loads(line) for line in open(sys.argv[1]) if "\"type\":\"step\"" in line]
print(*[step["step"] for step in steps if step["sent_bytes"] > 0 and step["step"] > int(sys.argv[2])])' \
    "$WORK/$1/metrics.jsonl" "$2"
}
late=(--set synchronization.algorithm=d-psgd --set synchronization.local_steps=2 --set synchronization.delay=1
  --set synchronization.final_rounds=3)
longer 2 late_planned "${late[@]}" --set train.steps=15
longer 2 late "${late[@]}" --set train.steps=6
longer 2 late "${late[@]}" --set train.steps=15 --resume
expect_code 0 "a longer run of late gossip with final rounds"
expect_equal "$(after late_planned 7)" "$(after late 7)" "late gossip behind final rounds: steps that send"
# A higher rate makes rounds shorter: the mean of the round that ended with step 8 would have been due before step 10.
rounds=(--set synchronization.algorithm=local-sgd --set synchronization.local_steps=qsr --set synchronization.delay=auto
  --set synchronization.local_steps_alpha=0.1 --set synchronization.local_steps_most=8)
train 2 rounds "${rounds[@]}" --set optimizer.learning_rate=0.01 --set train.steps=16 --set checkpoint.every_steps=5 \
  --set checkpoint.keep=9
cut_to rounds 10
train 2 rounds "${rounds[@]}" --set optimizer.learning_rate=0.1 --set train.steps=16 --set checkpoint.every_steps=5 --resume
expect_code 0 "rounds that are shorter after a stop"
expect_equal "11 13 15 16" "$(after rounds 10)" "rounds that are shorter after a stop: steps that send"

# A run that is made shorter closes the epoch that its checkpoint is in, as one that was to be that short.
short=(--set synchronization.algorithm=d-psgd --set synchronization.final_rounds=2 --set train.epochs=9
  --set data.limit_train=192 --set checkpoint.every_steps=5)
train 3 short_planned "${short[@]}" --set train.steps=5
expect_code 0 "a short run"
train 3 short "${short[@]}" --set train.steps=8
cut_to short 5
train 3 short "${short[@]}" --set train.steps=5 --resume
expect_code 0 "a run that is made shorter"
for key in steps epochs sent_bytes train_loss test_accuracy parameter_hash; do
  expect_equal "$(value "$WORK/short_planned/summary.json" "$key")" "$(summary "$key")" "a run that is made shorter: $key"
done
# On more ranks the steps that one rank took may be less than one.
few=(--set data.limit_train=400 --set train.batch_size=10 --set checkpoint.every_steps=1 --set train.steps=1)
train 1 few "${few[@]}"
train 4 few "${few[@]}" --resume
expect_code 0 "a step of one rank on four"
# Slices that events left out are counted on other ranks, too.
events=(--set synchronization.algorithm=choco-sgd --set synchronization.event_threshold=2 --set compressor.name=topk
  --set checkpoint.every_steps=3 --set train.epochs=9)
train 3 events "${events[@]}" --set train.steps=6
train 2 events "${events[@]}" --set train.steps=9 --resume
expect_code 0 "events on fewer ranks"
train 4 events "${events[@]}" --set train.steps=12 --resume
expect_code 0 "events on more ranks"

# Checkpoints keep the accuracy alone of what was measured: a run that was killed behind its last one measures again.
train 1 results --set train.steps=4 --set checkpoint.every_steps=2
top5=$(summary test_top5)
expect_different null "$top5" "accuracy among the five likeliest"
cut_to results 4
train 1 results --set train.steps=4 --set checkpoint.every_steps=2 --resume
expect_code 0 "a run that has only its results left to write"
expect_equal "$top5" "$(summary test_top5)" "a run that has only its results left to write: top-5 accuracy"

# A disk that is full. A set takes about 7 MB: one fits, or none.
mkdir -p "$WORK/full"
full_disk() {
  mount -t tmpfs -o "size=$1" tmpfs "$WORK/full" 2>/dev/null || return
  trap 'umount -l "$WORK/full"; rm -rf "$WORK"' EXIT
}
if full_disk 11m; then
  train 2 full "${saves[@]}" "${feedback[@]}"
  expect_code 0 "a disk with room for one set"
  expect_text "step 8 was not written on rank .*No space left.* the checkpoint of step 4 stays" "a full disk"
  expect_equal step-00000004 "$(ls "$RUN/checkpoints")" "a full disk"
  [[ -s $RUN/summary.json && -s $RUN/model.pt ]] || wrong "a full disk: expected the run's results"
  umount -l "$WORK/full"
  full_disk 5m
  train 2 full "${saves[@]}" "${feedback[@]}"
  expect_code 74 "a disk without room for a set"
  expect_text "the checkpoint of step 12 was not written.*No space left" "a disk without room"
  umount -l "$WORK/full"
  trap 'rm -rf "$WORK"' EXIT
else
  trap 'rm -rf "$WORK"' EXIT
  echo "no rights to mount: a full disk is not tried"
fi
finish
