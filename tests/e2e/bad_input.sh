#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Wrong configs, data and folders end every rank with the right code and one helpful sentence.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

BRIEF=(--set train.steps=1 --set train.batch_size=2 --set data.limit_train=8 --set data.limit_test=3)

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

# What is wrong in the config itself: config/unit. All ranks hear of it from rank 0.
refuse 2 'compressor\.bits' "misspelt key" --set compressor.bts=4
refuse 2 'more ranks|sample' "more ranks than samples" --set data.limit_train=1 --set train.batch_size=1
refuse 3 "$WORK/nowhere" "data folder that is not there" \
  --set data.name=cifar10 --set "data.path=$WORK/nowhere"

# What one rank finds out alone. A run that was refused does not prevent the next one in its folder.
# refuse_alone CODE REGEX WHAT [ARGUMENTS]: as refuse, without mpirun.
refuse_alone() {
  local code=$1 text=$2 what=$3
  shift 3
  program --config "$WORK/tiny.json" --out "$WORK/refused" "$@"
  expect_failure "$code" "$text" "$what"
  [[ ! -e $WORK/refused/summary.json ]] || wrong "$what: a refused run wrote a summary"
}
refuse_alone 2 'batch_size|batch' "batch larger than a shard" --set train.batch_size=257
refuse_alone 3 'absent\.pt' "weights that are not there" --set "model.weights=$WORK/absent.pt"
mkdir "$WORK/short"
head -c 1000 /dev/zero >"$WORK/short/data_batch_1.bin"
refuse_alone 3 'data_batch_1\.bin.*1000|1000.*data_batch_1\.bin|data_batch_2\.bin|test_batch\.bin' \
  "truncated data file" --set data.name=cifar10 --set "data.path=$WORK/short"

# The file itself.
program --config "$WORK/absent.json" --out "$WORK/refused"
expect_failure 2 'absent\.json' "config file that is not there"
program --config /dev/zero --out "$WORK/refused"
expect_failure 2 '1048576 bytes' "a config without end"
expect_within 10 "a config without end"

# A run folder in use, and one that cannot be made. Names are not interpreted by a shell.
used="a b;'\$(touch escaped)\`touch escaped\`\"&|*"
train 1 "$used" "${BRIEF[@]}"
expect_code 0 "a run folder with a name for shells"
[[ -s $RUN/summary.json && ! -e $WORK/escaped ]] || wrong "a run folder's name was acted on"
before=$(cat "$RUN/summary.json")
train 1 "$used" "${BRIEF[@]}" --set seed=2
expect_failure 2 'overwrite' "run folder in use"
expect_equal "$before" "$(cat "$RUN/summary.json")" "results in a folder in use"
train 1 "$used" "${BRIEF[@]}" --set seed=2 --overwrite
expect_code 0 "--overwrite"
expect_different "$before" "$(cat "$RUN/summary.json")" "results after --overwrite"
touch "$WORK/file"
train 1 file/run "${BRIEF[@]}"
expect_failure 74 "$WORK/file" "run folder below a file"

# What every run would refuse, check refuses.
refuse_config 'data.limit_train must be between 0' "more samples than there are" --set data.limit_train=1000000000
refuse_config 'expected at most the 8 training samples, found 16' "a batch larger than the set" --set data.limit_train=8
refuse_config 'mean batch of all ranks .*at least train.batch_least' "batches below the least" \
  --set train.batch_sizes=auto --set train.batch_size=4
refuse_config 'match the name of a trained parameter, found "nope' "a group of nothing" \
  --set 'optimizer.groups=[{"names":["nope.*"],"rate_factor":2}]'
refuse_config 'levels do not adapt' "levels that adapt in rounds of a quorum" --set compressor.name=alq \
  --set synchronization.algorithm=local-sgd --set synchronization.delay=auto --set synchronization.quorum=2
refuse_config 'expected 2 numbers, one for each rank, found 3' "batches for other ranks" \
  --set 'train.batch_sizes=[8,8,8]' --ranks 2
# A name in a sentence neither begins a line nor steers a terminal.
program --config $'absent\e[31m\nequant-train: forged \xc2\x9b\xff \xc3\xa4'  # \u in bash needs a locale
expect_failure 2 'absent.*equant-train: forged .* ä; try' "a file whose name has control characters"
! LC_ALL=C grep -q $'[\x01-\x09\x0b-\x1f\x7f\xff]\\|\xc2\x9b' "$ERR" || wrong "control characters of a name were printed"
expect_equal 1 "$(wc -l <"$ERR")" "lines for a name with a line break"
finish
