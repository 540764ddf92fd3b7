#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The include check must find violations: each of these small trees has one, except the last.
# shellcheck source=tests/lint/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# expect CODE ROOM LINE: a tree whose file in ROOM has LINE gives exit code CODE.
expect() {
  local code=$1 room=$2 line=$3
  rm -rf "$work/src"
  mkdir -p "$work/src/core" "$work/src/codec" "$work/src/$room"
  touch "$work/src/core/error.hpp" "$work/src/codec/frame.hpp"
  printf '%s\n' "$line" >"$work/src/$room/probe.cpp"
  expect_code "$code" "\"$line\" in $room" "$root/scripts/check_includes.sh" "$work/src"
}

expect 1 core '#include "codec/frame.hpp"'
expect 1 codec '#include <mpi.h>'
expect 1 train '#include <mpi.h>'
expect 1 data '#include <torch/torch.h>'
expect 1 weights '#include <torch/torch.h>'
expect 1 comm '#include "codec/frame.hpp"'
expect 1 collective '#include <nlohmann/json.hpp>'
expect 1 metrics '#include <CLI/CLI.hpp>'
expect 1 codec '  #  include "core/absent.hpp"'
expect 1 codec '#include "frame.hpp"'
expect 1 train 'auto c = codec::make_compressor(row, options);'
expect 1 surprise '#include <vector>'
expect 1 app '#include <Eigen/Core>'
expect 1 topology '#include "comm/session.hpp"'
expect 0 topology '#include <Eigen/Core>'
expect 0 codec '#include "core/error.hpp"'
expect 0 comm '#include <mpi.h>'
expect 0 app '#include "codec/frame.hpp"'
expect 0 core '#include <vector>'

report "the include check sees every breach"
