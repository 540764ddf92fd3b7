#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Other projects find the installed codecs: CMake's in C++ and C, a compiler through pkg-config, and PyTorch.
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

python=/usr/bin/python3  # Debian's, which python3-torch belongs to
if "$python" -c 'import torch.distributed as d; assert d.is_gloo_available()' 2>/dev/null; then
  hook=$(find "$prefix" -name ddp_hook.py)
  port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
  run env -u EQUANT_CODEC_LIBRARY RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" "$python" "$hook" topk '{}' 6
  expect_code 0 "the installed ddp_hook.py with the installed library"
  expect_equal true "$(value "$OUT" identical)" "the result of the installed ddp_hook.py"
fi
finish
