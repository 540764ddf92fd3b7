# SPDX-License-Identifier: Apache-2.0
"""Checks of a command line that argparse does not make."""

import difflib
import re


def refuse_unknown(parser, words):
    """Reports an unknown option before a missing one, and exits."""
    known = parser.format_help()
    for word in words:
        name = word.split("=")[0]
        if name.startswith("--") and not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", known):
            near = difflib.get_close_matches(name, re.findall(r"--[a-z-]+", known), 1)
            parser.error(f'unknown option "{name}"; ' + (f"did you mean {near[0]}?" if near else "see --help"))
