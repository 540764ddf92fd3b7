#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Another CMake project finds the installed codecs and compresses an array with them.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
: "${EQT_BUILD_DIR:?must name the build tree}"

prefix=$WORK/prefix
run cmake --install "$EQT_BUILD_DIR" --prefix "$prefix" --component develop
expect_code 0 "cmake --install --component develop"
run cmake -S "$EQT_ROOT/docs/examples/compress_array" -B "$WORK/build" -DCMAKE_PREFIX_PATH="$prefix"
expect_code 0 "configuring the example"
run cmake --build "$WORK/build"
expect_code 0 "building the example"
run "$WORK/build/compress_array"
expect_code 0 "the example"
grep -q '^bits per value 4\.06' "$OUT" || wrong "the example does not print 4 bits and the norms: $(cat "$OUT")"
finish
