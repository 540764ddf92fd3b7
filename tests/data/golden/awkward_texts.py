# SPDX-License-Identifier: Apache-2.0
# Texts that tokenizers disagree on, for make_word_piece.py and compare_word_piece.py, and
# vocabularies for them.
import random

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

FIXED = [
    "", " ", "\t\n\r", "Hello, World!", "don't stop-believin' (e.g. 3.14%)", "a" * 100, "a" * 101, "b" * 5000,
    "\u00e9" * 100, "e\u0301" * 101, "x" * 99 + "\u0301", "\u4e2d" * 150, "na\u00efve caf\u00e9 \u00c5ngstr\u00f6m \u0130stanbul \u0131\u015f\u0131k",
    "\u00df \u1e9e STRASSE \u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2 \u039f\u0394\u039f\u03a3 \u212a \u2126 \ufb03 \ufb01 \u01c5 \u01c4", "\u4f60\u597d\uff0c\u4e16\u754c\uff01abc\u4e2ddef",
    "\u3053\u3093\u306b\u3061\u306f \u30ab\u30bf\u30ab\u30ca \u30ac \u30cf\u309a \uff76\uff9e", "\uc548\ub155\ud558\uc138\uc694 \u1112\u1161\u11ab \uac01", "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u202bRTL\u202c \u200eLRM\u200f",
    "\u0627\u0644\u0633\u0651\u064e\u0644\u0627\u0645\u064f \u0639\u064e\u0644\u064a\u0643\u0645 \u0640\u0640\u0640 \u06f1\u06f2\u06f3", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e04\u0e23\u0e31\u0e1a \u0e19\u0e49\u0e33 \u0e33", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0915\u093c \u0958 \u09cb \u0bca",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f44d\U0001f3fd \u2764\ufe0f \U0001f1e9\U0001f1ea 1\ufe0f\u20e3 \U0001f923 \U0001fae0 \U0001f979",
    "zero\u200bwidth\u200cjoin\u200der\ufeffbom\u2060wj soft\u00adhyphen", "nul\u0000bell\u0007del\u007fnel\u0085c1\u009f", "vt\x0bff\x0cfs\x1cgs\x1drs\x1eus\x1f",
    "nbsp\u00a0ogham\u1680en\u2000em\u2003thin\u2009hair\u200anarrow\u202fmath\u205fideo\u3000ls\u2028ps\u2029end", "\ufffd lost \ufffd\ufffd", "\U000e0001\U000e0041tags \ue000\uf8ff private \U000f0000 \ufdd0 \uffff \U0010ffff",
    "\u2018quotes\u2019 \u201cdouble\u201d \u00abguillemets\u00bb \u2014 \u2013 \u2026 \u2022 \u00b7 \u3002\u3001\u300c\u300d\u30fb\uff5e\uff04", "$ + < = > ^ ` | ~ \u20ac \u00a3 \u00a9 \u00ae \u2122 \u00b0 \u00b1 \u00d7 \u00f7 \u221e \u2260",
    "[CLS] [SEP] [PAD] [UNK] [MASK] ##ing ## #", "A\u0308\u0323\u0301 q\u0307\u0323 \u1e69 s\u0323\u0307 \u0344 \u0958\u0301", "a\u0301\u0315\u0300\u05ae\u0300b \u302e\u302f \u20dd\u20e3 \u0903\u093e \U0001d165\U0001d16e",
    "\U0001d400\U0001d4d0 \U0001d7d8 \u2460 \u2160 \u24b6 \uff21\uff22\uff43 \u1d2c \u00aa \u00ba \u2c7c \ua7f8", "\U00020000\U0002a6d6\U0002a700\U0002b740\U0002b820\U0002ceaf\U0002ceb0\U00030000\U0002f800\uf900\u3400\u4dbf\u4dc0\u9fff",
    "\ufb1d\ufb2a \ufb50 \ufdfa \ufe70", "\u1f80 \u1fbc \u1fef \u1ffd \u037e \u0387 \u2000\u2001 \u2329 \u232a", "\u0345 \u0390 \u03d3 \u03d4 \u1e9b\u0323 \u212b",
    "https://example.org/a_b?c=d&e=%20#f user@host.net C:\\dir\\x 10,000.00 1e-5 --flag /* c */", "mixed\u4e2d\u6587and\u65e5\u672c\u8a9etext123", "\u200f\u200e\u202a\u202e\u2066\u2069",
]

POOLS = [
    [chr(c) for c in range(0x20, 0x7F)], list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"), list("  \t\n\r"),
    [chr(c) for c in range(0, 0x20)] + [chr(c) for c in range(0x7F, 0xA1)], [chr(c) for c in range(0xC0, 0x250)],
    [chr(c) for c in range(0x300, 0x370)], [chr(c) for c in range(0x370, 0x530)], [chr(c) for c in range(0x590, 0x700)],
    [chr(c) for c in range(0x900, 0xE80)], [chr(c) for c in range(0x1E00, 0x2000)], [chr(c) for c in range(0x2000, 0x2070)],
    [chr(c) for c in range(0x2070, 0x2C00)], [chr(c) for c in range(0x3000, 0x3100)], [chr(c) for c in range(0x4E00, 0x4E80)],
    [chr(c) for c in range(0xAC00, 0xAC80)] + [chr(c) for c in range(0x1100, 0x1200)], [chr(c) for c in range(0xF900, 0xFB50)],
    [chr(c) for c in range(0xFE00, 0x10000)], [chr(c) for c in range(0x1F300, 0x1F650)] + ["\u200d", "\ufe0f"],
]


def random_text(draw):
    """Runs of characters of several kinds, or of any at all."""
    if draw.random() < 0.1:
        return "".join(chr(c) for c in (draw.randrange(0x110000) for _ in range(20)) if not 0xD800 <= c < 0xE000)
    text = ""
    for _ in range(draw.randrange(1, 9)):
        pool = draw.choice(POOLS)
        longest = 130 if draw.random() < 0.03 else 12
        text += "".join(draw.choice(pool) for _ in range(draw.randrange(1, longest)))
        if draw.random() < 0.3:
            text += " "
    return text


def random_bytes(draw, left_out):
    """Bytes that are mostly no UTF-8, in the midst of text that is. @param left_out of that text, for str.translate"""
    parts = []
    for _ in range(draw.randrange(1, 6)):
        if draw.random() < 0.5:
            parts.append(random_text(draw).translate(left_out).encode()[: draw.randrange(1, 12)])
        else:
            parts.append(bytes(draw.randrange(256) for _ in range(draw.randrange(1, 5))))
    joined = b"".join(parts)  # whose parts may make new characters
    return random_bytes(draw, left_out) if any(ord(c) in left_out for c in joined.decode(errors="ignore")) else joined


def random_texts(count, seed):
    draw = random.Random(seed)
    return [random_text(draw) for _ in range(count)]


def vocabulary_of(words, seed):
    """Tokens for words of these kinds: their characters, at the beginning and inside, and pieces of some of them, as
    a list. A part of all is left out, so that words without tokens occur."""
    draw = random.Random(seed)
    tokens = set()
    for word in words:
        for i, character in enumerate(word):
            if draw.random() < 0.98:
                tokens.add(character if i == 0 else "##" + character)
        for _ in range(2):
            begin = draw.randrange(len(word))
            piece = word[begin: begin + draw.randrange(1, 8)]
            tokens.add(piece if begin == 0 else "##" + piece)
    return SPECIAL + sorted(t for t in tokens if t not in SPECIAL and t == t.rstrip() and "\n" not in t)
