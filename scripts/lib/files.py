# SPDX-License-Identifier: Apache-2.0
"""Files that somebody else may have written: read with a limit, and JSON without surprises."""

import errno
import json
import os
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
    """Raises OSError and ValueError as the two above do."""
    return parse_json(read_text(path))
