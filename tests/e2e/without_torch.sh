#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program of a build without LibTorch, EQT_WITHOUT_TORCH: it loads none, computes the bytes of the usual
# program with 8-bit operands, needs little memory, and refuses what only LibTorch computes.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
grep -Eq 'avx2|asimd' /proc/cpuinfo || skip "this processor has neither AVX2 nor NEON, so a step takes minutes"
usual=$EQT_PROGRAM small=${EQT_WITHOUT_TORCH:?must name the executable}

run ldd "$small"
expect_code 0 "ldd"
! grep -Eq 'torch|libc10|blas' "$OUT" || wrong "it loads LibTorch or a BLAS"

# Float32 by its own kernels: the same loss but for rounding.
losses=()
for program in "$usual" "$small"; do
  EQT_PROGRAM=$program
  train 2 "float32.$(basename "$program")" --set train.batch_size=32 --set train.steps=2
  expect_code 0 "$program, fp32"
  expect_equal true "$(summary replicas_identical)" "$program, fp32: replicas"
  losses+=("$(summary train_loss)")
done
expect_number "$(python3 -c "print(abs(${losses[0]} / ${losses[1]} - 1))")" "<" 0.001 "difference of losses, fp32"
run "$small" evaluate "$RUN" --set data.limit_test=32
expect_code 0 "evaluate, fp32"

eight=(--set model.precision=int8 --set train.batch_size=32 --set train.steps=4)
for program in "$usual" "$small"; do
  EQT_PROGRAM=$program
  train 2 "$(basename "$program")" "${eight[@]}" --set compressor.name=e-elastiquant
  expect_code 0 "$program"
  expect_equal true "$(summary replicas_identical)" "$program: replicas"
  summary parameter_hash >>"$WORK/hashes"
done
expect_equal 1 "$(sort -u "$WORK/hashes" | wc -l)" "hashes with and without LibTorch"
# 64 MiB and the synthetic set, 12,000 pictures of 3 KiB.
expect_number "$(summary peak_rss_mib)" "<=" 99 "MiB of a rank that trains ResNet-20, 32 pictures a step"

folder=$RUN
run "$small" evaluate "$folder" --set data.limit_test=32
expect_code 0 "evaluate"

# A network of another kind.
for program in "$usual" "$small"; do
  EQT_PROGRAM=$program
  train 2 "vit.$(basename "$program")" --set model.name=vit_tiny --set model.precision=int8 --set train.batch_size=4 \
    --set train.steps=2
  expect_code 0 "$program, vit_tiny"
  summary parameter_hash >>"$WORK/vit_hashes"
done
expect_equal 1 "$(sort -u "$WORK/vit_hashes" | wc -l)" "hashes of vit_tiny with and without LibTorch"
formats=(safetensors state-dict onnx)
if ! "$usual" export "$folder" --to onnx --out "$WORK/try.onnx" 2>"$WORK/words"; then
  grep -q 'libonnx-dev' "$WORK/words" || wrong "a build without ONNX's library does not say what to install"
  echo "[eqt-note] the program was built without ONNX's library: no export to ONNX was compared"
  unset 'formats[2]'
fi
for format in "${formats[@]}"; do
  run "$usual" export "$folder" --to "$format" --out "$WORK/usual.$format"
  expect_code 0 "export to $format with LibTorch"
  run "$small" export "$folder" --to "$format" --out "$WORK/small.$format"
  expect_code 0 "export to $format"
  cmp "$WORK/usual.$format" "$WORK/small.$format" || wrong "$format: other bytes than with LibTorch"
done
run "$small" export "$folder" --to torchscript --out "$WORK/net.pt"
expect_failure 2 'safetensors or state-dict in this build' "an archive of operations"

run "$small" check --config tiny.json --set model.precision=bf16
expect_failure 2 'expected "fp32" or "int8" in this build, which has no LibTorch, found "bf16"' "bf16"
run "$small" check --config tiny.json --set 'model.freeze=["fc.*"]'
expect_code 0 "frozen layers"
run "$small" --config tiny.json --out "$WORK/board" --set model.precision=fp32 --set train.emulate_compute=0.001 --set train.steps=2
expect_code 0 "an emulated board, whose network does not compute"
run "$small" check --config tiny.json --set model.name=bert --set train.emulate_compute=0.001
[[ $CODE -eq 2 ]] || wrong "a network of a file: exit code $CODE"
run "$small" --version
grep -Eq '^LibTorch +none$' "$OUT" || wrong "--version hides that there is no LibTorch"
run "$small" analyze memory --measured
expect_code 0 "analyze memory --measured"
run "$small" doctor
expect_code 0 "doctor"
grep -q 'LibTorch .*none: our own kernels train, in fp32 and int8' "$OUT" || wrong "doctor hides that there is no LibTorch"
finish
