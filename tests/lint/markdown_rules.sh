#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Markdown check must find violations: each of these files has one, except the last ones.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect CODE TEXT: a file with TEXT, in the folder of other.md, gives exit code CODE.
expect() {
  local code=$1 text=$2 found=0
  printf '%b\n' "$text" >"$work/probe.md"
  "$root/scripts/check_markdown.sh" "$work" >"$work/out" 2>&1 || found=$?
  if [[ $found -ne $code ]]; then
    printf 'expected exit %s for "%s", found %s:\n' "$code" "$text" "$found"
    cat "$work/out"
    failures=$((failures + 1))
  fi
}

printf '# A heading, with `code`\n' >"$work/other.md"
long=$(printf 'x%.0s' {1..120})
expect 1 "${long}x"
expect 1 "| ${long} |"
expect 1 "\`\`\`\n${long}x\n\`\`\`"
expect 1 '[absent](absent.md)'
expect 1 '[no such heading](other.md#absent)'
expect 1 '[no such heading here](#absent)'
expect 0 "$long"
expect 0 "${long//x/é}"
expect 0 '[there](other.md), [its heading](other.md#a-heading-with-code), [outside](https://example.org/x)'
expect 0 '```\n[no link](absent.md)\n```'

[[ $failures -eq 0 ]] && echo "the Markdown check sees every breach"
