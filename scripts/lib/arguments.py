"""What argparse would not say of a command line."""

import difflib
import re


def refuse_unknown(parser, words):
    """Leaves with a sentence for an option that is none, before one that is missing is told."""
    known = parser.format_help()
    for word in words:
        name = word.split("=")[0]
        if name.startswith("--") and not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", known):
            near = difflib.get_close_matches(name, re.findall(r"--[a-z-]+", known), 1)
            parser.error(f'unknown option "{name}"; ' + (f"did you mean {near[0]}?" if near else "see --help"))
