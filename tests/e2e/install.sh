#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The installed tree works in any folder: program, configs, scripts and licence, with real data.
# Messages of the program and the scripts name installed files.
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
program check --config "$share/configs/cifar10_resnet20/none.json"
expect_failure 3 "run $share/scripts/get_data.sh cifar10 and set data.path" "the installed program's check"
expect_equal cifar10 "$(value "$OUT" data.name)" "the installed program's check prints the config"
run env -u XDG_DATA_HOME HOME="$WORK/home" "$share/scripts/get_data.sh" --help
expect_code 0 "the installed get_data.sh"
grep -q "default: $WORK/home/.local/share/equant-train/data" "$OUT" || wrong "get_data.sh: expected a folder of the user's"
run "$share/scripts/run_local.sh" --help
grep -q "$share/configs/quickstart.json --set" "$OUT" || wrong "run_local.sh --help: expected installed paths"
run env -u EQT_PROGRAM "$share/scripts/run_local.sh" --ranks 1 -- list models
expect_code 0 "the installed run_local.sh finds the installed program"
mv "$WORK/prefix/bin/equant-train" "$WORK/prefix/bin/other"
run env -u EQT_PROGRAM "$share/scripts/run_local.sh" --ranks 1 -- list models
expect_failure 2 'install equant-train again' "run_local.sh without the program"
mv "$WORK/prefix/bin/other" "$WORK/prefix/bin/equant-train"
# Every link of the documents to another one holds where they are installed.
for document in README.md docs/runs.md configs/README.md src/README.md; do
  while read -r target; do
    [[ -e $share/$(dirname "$document")/$target ]] || wrong "$document: expected $target beside it"
  done < <(grep -oE '\]\([^):#]+\.md' "$share/$document" | cut -c3-)
done
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
