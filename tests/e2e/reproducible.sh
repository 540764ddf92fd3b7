#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same config and seed give the same parameters, with and without overlap, and from the
# config.json of a run.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# hash_of FOLDER ARGUMENTS: the parameter hash of a run on 2 ranks.
hash_of() {
  train 2 "$@"
  if [[ $CODE -ne 0 ]]; then
    wrong "run $1: expected exit code 0, found $CODE"
    HASH=none-$1
  else
    HASH=$(summary parameter_hash)
  fi
}

for compressor in none elastiquant; do
  pick=(--set "compressor.name=$compressor" --set synchronization.bucket_mib=0.25)
  hash_of "$compressor-first" "${pick[@]}"
  first=$HASH
  [[ $first =~ ^[0-9a-f]{16}$ ]] || wrong "parameter_hash: expected 16 hex digits, found $first"
  hash_of "$compressor-again" "${pick[@]}"
  expect_equal "$first" "$HASH" "$compressor: the same run again"
  hash_of "$compressor-blocking" "${pick[@]}" --set synchronization.overlap=false
  expect_equal "$first" "$HASH" "$compressor: overlap off"
done

hash_of other-seed --set compressor.name=elastiquant --set seed=2
expect_different "$first" "$HASH" "another seed"

RUN=$WORK/from-config
run "$EQT_ROOT/scripts/run_local.sh" --ranks 2 -- \
  --config "$WORK/elastiquant-first/config.json" --out "$RUN"
expect_code 0 "a run from config.json"
[[ $CODE -ne 0 ]] || expect_equal "$first" "$(summary parameter_hash)" "a run from config.json"

# quickstart.sh has its own folder and passes arguments on.
train 1 first-out --set train.steps=1 --out "$WORK/last-out"
expect_code 0 "--out given twice"
[[ -e $WORK/last-out/summary.json && ! -e $WORK/first-out ]] || wrong "the last --out does not win"
finish
