#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the scripts: what another host answers, through ask, on, on_host or found, reaches arithmetic only after
# require_number or is_number. Bash takes words there for expressions, and runs the commands in them.
#
#   scripts/check_answers.sh [FOLDER]
#
#   FOLDER   check the scripts in this folder instead of the project's
#
# Prints file:line and the word, and ends with 1 if there is one.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
case ${1:-} in
  --help | -h) usage; exit 0 ;;
  -*) fail 2 "unknown argument \"$1\"; see --help." ;;
esac
folders=("$EQT_ROOT/scripts" "$EQT_ROOT/packaging")
[[ $# -eq 0 ]] || folders=("$1")
[[ -d ${folders[0]} ]] || fail 2 "expected a folder with scripts at ${folders[0]}, found none."

status=0
python3 - "${folders[@]}" <<'PYTHON' || status=$?
import pathlib
import re
import sys

ANSWER = r"[$<]\((?:ask|on|on_host|found)\b"
ARITHMETIC = re.compile(
    r"\$\(\((.*?)\)\)"                                                # $((...))
    r"|^\s*(?:(?:for|if|while|until|elif) )?\(\((.*)\)\)"             # ((...))
    r"|\[\[ (.*? -(?:eq|ne|lt|le|gt|ge) .*?) \]\]"                    # [[ ... -ge ... ]]
    r"|(?:(?:printf|test|\[\[|\[) -v|\beval|\blet|\b(?:declare|local) -[in]) (.*)"
    r"|\w\[([^]]*)\]"                                                 # a subscript
    r"|\$\{\w+:([^-=+?}][^}]*)\}")                                    # ${text:from:count}


def lines_of(path):
    """(number, text) of each line with those that continue it, without comments."""
    number, text = 0, ""
    for at, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        number = number if text else at
        text += line.removesuffix("\\")
        if not line.endswith("\\"):
            if not text.lstrip().startswith("#"):
                yield number, text
            text = ""


def words(text):
    """The words of a command, as the shell divides them."""
    found, word, depth, quoted = [], "", 0, False
    for place, letter in enumerate(text):
        if letter == '"' and depth == 0:
            quoted = not quoted
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and not quoted and letter in " ;|&":
            found.append(word)
            word = ""
            if letter != " ":
                break
        else:
            word += letter
    return [word for word in [*found, word] if word]


def functions_of(path):
    """(name, its lines); the name of lines outside functions is empty."""
    name, parts = "", {"": []}
    for number, text in lines_of(path):
        begins = re.match(r"(\w+)\(\) [{(]", text)
        if begins:
            name = begins[1]
            parts[name] = []
        parts[name].append((number, text))
        if text in ("}", ")") or (begins and text.rstrip().endswith(("}", ")"))):
            name = ""
    return parts


def mentions(name):
    return rf"\$\{{?{name}\b" if name.isdigit() else rf"\b{name}\b"


def suspects(lines):
    """Variables that get an answer."""
    text = "\n".join(text for _, text in lines)
    return {*re.findall(rf'(\w+)\+?="?{ANSWER}', text),
            *re.findall(rf"(?:mapfile|read)\b[^<\n]* (\w+) <+ ?{ANSWER}", text)}


def breaches(lines, names):
    checked = set()
    for number, text in lines:
        for name in names:
            if re.search(rf"(?:require_number|is_number) [^|&;]*{mentions(name)}", text):
                checked.add(name)
        for match in ARITHMETIC.finditer(text):
            inside = next(group for group in match.groups() if group is not None)
            for name in names - checked:
                if re.search(mentions(name), inside):
                    yield number, f"${name}"
            if re.search(ANSWER, inside):
                yield number, "an answer"


files = sorted(path for folder in sys.argv[1:] for path in pathlib.Path(folder).rglob("*.sh"))
parts = {path: functions_of(path) for path in files}
known = {name for part in parts.values() for name in part if name}
arguments = {}  # of a function: places at which it is given an answer
for part in parts.values():
    answers = suspects(line for lines in part.values() for line in lines)
    for lines in part.values():
        for _, text in lines:
            for call in re.finditer(r"\b(" + "|".join(sorted(known)) + r") (?!\()(.*)", text) if known else ():
                for place, word in enumerate(words(call[2]), 1):
                    if re.search(ANSWER, word) or any(word.strip('"') in (f"${name}", f"${{{name}}}") for name in answers):
                        arguments.setdefault(call[1], set()).add(str(place))
wrong = 0
for path, part in parts.items():
    answers = suspects(line for lines in part.values() for line in lines)
    for function, lines in part.items():
        for number, word in breaches(lines, answers | arguments.get(function, set())):
            print(f"{path}:{number}: {word} of another host in arithmetic; first call require_number")
            wrong += 1
print(f"{len(files)} scripts, {wrong} answers of hosts in arithmetic")
sys.exit(wrong > 0)
PYTHON
[[ $status -eq 0 ]] || fail 1 "an answer of another host is in arithmetic; the list stands above."
