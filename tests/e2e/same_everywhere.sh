#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that were started with different configs end before they train, with each key that differs.
# CTest gives it the program without LibTorch, which starts faster: nothing is computed. mixed_torch.sh has ranks
# with different networks' libraries.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

command -v mpirun >/dev/null || skip "mpirun is not on PATH"
mpirun --version 2>/dev/null | grep -q "Open MPI\|Open RTE\|OpenRTE" || skip "no Open MPI"

steps=(--set train.emulate_compute=0 --set train.steps=2)

# two CONFIG ARGUMENTS... : CONFIG ARGUMENTS...: rank 0 and 1 with different arguments.
two() {
  local first=() more=()
  while [[ $1 != : ]]; do first+=("$1"); shift; done
  shift
  more=("$@")
  RUN=$WORK/two
  rm -rf "$RUN"
  run_by_rank -- "$EQT_PROGRAM" --out "$RUN" --config "${first[@]}" "${steps[@]}" : \
    "$EQT_PROGRAM" --config "${more[@]}" "${steps[@]}"
}

# refused REGEX WHAT: no rank trained, and the error matches.
refused() {
  expect_failure 2 "$1" "$2"
  [[ ! -e $RUN/summary.json ]] || wrong "$2: a refused run wrote a summary"
}

two tiny.json --set compressor.name=qsgd : tiny.json --set compressor.name=qsgd
expect_code 0 "the same arguments twice"

two tiny.json --set compressor.name=qsgd : tiny.json --set compressor.name=qsgd --set compressor.bits=8
refused 'rank 1: expected the config of rank 0, found compressor\.bits 8 instead of 4;' "one key"
two tiny.json --set seed=3 --set output.progress=lines : tiny.json --set optimizer.momentum=0
refused 'rank 1.*seed 1 instead of 3, optimizer\.momentum 0\.0 instead of 0\.9, output\.progress "off" instead of "lines"' \
  "keys of both ranks"

# Different files are refused; a name that only rank 0 can read is not.
sed 's/"batch_size": 16/"batch_size": 17/' tiny.json >other.json
cp tiny.json copy.json
two tiny.json : other.json
refused 'rank 1.*train\.batch_size 17 instead of 16' "another file"
two tiny.json : copy.json
expect_code 0 "a copy of the file"
two tiny.json : "$WORK/absent.json"
expect_code 0 "a file that only rank 0 has"
# Skewed shards depend on the labels: with other files on one host, a sample would be used twice.
for host in here there; do
  mkdir "$WORK/$host"
  for file in data_batch_{1..5} test_batch; do truncate -s 30730000 "$WORK/$host/$file.bin"; done
done
printf '\001' | dd of="$WORK/there/data_batch_1.bin" bs=1 seek=$((5 * 3073)) conv=notrunc status=none
files=("$WORK/tiny.json" --set data.name=cifar10 --set data.path=. --set data.limit_train=100
  --set data.partition.kind=skew --set data.partition.skew=1 --set train.steps=1)
hosts() {
  RUN=$WORK/hosts
  rm -rf "$RUN"
  run_by_rank -- env -C "$WORK/here" "$EQT_PROGRAM" --out "$RUN" --config "${files[@]}" : \
    env -C "$WORK/$1" "$EQT_PROGRAM" --config "${files[@]}"
}
hosts there
expect_failure 3 'rank 1: expected the data set of rank 0, found training labels hash.*data\.path' \
  "another label on one host"
[[ ! -e $RUN/summary.json ]] || wrong "another label on one host: the run wrote a summary"
# The first pixel of the first test image.
cp -r "$WORK/here" "$WORK/elsewhere"
printf '\007' | dd of="$WORK/elsewhere/test_batch.bin" bs=1 seek=1 conv=notrunc status=none
hosts elsewhere
expect_failure 3 'rank 1: expected the data set of rank 0, found test images hash.*data\.path' \
  "another pixel on one host"
hosts here
expect_code 0 "the same files on both hosts"
finish
