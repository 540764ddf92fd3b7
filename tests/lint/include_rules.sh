#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The include check must find violations: each of these small trees has one, except the last.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect CODE ROOM LINE: a tree whose file in ROOM has LINE gives exit code CODE.
expect() {
  local code=$1 room=$2 line=$3 found=0
  rm -rf "$work/src"
  mkdir -p "$work/src/core" "$work/src/codec" "$work/src/$room"
  touch "$work/src/core/error.hpp" "$work/src/codec/frame.hpp"
  printf '%s\n' "$line" >"$work/src/$room/probe.cpp"
  "$root/scripts/check_includes.sh" "$work/src" >"$work/out" 2>&1 || found=$?
  if [[ $found -ne $code ]]; then
    printf 'expected exit %s for "%s" in %s, found %s:\n' "$code" "$line" "$room" "$found"
    cat "$work/out"
    failures=$((failures + 1))
  fi
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

[[ $failures -eq 0 ]] && echo "the include check sees every breach"
