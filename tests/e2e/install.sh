#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The installed tree works in any folder: program, configs and licence, with real data.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
: "${EQT_BUILD_DIR:?must name the build tree}"

run cmake --install "$EQT_BUILD_DIR" --prefix "$WORK/prefix"
expect_code 0 "cmake --install"
[[ $CODE -eq 0 ]] || finish
share=$WORK/prefix/share/equant-train
[[ -s $share/LICENSE ]] || wrong "the licence is not installed"
for file in "$EQT_ROOT"/configs/*/; do
  [[ -d $share/configs/$(basename "$file") ]] || wrong "configs/$(basename "$file") is not installed"
done

EQT_PROGRAM=$WORK/prefix/bin/equant-train
program --version
expect_code 0 "the installed program's --version"
RUN=$WORK/installed
run "$EQT_ROOT/scripts/run_local.sh" --ranks 2 -- --config "$share/configs/quickstart.json" \
  --out "$RUN" --set data.limit_train=128 --set data.limit_test=64 --set train.steps=2 \
  --set train.batch_size=16 --set threads_per_rank=1
if [[ $CODE -eq 3 ]]; then
  expect_text 'dataset-fashion-mnist' "the sentence about data that is not installed"
  finish
fi
expect_code 0 "the installed quick start"
[[ $CODE -ne 0 ]] || expect_equal true "$(summary replicas_identical)" "replicas"
finish
