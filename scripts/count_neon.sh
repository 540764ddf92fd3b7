#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Instructions that the compressors take per value on arm64 (NEON), counted under qemu, and the cycles that llvm-mca
# models for them: a row for each compressor and operation, in Markdown. Nothing is timed. Needs build/arm64, which
# scripts/test_arm64.sh configures.
#
#   scripts/count_neon.sh [options] [OPERATION COMPRESSOR VALUES]...
#
#   --functions N   also the N functions with most instructions
#   --mca PROGRAM   llvm-mca of LLVM 16 or newer (default llvm-mca-16); without it only instructions are counted
#   --program FILE  the program to count, e.g. of another revision (default build/arm64/tests/codec_once)
#   --help          this text
#
#   scripts/count_neon.sh --functions 5 encode elastiquant 8192
#
# A row is a pass over VALUES values after a first one: encode, feedback or decode; COMPRESSOR as in
# tests/bench/codec_once.cpp. CPUs: Cortex-A72, as on a Raspberry Pi 4; Neoverse N2 in place of Cortex-A76, as on a
# Raspberry Pi 5, which LLVM 16 models as a Cortex-A57.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

functions=0 mca=llvm-mca-16 program=$EQT_ROOT/build/arm64/tests/codec_once
# shellcheck disable=SC2034 # read_options reads it
declare -A options=([--functions]="natural functions" [--mca]="text mca" [--program]="text program")
read_options "$@"
[[ ${#rest[@]} -gt 0 ]] || rest=(
  encode elastiquant 8192 feedback elastiquant 8192 decode elastiquant 8192 encode qsgd 8192
  encode topk 65536 encode terngrad 8192 decode terngrad 8192 encode signsgd 8192 decode signsgd 8192
  encode e-elastiquant 8192 feedback e-elastiquant 8192 decode e-elastiquant 8192
  encode rans 8192 decode rans 8192)
[[ $((${#rest[@]} % 3)) -eq 0 ]] || fail 2 "expected OPERATION COMPRESSOR VALUES, found \"${rest[*]}\"; see --help."
for tool in qemu-aarch64-static aarch64-linux-gnu-objdump python3; do
  command -v "$tool" >/dev/null || fail 1 "$tool was not found: run scripts/test_arm64.sh, which installs it."
done

readonly ROOT=$EQT_ROOT/build/arm64-root
if [[ $program == "$EQT_ROOT"/build/arm64/tests/codec_once ]]; then
  [[ -e $EQT_ROOT/build/arm64/build.ninja ]] ||
    fail 1 "build/arm64 was not found: run scripts/test_arm64.sh first."
  cmake --build "$EQT_ROOT/build/arm64" --target codec_once >&2
fi
cpus=(cortex-a72 neoverse-n2)
command -v "$mca" >/dev/null || {
  echo "$mca was not found (Debian: llvm-16): counting instructions only." >&2
  cpus=()
}

printf '| operation | compressor | values | instructions'
printf ' | cycles, %s' "${cpus[@]}"
printf ' |\n|---|---|---|---'
printf '|%.0s---' "${cpus[@]}"
printf '|\n'
for ((row = 0; row < ${#rest[@]}; row += 3)); do
  # The log comes through a pipe: it is a line of 100 bytes an instruction.
  qemu-aarch64-static -L /usr/aarch64-linux-gnu -cpu cortex-a72 -singlestep -d exec,nochain -D /dev/stdout \
    -E "LD_LIBRARY_PATH=$ROOT/usr/lib/aarch64-linux-gnu:$ROOT/lib/aarch64-linux-gnu" \
    "$program" "${rest[@]:row:3}" |
    python3 "$EQT_ROOT/scripts/lib/neon_trace.py" "$program" "${rest[row + 2]}" "$functions" "$mca" "${cpus[@]}" |
    awk -F '\t' -v row="${rest[*]:row:3}" 'NR == 1 {
      gsub(" ", " | ", row); gsub("\t", " | "); print "| " row " | " $0 " |"; next } { print }' |
    aarch64-linux-gnu-c++filt
done
