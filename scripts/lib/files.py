# SPDX-License-Identifier: Apache-2.0
"""Files that somebody else may have written: read with a limit, and JSON without surprises."""

import errno
import json
import os
import re
import stat

MOST_BYTES, MOST_LEVELS = 1 << 30, 32  # metrics.jsonl of a long run; the nesting of any file of ours


def read_text(path, errors="strict"):
    """The text of a regular file. Raises OSError, also for pipes and devices, which might never end, and
    ValueError for bytes that are no UTF-8."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        if stat.S_ISDIR(facts.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if facts.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES} bytes", str(path))
        with open(descriptor, encoding="utf-8", errors=errors, closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def levels_of(value):
    level, levels = [value], 0
    while level := [inner for one in level if isinstance(one, (list, dict))
                    for inner in (one.values() if isinstance(one, dict) else one)]:
        levels += 1
    return levels


TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\r\n]*|/\*.*?\*/|.', re.DOTALL)


def without_comments(text):
    """The text with spaces in place of "// ..." and "/* ... */", so that lines and columns stay. Raises ValueError for
    a comma that ends an object or a list."""
    parts, after_comma = [], False
    for token in TOKEN.finditer(text):
        part = token[0]
        if part.startswith(("//", "/*")):
            part = re.sub(r"[^\r\n]", " ", part)
        elif part in ("}", "]") and after_comma:
            line, column = text.count("\n", 0, token.start()) + 1, token.start() - text.rfind("\n", 0, token.start())
            raise ValueError(f"that the comma before {part} at line {line}, column {column} has nothing after it")
        if part.strip():
            after_comma = part == ","
        parts.append(part)
    return "".join(parts)


def parse_json(text):
    """Raises ValueError for everything that is no JSON, is nested too deeply or has half characters."""
    try:
        value = json.loads(text)
        too_deep = levels_of(value) > MOST_LEVELS
    except RecursionError:
        too_deep = True
    if too_deep:
        raise ValueError(f"more than {MOST_LEVELS} levels of nesting")
    json.dumps(value, ensure_ascii=False).encode()
    return value


def read_json(path):
    """Raises OSError and ValueError as read_text() and parse_json() do."""
    return parse_json(read_text(path))


def read_written_json(path):
    """JSON that people write, with comments as in configs. Raises OSError and ValueError as read_json() and
    without_comments() do."""
    return parse_json(without_comments(read_text(path)))
