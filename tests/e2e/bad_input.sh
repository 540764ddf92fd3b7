#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Wrong configs, data and folders end every rank with the right code and one helpful sentence.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# refuse CODE REGEX WHAT [ARGUMENTS]: a run on 2 ranks that must not start.
refuse() {
  local code=$1 text=$2 what=$3
  shift 3
  train 2 refused "$@"
  expect_failure "$code" "$text" "$what"
  expect_within 10 "$what"
  [[ ! -e $RUN/summary.json ]] || wrong "$what: a refused run wrote a summary"
  rm -rf "$RUN"
}

refuse 2 'compressor\.bits' "misspelt key" --set compressor.bts=4
refuse_config 'optimizer\.learning_rate' "misspelt key of another section" --set optimizer.learning_rat=0.1
refuse_config 'elastiquant' "misspelt compressor" --set compressor.name=elastiqant
refuse_config 'train\.epochs' "word where a number belongs" --set train.epochs=many
refuse_config 'compressor\.bits' "number out of range" --set compressor.bits=77
refuse 2 'more ranks|sample' "more ranks than samples" --set data.limit_train=1 --set train.batch_size=1
refuse 2 'batch_size|batch' "batch larger than a shard" --set train.batch_size=129
refuse_config 'topk.*qsgd' "a dense compressor on the sparse collective" \
  --set synchronization.collective=sparse --set compressor.name=qsgd
refuse 3 "$WORK/nowhere" "data folder that is not there" \
  --set data.name=cifar10 --set "data.path=$WORK/nowhere"
refuse 3 'absent\.pt' "weights that are not there" --set "model.weights=$WORK/absent.pt"

mkdir "$WORK/short"
head -c 1000 /dev/zero >"$WORK/short/data_batch_1.bin"
refuse 3 'data_batch_1\.bin.*1000|1000.*data_batch_1\.bin|data_batch_2\.bin|test_batch\.bin' \
  "truncated data file" --set data.name=cifar10 --set "data.path=$WORK/short"

# Invalid keys: nested too deeply, too long, repeated, no text.
refuse_config 'levels of nesting' "--set nested without end" \
  --set "schedule.milestones=$(printf '[%.0s' {1..5000})$(printf ']%.0s' {1..5000})"
refuse_config 'twice' "a key twice in --set" --set 'schedule.milestones={"a": 1, "a": 2}'
refuse_config 'data\.path' "a path of two lines" --set "data.path=a
b"
refuse_config 'train\.steps' "a number of 21 digits" --set train.steps=184467440737095516160
refuse_config 'seed' "a seed below 0" --set seed=-1
refuse_config 'name' "a name that leaves its folder" --set name=../escaped
refuse_config 'data\.path' "a path that is not UTF-8" --set "data.path=$(printf 'a\377')"

# Names are not interpreted by a shell.
awkward="$WORK/a b;'\$(touch escaped)\`touch escaped\`\"&|*"
train 1 "$(basename "$awkward")" --set train.steps=1
expect_code 0 "a run folder with a name for shells"
[[ -s $RUN/summary.json && ! -e $WORK/escaped ]] || wrong "a run folder's name was acted on"
train 1 "$(basename "$awkward")" --set train.steps=1
expect_failure 2 'overwrite' "a run folder with a name for shells, in use"

# The file itself.
config() {
  run "$EQT_ROOT/scripts/run_local.sh" --ranks 2 -- --config "$1" --out "$WORK/refused"
}
config "$WORK/absent.json"
expect_failure 2 'absent\.json' "config file that is not there"
config /dev/zero
expect_failure 2 '1048576 bytes' "a config without end"
expect_within 10 "a config without end"
echo '{"train": {"epochs": 1' >"$WORK/broken.json"
config "$WORK/broken.json"
expect_failure 2 'broken\.json' "config that is not JSON"
echo '{"trian": {"epochs": 1}}' >"$WORK/section.json"
config "$WORK/section.json"
expect_failure 2 'train' "misspelt section"

# A run that was refused does not prevent the next one.
for attempt in first second; do
  train 1 again --set data.name=cifar10 --set "data.path=$WORK/nowhere"
  expect_failure 3 "$WORK/nowhere" "the $attempt of two runs without data"
done

# A run folder in use, and one that cannot be made.
train 1 used --set train.steps=1
expect_code 0 "first run into a folder"
before=$(cat "$RUN/summary.json")
train 1 used --set train.steps=1 --set seed=2
expect_failure 2 'overwrite' "run folder in use"
expect_equal "$before" "$(cat "$RUN/summary.json")" "results in a folder in use"
train 1 used --set train.steps=1 --set seed=2 --overwrite
expect_code 0 "--overwrite"
expect_different "$before" "$(cat "$RUN/summary.json")" "results after --overwrite"
touch "$WORK/file"
train 1 file/run --set train.steps=1
expect_failure 74 "$WORK/file" "run folder below a file"
finish
