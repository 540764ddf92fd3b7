#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks every Markdown file of the project: no line is longer than 120 columns, and every relative link
# names a file, and a heading in it, that exist.
#
#   scripts/check_markdown.sh [FOLDER]
#
#   FOLDER   check the files in this folder instead of the project's
#
# Prints file:line and what is wrong, and ends with 1 if something is.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
case ${1:-} in
  --help | -h) usage; exit 0 ;;
  -*) fail 2 "unknown argument \"$1\"; see --help." ;;
esac
folder=${1:-$EQT_ROOT}
[[ -d $folder ]] || fail 2 "expected a folder with Markdown files at $folder, found none."

status=0
python3 - "$folder" <<'PYTHON' || status=$?
import os
import re
import sys

COLUMNS = 120
NOT_OURS = {".git", "build", "runs"}
LINK = re.compile(r"\]\(([^)\s]+)\)")


def markdown_files(folder):
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in NOT_OURS)
        yield from (os.path.join(place, f) for f in sorted(files) if f.endswith(".md"))


def outside_code(path):
    """(number, line) of all lines that stand in no code block."""
    code = False
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            yield number, line


def anchor(heading):
    """The name that GitHub gives to a heading."""
    kept = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower())
    return kept.replace(" ", "-")


def anchors(path):
    return {anchor(line.lstrip("#")) for _, line in outside_code(path) if line.startswith("#")}


def broken_link(path, target):
    """What is wrong with a link of the file at `path`; None if nothing is."""
    if re.match(r"[a-z]+:", target):
        return None
    name, _, heading = target.partition("#")
    there = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
    if not os.path.exists(there):
        return f"the link {target} names a file that does not exist"
    if heading and there.endswith(".md") and heading not in anchors(there):
        return f"the link {target} names a heading that does not exist"
    return None


def breaches(path):
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if len(line.rstrip("\n")) > COLUMNS:
            yield number, f"{len(line) - 1} columns, more than {COLUMNS}"
    for number, line in outside_code(path):
        for target in LINK.findall(line):
            wrong = broken_link(path, target)
            if wrong:
                yield number, wrong


files = list(markdown_files(sys.argv[1]))
if not files:
    sys.exit(3)
found = [f"{os.path.relpath(path, sys.argv[1])}:{number}: {wrong}"
         for path in files for number, wrong in breaches(path)]
print("\n".join(found), file=sys.stderr, end="\n" if found else "")
if not found:
    print(f"== {len(files)} Markdown files are in order")
sys.exit(1 if found else 0)
PYTHON
case $status in
  0) ;;
  3) fail 2 "found no Markdown file in $folder." ;;
  *) fail 1 "these lines of Markdown are too long or have broken links." ;;
esac
