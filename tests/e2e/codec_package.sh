#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Another project finds the installed codecs, compresses an array with them, and compiles the C header.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
: "${EQT_BUILD_DIR:?must name the build tree}"

prefix=$WORK/prefix
for part in library develop; do
  run cmake --install "$EQT_BUILD_DIR" --prefix "$prefix" --component "$part"
  expect_code 0 "cmake --install --component $part"
done
run cmake -S "$EQT_ROOT/docs/examples/compress_array" -B "$WORK/build" -DCMAKE_PREFIX_PATH="$prefix"
expect_code 0 "configuring the example"
run cmake --build "$WORK/build"
expect_code 0 "building the example"
run "$WORK/build/compress_array"
expect_code 0 "the example"
grep -q '^bits per value 4\.06' "$OUT" || wrong "the example does not print 4 bits and the norms: $(cat "$OUT")"

cat >"$WORK/abi.c" <<'C'
#include <equant/codec.h>
int main(void) { return equant_codec_abi() == EQUANT_CODEC_ABI ? 0 : 1; }
C
libraries=$(dirname "$(find "$prefix" -name libequant_codec.so)")
run cc -std=c99 -Wall -Wextra -Werror -pedantic -I"$prefix/include" "$WORK/abi.c" -o "$WORK/abi" \
  -L"$libraries" -lequant_codec -Wl,-rpath,"$libraries"
expect_code 0 "compiling a C program"
run "$WORK/abi"
expect_code 0 "the C program"
# Nothing but the interface is visible.
nm -D --defined-only "$libraries/libequant_codec.so" | awk '$3 !~ /^(equant_codec_|EQUANT_CODEC_0)/ { print $3 }' \
  >"$WORK/others"
[[ ! -s $WORK/others ]] || wrong "other symbols are visible: $(head -3 "$WORK/others")"
finish
