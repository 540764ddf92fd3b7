#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a set of labelled texts that every Debian machine has: descriptions of packages, and the section of the
archive as their class. For data.name "text".

    scripts/debian_texts.py DIR [--sections games,math,...] [--words 8000] [--test-share 0.1]

DIR then holds train.csv, test.csv, classes.txt and vocab.txt. Long descriptions are in the set if apt has them:
    sudo apt-get -o Acquire::Languages=en update
Without them each text is one line. Packages of one source are all in training or all in the test set, and a text
occurs once. The vocabulary is made of the training set alone: special tokens, each character at the beginning and
inside of words, the most frequent words, and endings of other words.
"""
import argparse
import collections
import csv
import hashlib
import os
import re
import subprocess
import sys
import unicodedata

SECTIONS = ("database editors education electronics fonts games graphics hamradio mail math science sound text vcs "
            "video web").split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def fail(sentence):
    print(f"debian_texts.py: {sentence}", file=sys.stderr)
    sys.exit(3)


def packages():
    """Members of each package that apt knows."""
    command = ["apt-cache", "-o", "Acquire::Languages=en", "dumpavail"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        fail(f"expected apt-cache to list packages, but {error}; run this on Debian")
    for stanza in listed.stdout.decode("utf-8", "replace").split("\n\n"):
        members = {}
        for match in re.finditer(r"^([A-Za-z0-9-]+):[ \t]*(.*(?:\n[ \t].*)*)", stanza, re.MULTILINE):
            members[match[1].lower()] = match[2]
        if "package" in members:
            yield members


def description_of(members):
    """In one line: the short description, and the long one if there is one."""
    text = members.get("description-en", members.get("description", ""))
    lines = ["" if line.strip() == "." else line.strip() for line in text.split("\n")]
    return " ".join(" ".join(lines).split())


def is_test(members, share):
    """By the source package, so that packages that are almost the same stay together."""
    source = members.get("source", members["package"]).split(" ")[0]
    drawn = int.from_bytes(hashlib.sha256(source.encode()).digest()[:8], "big")
    return drawn < share * 2 ** 64


def words_of(text):
    plain = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn").lower()
    return re.findall(r"\w+|[^\w\s]", plain.replace("_", " _ "))


def vocabulary_of(texts, count):
    words = collections.Counter(word for text in texts for word in words_of(text))
    characters = sorted({c for word in words for c in word})
    frequent = [word for word, _ in words.most_common(count) if len(word) > 1]
    known = set(frequent)
    endings = collections.Counter()
    for word, times in words.items():
        if word in known:
            continue
        for length in range(2, 6):
            if len(word) - length >= 2 and word[:-length] in known:
                endings["##" + word[-length:]] += times
    ends = [ending for ending, times in endings.most_common(count // 8) if times > 3]
    return SPECIAL + characters + ["##" + c for c in characters] + frequent + ends


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("--sections", default=",".join(SECTIONS), help="classes [%(default)s]")
    parser.add_argument("--words", type=int, default=8000, help="frequent words in the vocabulary [%(default)s]")
    parser.add_argument("--test-share", type=float, default=0.1, help="of the sources [%(default)s]")
    wanted = parser.parse_args()
    sections = wanted.sections.split(",")
    parts, seen = {False: [], True: []}, set()
    for members in packages():
        section, text = members.get("section", ""), description_of(members)
        if section in sections and text and text not in seen:
            seen.add(text)
            parts[is_test(members, wanted.test_share)].append((sections.index(section) + 1, text))
    if not parts[False] or not parts[True]:
        fail(f"expected packages of the sections {wanted.sections}, found {len(seen)}; run apt-get update first")
    os.makedirs(wanted.folder, exist_ok=True)
    for test, name in ((False, "train.csv"), (True, "test.csv")):
        with open(os.path.join(wanted.folder, name), "w", encoding="utf-8", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(parts[test])
    vocabulary = vocabulary_of([text for _, text in parts[False]], wanted.words)
    for name, lines in (("classes.txt", sections), ("vocab.txt", vocabulary)):
        with open(os.path.join(wanted.folder, name), "w", encoding="utf-8", newline="") as file:
            file.write("".join(line + "\n" for line in lines))
    length = sum(len(words_of(text)) for _, text in parts[False]) / len(parts[False])
    print(f"{len(parts[False])} texts for training, {len(parts[True])} for the test, of {len(sections)} sections; "
          f"{length:.0f} words each; {len(vocabulary)} tokens", file=sys.stderr)
    print(os.path.abspath(wanted.folder))


if __name__ == "__main__":
    try:
        main()
    except OSError as failed:
        fail(f"cannot write the texts: {failed}")
