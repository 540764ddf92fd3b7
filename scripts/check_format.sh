#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that src/ and tests/ are formatted as .clang-format says (LLVM 14, Debian's clang-format-14)
# and that no comment is longer than its 100 columns.
#
#   scripts/check_format.sh [--fix]
#
#   --fix   rewrite the files instead; long comments are wrapped by hand
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

action=(--dry-run -Werror)
case ${1:-} in
  "") ;;
  --fix) action=(-i) ;;
  --help | -h) usage; exit 0 ;;
  *) fail 2 "unknown argument \"$1\"; see --help." ;;
esac
# Other versions format differently, so they cannot be used instead.
command -v clang-format-14 >/dev/null || {
  echo "[eqt-skip] clang-format-14 is not installed"
  exit 0
}
mapfile -d '' files < <(find "$EQT_ROOT/src" "$EQT_ROOT/tests" \
  \( -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' \) -print0)
[[ ${#files[@]} -gt 0 ]] || fail 2 "found no sources in $EQT_ROOT."
found=$(cd "$EQT_ROOT" && clang-format-14 "${action[@]}" "${files[@]}" 2>&1) || {
  grep -oE '^[^ :]+:[0-9]+' <<<"$found" | sort -t: -k1,1 -u >&2 || printf '%s\n' "$found" >&2
  fail 1 "these files, from the line named, are not formatted as .clang-format says;" \
    "scripts/check_format.sh --fix mends them."
}
# clang-format does not wrap comments, because it would break the tables in them.
if long=$(cd "$EQT_ROOT" && grep -nE '^.{101,}$' "${files[@]}" | grep -E '^[^:]+:[0-9]+:([^"]* )?//'); then
  printf '%s\n' "$long" | cut -d: -f1,2 >&2
  fail 1 "these comments are longer than 100 columns; wrap them by hand."
fi
say "${#files[@]} files are formatted"
