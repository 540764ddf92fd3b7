#!/usr/bin/env bash
# Checks that every source file and script names its licence: one of its first three lines has
# "SPDX-License-Identifier: Apache-2.0".
#
#   scripts/check_licence.sh [--fix] [FOLDER]
#
#   --fix    add the line where it is missing
#   FOLDER   check the files in this folder instead of the project's
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
readonly line='SPDX-License-Identifier: Apache-2.0'

fix=0
folder=$EQT_ROOT
while [[ $# -gt 0 ]]; do
  case $1 in
    --fix) fix=1; shift ;;
    --help | -h) usage; exit 0 ;;
    -*) fail 2 "unknown argument \"$1\"; see --help." ;;
    *) folder=$1; shift ;;
  esac
done
[[ -d $folder ]] || fail 2 "expected a folder with sources at $folder, found none."

# add FILE: adds the line as a comment at the top, after the line with the interpreter.
add() {
  local mark='#' at=1
  case $1 in
    *.cpp | *.hpp | *.cu | *.cuh | *.c | *.h | *.cpp.in | *.hpp.in | *.h.in) mark='//' ;;
  esac
  [[ $(head -c 2 "$1") != '#!' ]] || at=2
  sed -i "${at}i $mark $line" "$1"
}

mapfile -d '' files < <(find "$folder" \( -name .git -o -name build -o -name runs \) -prune -o -type f \
  \( -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.c' -o -name '*.h' -o -name '*.[ch]pp.in' -o -name '*.h.in' \
  -o -name '*.sh' -o -name '*.py' -o -name '*.cmake' -o -name CMakeLists.txt -o -path '*/.ci/run' \) -print0)
[[ ${#files[@]} -gt 0 ]] || fail 2 "found no sources in $folder."
missing=()
for file in "${files[@]}"; do
  read -r -d '' -n 400 head <"$file" || true
  [[ $(head -n 3 <<<"$head") == *"$line"* ]] || missing+=("$file")
done
if [[ $fix -eq 1 ]]; then
  for file in "${missing[@]}"; do add "$file"; done
  say "${#missing[@]} of ${#files[@]} files got the line"
elif [[ ${#missing[@]} -gt 0 ]]; then
  printf '%s\n' "${missing[@]#"$folder"/}" >&2
  fail 1 "these files do not have \"$line\" in their first three lines; scripts/check_licence.sh --fix adds it."
else
  say "${#files[@]} files name their licence"
fi
