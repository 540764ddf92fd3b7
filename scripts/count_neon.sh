#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Instructions that the compressors take per value on arm64 (NEON), and 8-bit convolutions per multiply-add, counted
# under qemu, and the cycles that llvm-mca models for them: a row for each operation, in Markdown. Nothing is timed.
# Needs build/arm64, which scripts/test_arm64.sh configures.
#
#   scripts/count_neon.sh [options] [OPERATION COMPRESSOR VALUES]... [PASS LAYER MULTIPLY_ADDS]...
#
#   --layers        layers of MobileNets and ResNets in place of the compressors
#   --functions N   also the N functions with most instructions
#   --mca PROGRAM   llvm-mca of LLVM 16 or newer (default llvm-mca-16); without it only instructions are counted
#   --program FILE  the program to count, e.g. of another revision (default build/arm64/tests/pass_once)
#   --help          this text
#
#   scripts/count_neon.sh --functions 5 encode elastiquant 8192
#
# A row is a pass over VALUES values after a first one: encode, feedback or decode; or forward, dX or dW of a LAYER, for
# which qemu is each CPU in turn, since they have other instructions. COMPRESSOR and LAYER as in
# tests/bench/pass_once.cpp. CPUs: Cortex-A72, as on a Raspberry Pi 4; Neoverse N2 in place of Cortex-A76, as on a
# Raspberry Pi 5, which LLVM 16 models as a Cortex-A57.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

functions=0 mca=llvm-mca-16 program=$EQT_ROOT/build/arm64/tests/pass_once layers=""
# shellcheck disable=SC2034 # read_options reads it
declare -A options=([--functions]="natural functions" [--mca]="text mca" [--program]="text program"
  [--layers]="flag layers")
read_options "$@"
if [[ -n $layers ]]; then
  for pass in forward dX dW; do
    # These are products of MobileNetV2 and ResNet and depthwise filters of MobileNetV2 and V3: side, channels, kernel,
    # stride.
    rest+=("$pass" 14:96:192:1:1 3612672 "$pass" 7:384:64:1:1 1204224 "$pass" 7:64:64:3:1 1806336
      "$pass" 28:144:depthwise:3:1 1016064 "$pass" 28:144:depthwise:3:2 254016 "$pass" 14:240:depthwise:5:1 1176000)
  done
fi
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
if [[ $program == "$EQT_ROOT"/build/arm64/tests/pass_once ]]; then
  [[ -e $EQT_ROOT/build/arm64/build.ninja ]] ||
    fail 1 "build/arm64 was not found: run scripts/test_arm64.sh first."
  cmake --build "$EQT_ROOT/build/arm64" --target pass_once >&2
fi
cpus=(cortex-a72 neoverse-n2)
command -v "$mca" >/dev/null || {
  echo "$mca was not found (Debian: llvm-16): counting instructions only." >&2
  cpus=()
}

# count CPU ROW MODEL...: a row of the table for qemu's CPU.
count() {
  local cpu=$1 row=$2
  shift 2
  local words
  read -ra words <<<"$row"
  # The log comes through a pipe: it is a line of 100 bytes an instruction.
  qemu-aarch64-static -L /usr/aarch64-linux-gnu -cpu "$cpu" -singlestep -d exec,nochain -D /dev/stdout \
    -E "LD_LIBRARY_PATH=$ROOT/usr/lib/aarch64-linux-gnu:$ROOT/lib/aarch64-linux-gnu" \
    "$program" "${words[@]}" |
    python3 "$EQT_ROOT/scripts/lib/neon_trace.py" "$program" "${words[2]}" "$functions" "$mca" "$@" |
    awk -F '\t' -v row="$row" 'NR == 1 {
      gsub(" ", " | ", row); gsub("\t", " | "); print "| " row " | " $0 " |"; next } { print }' |
    aarch64-linux-gnu-c++filt
}

print_head() { # print_head WORDS...: of a table
  printf '| %s ' "$@"
  printf '|\n'
  printf '|---%.0s' "$@"
  printf '|\n'
}

is_layer() { [[ $1 == forward || $1 == dX || $1 == dW ]]; }

for ((row = 0, shown = 0; row < ${#rest[@]}; row += 3)); do
  is_layer "${rest[row]}" && continue
  [[ $((shown++)) -gt 0 ]] || print_head operation compressor values instructions "${cpus[@]/#/cycles, }"
  count cortex-a72 "${rest[*]:row:3}" "${cpus[@]}"
done
for ((row = 0, shown = 0; row < ${#rest[@]}; row += 3)); do
  is_layer "${rest[row]}" || continue
  [[ $((shown++)) -gt 0 ]] || print_head pass layer multiply-adds CPU instructions ${cpus:+cycles}
  for cpu in cortex-a72 cortex-a76; do
    model=$cpu
    [[ $cpu == cortex-a72 ]] || model=neoverse-n2
    count "$cpu" "${rest[*]:row:3}" ${cpus:+"$model"} | sed "s/^\(| [^|]*| [^|]*| [^|]*|\)/\1 $cpu |/"
  done
done
