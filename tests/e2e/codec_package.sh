#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Other projects find the installed codecs: CMake's in C++ and C, a compiler through pkg-config, and Python.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
: "${EQT_BUILD_DIR:?must name the build tree}"
export CMAKE_GENERATOR=Ninja  # as the sources themselves; make need not be there

prefix=$WORK/prefix
run cmake --install "$EQT_BUILD_DIR" --prefix "$prefix" --component develop
expect_code 0 "cmake --install --component develop"

# example NAME: builds docs/examples/NAME by itself, with what is installed, and runs it.
example() {
  run cmake -S "$EQT_ROOT/docs/examples/$1" -B "$WORK/$1" -DCMAKE_PREFIX_PATH="$prefix"
  expect_code 0 "configuring the example $1"
  run cmake --build "$WORK/$1"
  expect_code 0 "building the example $1"
  run "$WORK/$1/$1"
  expect_code 0 "the example $1"
  grep -q '^bits per value 4\.06' "$OUT" || wrong "$1 does not print 4 bits and the norms: $(cat "$OUT")"
}
example compress_array

[[ -e $EQT_BUILD_DIR/libequant_codec.so ]] || finish  # EQT_C_INTERFACE is off
run cmake --install "$EQT_BUILD_DIR" --prefix "$prefix" --component library
expect_code 0 "cmake --install --component library"
example compress_in_c

libraries=$(dirname "$(find "$prefix" -name libequant_codec.so.1)")
export PKG_CONFIG_PATH=$libraries/pkgconfig LD_LIBRARY_PATH=$libraries
read -ra flags < <(pkg-config --cflags --libs equant_codec)
run cc -std=c99 "$EQT_ROOT/docs/examples/compress_in_c/compress_in_c.c" "${flags[@]}" -o in_c
expect_code 0 "compiling with the flags of pkg-config: ${flags[*]}"
run ./in_c
expect_code 0 "the example that was compiled with the flags of pkg-config"

python=/usr/bin/python3
if "$python" -c 'import numpy' 2>/dev/null; then
  packages=$(dirname "$(dirname "$(find "$prefix" -path '*/equant/__init__.py')")")
  run env -u EQUANT_CODEC_LIBRARY PYTHONPATH="$packages" "$python" -B -c "import equant, numpy
print(equant.__file__, len(equant.decompress(equant.compress(numpy.ones(50), 'topk'))))"
  expect_code 0 "the installed Python package with the installed library"
  expect_equal "$packages/equant/__init__.py 50" "$(cat "$OUT")" "what it decompresses"
fi
finish
