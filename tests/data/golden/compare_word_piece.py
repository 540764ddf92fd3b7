# SPDX-License-Identifier: Apache-2.0
# Compares our tokenizer with PyPI's tokenizers: every character of Unicode between two letters, texts that are made to
# be awkward, random ones, and bytes that are no UTF-8. Prints how many texts were compared and how many differ.
#
# The categories of characters in tokenizers are those of an old version of Unicode. Characters that differ alone, which
# have been assigned or have changed since, are counted by category, and the random texts have none of them.
#
#   python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tokenizers
#   /tmp/venv/bin/python tests/data/golden/compare_word_piece.py build/release/tests/word_piece_tool [RANDOM_TEXTS] [FILE]...
#
# Each further FILE is a text that is compared line by line.
import collections
import os
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

from awkward_texts import FIXED, random_bytes, random_texts, vocabulary_of
from make_word_piece import tokenizer_of, words_of


def ours(tool, tokens, lower_case, texts):
    """Words and tokens of each of these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vocab.txt")
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write("".join(token + "\n" for token in tokens))
        given = b"".join(struct.pack("<I", len(t)) + t for t in texts)
        made = subprocess.run([tool, path, "1" if lower_case else "0"], input=given, capture_output=True, check=True)
    lines = made.stdout.decode().split("\n")[:-1]
    assert len(lines) == len(texts), (len(lines), len(texts))
    return [(words.split(" ") if words else [], [int(n) for n in ids.split()])
            for words, ids in (line.rsplit("\t", 1) for line in lines)]


def compare(tool, name, texts, shown=10):
    """@param texts bytes"""
    decoded = [text.decode("utf-8", "replace") for text in texts]
    different = []
    for lower_case in (True, False):
        first = tokenizer_of(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], lower_case)
        words = [words_of(first, text) for text in decoded]
        tokens = vocabulary_of([w for found in words for w in found if len(w) < 200], 1)
        theirs = tokenizer_of(tokens, lower_case)
        ids = [e.ids for e in theirs.encode_batch(decoded, add_special_tokens=False)]
        for text, found, word, id_list in zip(decoded, ours(tool, tokens, lower_case, texts), words, ids):
            if found != (word, id_list):
                different.append((text, word if word != found[0] else id_list, found[0] if word != found[0] else found[1]))
    print(f"{name}: {len(texts)} texts, with and without lower case: {len(different)} differences")
    for text, theirs_words, our_words in different[:shown]:
        print("  ", ascii(text[:80]), ascii(theirs_words)[:80], ascii(our_words)[:80])
    return different


def newer_characters(tool):
    """Those that tokenizers treats as another category."""
    characters = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    different = compare(tool, "every character", [f"a{c}b {c}".encode() for c in characters], shown=0)
    found = {[c for c in text if c not in "ab "][0] for text, _, _ in different}
    kinds = collections.Counter(unicodedata.category(c) for c in found)
    print(f"   {len(found)} characters by category:", ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))
    return found


if __name__ == "__main__":
    tool = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20000
    draw = random.Random(3)
    newer = str.maketrans("", "", "".join(newer_characters(tool)))
    wrong = len(compare(tool, "awkward", [text.encode() for text in FIXED]))
    wrong += len(compare(tool, "random", [text.translate(newer).encode() for text in random_texts(count, 11)]))
    wrong += len(compare(tool, "no UTF-8", [random_bytes(draw, newer) for _ in range(count // 4)]))
    for path in sys.argv[3:]:
        with open(path, "rb") as file:
            wrong += len(compare(tool, os.path.basename(path), file.read().split(b"\n")))
    sys.exit(1 if wrong else 0)
