#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The licence check must find a file without its line, and add the line in the right place.
# shellcheck source=tests/lint/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# expect CODE WHAT ARGUMENTS...: the check of $work gives exit code CODE.
expect() {
  local code=$1 what=$2
  shift 2
  expect_code "$code" "$what" "$root/scripts/check_licence.sh" "$@" "$work"
}

# expect_line FILE NUMBER TEXT: this is the file's line of that number.
expect_line() {
  local found
  found=$(sed -n "$2p" "$work/$1")
  [[ $found == "$3" ]] || { printf '%s:%s: expected "%s", found "%s"\n' "$1" "$2" "$3" "$found"; failures=$((failures + 1)); }
}

readonly line='SPDX-License-Identifier: Apache-2.0'
printf '// %s\nint main() {}\n' "$line" >"$work/good.cpp"
expect 0 "a file with its line"
printf '// What it does.\n#pragma once\n' >"$work/probe.hpp"
expect 1 "a header without its line"
printf '#!/bin/sh\necho\n' >"$work/probe.sh"
printf 'add_library(x x.cpp)\n' >"$work/CMakeLists.txt"
expect 0 "adding the line" --fix
expect 0 "after the line was added"
expect_line probe.hpp 1 "// $line"
expect_line probe.hpp 2 "// What it does."
expect_line probe.sh 1 '#!/bin/sh'
expect_line probe.sh 2 "# $line"
expect_line CMakeLists.txt 1 "# $line"

report "the licence check sees every file without its line"
