# SPDX-License-Identifier: Apache-2.0
# What the tests of the checks share. Source it first: sets root and work, a folder that goes at the end.
# shellcheck shell=bash
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect_code CODE WHAT COMMAND...: the command gives exit code CODE; WHAT it looks at, for the message.
expect_code() {
  local code=$1 what=$2 found=0
  shift 2
  "$@" >"$work/out" 2>&1 || found=$?
  if [[ $found -ne $code ]]; then
    printf '%s: expected exit %s, found %s:\n' "$what" "$code" "$found"
    cat "$work/out"
    failures=$((failures + 1))
  fi
}

# report SENTENCE: the sentence, when nothing failed; otherwise the test fails.
report() {
  [[ $failures -eq 0 ]] && echo "$1"
}
