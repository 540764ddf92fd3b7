#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that comments of src begin with a sentence, not with a phrase that hangs in the air.

    tests/lint/comments.py [FOLDER]

It reads the first sentence of every file and of every block of /// in *.hpp and *.cpp. One that begins with a
preposition needs a verb later on. This is refused, because nobody is named who does or is anything:

    /// By the order of ranks, without the last one's.
    double sum() const;

This is not: "With equal counts the sum is exact." A comment may begin with a noun or a verb ("Returns the sum."), where
this check does not look for mistakes. It prints file:line and the words, and ends with 1 if there are some.
"""
import pathlib
import re
import sys

# What begins a phrase of place, time or manner; a subject and its verb may follow.
PREPOSITIONS = set("""above across after against among as at before behind below beside besides between beyond by during
    for from in inside into like of off on onto out outside over past per since through to toward towards under until
    up upon via with within without""".split())
# Nothing but a phrase or half a sentence follows these.
NEVER = re.compile(r"(Likewise|Ditto|Whose|And|Or)\b|Not (?!all\b|each\b|every\b|one\b)|Also (?!\w+s\b)")
# After these, what follows a comma is the sentence.
QUESTION = re.compile(r"[A-Z][a-z]+ (what|which|whom|whose)\b[^,]*(,|$)")
THE_SAME = re.compile(r"The same\b")
# The verbs that comments use after such a beginning.
VERBS = set("""add adds allow allows am answer answers apply applies are arrive arrives assume assumes average averages
    be become becomes begin begins belong belongs bring brings build builds call calls came can carry carries change
    changes come comes compares complete compute computes contain contains continue continues copies cost costs could
    count counted counts cross crosses deals decide decides differ differs divide divides do does draw draws encode
    encodes end ends estimate estimates finds finish fits follow follows get gets give gives go goes had has have
    holds ignore ignores is keep keeps leave leaves lies lose loses make makes may mean means measure measures might
    mix mixes move moves must need needs note notes observe observes pay pays prepare prepares read reads receive
    receives record records remain remains repeat repeats replaces return returns round rounds run runs save saves say says see
    send sends set sets shall should sees sort stand stands start starts stay stays stop stops sum sums take takes tell
    tells throw throws time times train trains travel travels turns use uses wait waited waits was were will work works would
    write writes""".split())


def first_sentence(lines):
    """Of the comment that these lines are, without its marks."""
    text = " ".join(re.sub(r"^\s*///? ?", "", line) for line in lines)
    return re.split(r"[.;](?:\s|$)| @", text + " ", maxsplit=1)[0].strip()


def comments(path):
    """Yields (number of the line, first sentence): of the file, and of each block of ///."""
    lines = path.read_text(encoding="utf-8").splitlines()
    marks = [re.match(r"\s*///", line) is not None for line in lines]
    starts = [i for i, mark in enumerate(marks) if mark and (i == 0 or not marks[i - 1])]
    if len(lines) > 1 and "SPDX" in lines[0] and lines[1].startswith("// "):
        starts.insert(0, 1)
    for start in starts:
        end = start + 1
        while end < len(lines) and re.match(r"\s*//", lines[end]):
            end += 1
        yield start + 1, first_sentence(lines[start:end])


def hangs(sentence):
    """Whether it begins with a phrase and has no verb."""
    words = re.findall(r"[A-Za-z]+", sentence)
    if NEVER.match(sentence):
        return True
    begins = bool(words) and re.match(r"[A-Z]", sentence) is not None and words[0].lower() in PREPOSITIONS
    if not begins and not THE_SAME.match(sentence):
        return False
    question = QUESTION.match(sentence) if begins else None
    main_clause = sentence[question.end():] if question else sentence[len(words[0]):]
    return not VERBS & set(re.findall(r"[A-Za-z']+", main_clause))


def main():
    default = pathlib.Path(__file__).resolve().parents[2] / "src"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    assert hangs("By the order of ranks, without the last one's")
    assert not hangs("With equal counts the sum is exact")
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".hpp", ".cpp"))
    if not files:
        sys.exit(f"comments.py: expected sources in {folder}, found none.")
    found = [(path, line, words) for path in files for line, words in comments(path) if hangs(words)]
    for path, line, words in found:
        print(f"{path}:{line}: {words}")
    if found:
        sys.exit(f"comments.py: these {len(found)} comments begin with a phrase and have no verb; name who does or is "
                 "something.")
    print(f"comments.py: the comments of {len(files)} files begin with sentences")


if __name__ == "__main__":
    main()
