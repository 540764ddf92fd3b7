# SPDX-License-Identifier: Apache-2.0
# Makes word_piece.json: texts with their tokens by PyPI's tokenizers, which the test of our tokenizer must find.
#
#   python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tokenizers
#   /tmp/venv/bin/python tests/data/golden/make_word_piece.py
import json
import os
import tempfile
import unicodedata

import tokenizers
from tokenizers import BertWordPieceTokenizer

from awkward_texts import FIXED, random_texts, vocabulary_of


def tokenizer_of(tokens, lower_case):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vocab.txt")
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write("".join(token + "\n" for token in tokens))
        made = BertWordPieceTokenizer(path, lowercase=lower_case)
    made._tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
    return made


def words_of(made, text):
    normalized = made.normalizer.normalize_str(text)
    return [word for word, _ in made.pre_tokenizer.pre_tokenize_str(normalized)]


def is_known(made, character):
    """Whether tokenizers, whose tables are old, has the category that Python knows."""
    expected = {"C": ["ab"], "M": ["ab"], "P": ["a", character, "b"]}
    category = unicodedata.category(character)
    if category not in ("Cc", "Cf", "Co", "Mn") and category[0] != "P":
        return category != "Cn"
    return character in "\t\n\r" or words_of(made, f"a{character}b") == expected[category[0]]


if __name__ == "__main__":
    any_vocabulary = tokenizer_of(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], True)
    texts = [t for t in FIXED if len(t) < 1000] + [t for t in random_texts(150, 7) if len(t) < 60]
    texts = [t for t in texts if all(is_known(any_vocabulary, c) for c in t)]
    words = [word for text in texts for word in words_of(any_vocabulary, text)]
    tokens = [t for t in vocabulary_of(words, 7)]
    cases = []
    by_case = {lower: tokenizer_of(tokens, lower) for lower in (True, False)}
    for text in texts:
        cases.append({"text": text, "lower": by_case[True].encode(text, add_special_tokens=False).ids,
                      "cased": by_case[False].encode(text, add_special_tokens=False).ids})
    out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "word_piece.json")
    with open(out, "w", encoding="ascii") as file:
        head = {"by": f"tokenizers {tokenizers.__version__}, BertWordPieceTokenizer", "vocabulary": tokens}
        file.write(json.dumps(head)[:-1] + ', "cases": [\n' + ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")
    print(len(tokens), "tokens,", len(cases), "texts")
