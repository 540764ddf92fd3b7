#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The include check must find violations: each of these small trees has one, except the last.
# shellcheck source=tests/lint/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# expect CODE FOLDER/ROOM LINE: a tree whose file in ROOM has LINE gives exit code CODE.
expect() {
  local code=$1 room=$2 line=$3
  rm -rf "$work/src"
  mkdir -p "$work/src/base/core" "$work/src/codecs/codec" "$work/src/$room"
  cp "$root/src/rooms.txt" "$work/src"
  touch "$work/src/base/core/error.hpp" "$work/src/codecs/codec/frame.hpp"
  printf '%s\n' "$line" >"$work/src/$room/probe.cpp"
  expect_code "$code" "\"$line\" in $room" "$root/scripts/check_includes.sh" "$work/src"
}

expect 1 base/core '#include "codec/frame.hpp"'
expect 1 codecs/codec '#include <mpi.h>'
expect 1 learning/train '#include <mpi.h>'
expect 1 learning/data '#include <torch/torch.h>'
expect 1 learning/weights '#include <torch/torch.h>'
expect 1 exchange/comm '#include "codec/frame.hpp"'
expect 1 exchange/collective '#include <nlohmann/json.hpp>'
expect 1 base/metrics '#include <CLI/CLI.hpp>'
expect 1 codecs/codec '  #  include "core/absent.hpp"'
expect 1 codecs/codec '#include "frame.hpp"'
expect 1 learning/train 'auto c = codec::make_compressor(row, options);'
expect 1 surprise/core '#include <vector>'
expect 1 base/surprise '#include <vector>'
expect 1 program/app '#include <Eigen/Core>'
expect 1 exchange/topology '#include "comm/session.hpp"'
expect 0 exchange/topology '#include <Eigen/Core>'
expect 0 codecs/codec '#include "core/error.hpp"'
expect 0 exchange/comm '#include <mpi.h>'
expect 0 program/app '#include "codec/frame.hpp"'
expect 0 base/core '#include <vector>'

# A table in which a room may include one below it.
sed -i 's|^base/core  *: |&comm|' "$work/src/rooms.txt"
expect_code 2 "a table whose arrow goes upward" "$root/scripts/check_includes.sh" "$work/src"

report "the include check sees every breach"
