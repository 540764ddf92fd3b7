#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that are missing, builds everything and runs every test that CI runs:
# all labels except bench and long, in build/release. A second call builds only what has changed.
#
#   scripts/test.sh [--label REGEX] [--asan | --tsan] [-- ctest arguments]
#
#   --label REGEX   only tests whose label matches:
#                   unit property golden mpi e2e lint fuzz threads bench long
#   --asan          unit, property, golden and mpi tests under AddressSanitizer and
#                   UndefinedBehaviorSanitizer, in build/asan
#   --tsan          tests that start threads, under ThreadSanitizer, in build/tsan
#   --help          this text
#
#   scripts/test.sh --label mpi -- -R collective
# EQT_SKIP_INSTALL=1 installs nothing. A run in which no test matches fails.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/packages.sh
source "$EQT_ROOT/scripts/lib/packages.sh"

preset=release
target=all
label=""
while [[ $# -gt 0 ]]; do
  case $1 in
    --label) value_of "$1" $#; label=$2; shift 2 ;;
    --asan) preset=asan target=test_programs; shift ;;
    --tsan) preset=tsan target=threads; shift ;;
    --help | -h) usage; exit 0 ;;
    --) shift; break ;;
    *) fail 2 "unknown argument \"$1\"; see --help." ;;
  esac
done

selection=(-LE "^(bench|long)$")
if [[ -n $label ]]; then
  selection=(-L "$label")
elif [[ $preset == asan ]]; then
  selection=(-L "^(unit|property|golden|mpi)$")
elif [[ $preset == tsan ]]; then
  selection=(-L "^threads$")
fi

packages=("${EQT_BUILD_PACKAGES[@]}" "${EQT_DATA_PACKAGES[@]}" "${EQT_TEST_PACKAGES[@]}")
[[ $label != *bench* ]] || packages+=("${EQT_BENCH_PACKAGES[@]}")
install_packages "${packages[@]}"
installed=$SECONDS
build "$preset" "$target"
built=$SECONDS

say "Testing in build/$preset: ctest ${selection[*]} $*"
status=0
# Tests wait a third of their time, for processes that start and for deadlines.
ctest --test-dir "$EQT_ROOT/build/$preset" --no-tests=error --output-on-failure \
  --parallel $((($(cores) * 3 + 1) / 2)) "${selection[@]}" "$@" || status=$?
# From CTest's log: why tests were skipped, and which part of a matrix ran.
awk '/^[0-9]+\/[0-9]+ Test: / { name = $3 }
  match($0, /\[eqt-(skip|note)\] /) {
    print (substr($0, RSTART, 9) == "[eqt-skip" ? "skipped: " : "note: ") name ": " substr($0, RSTART + RLENGTH)
  }' "$EQT_ROOT/build/$preset/Testing/Temporary/LastTest.log" 2>/dev/null | uniq || true
say "$SECONDS s: installing $installed s, building $((built - installed)) s," \
  "testing $((SECONDS - built)) s"
[[ $status -eq 0 ]] || fail 1 "tests failed, or none was found; ctest's list stands above."
