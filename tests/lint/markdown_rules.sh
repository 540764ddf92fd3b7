#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Markdown check must find violations: each of these files has one, except the last ones.
# shellcheck source=tests/lint/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# expect CODE TEXT: a file with TEXT, in the folder of other.md, gives exit code CODE.
expect() {
  local code=$1 text=$2
  printf '%b\n' "$text" >"$work/probe.md"
  expect_code "$code" "\"$text\"" "$root/scripts/check_markdown.sh" "$work"
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

report "the Markdown check sees every breach"
