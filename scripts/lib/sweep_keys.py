# SPDX-License-Identifier: Apache-2.0
"""Checks before a sweep that the config keys that it sets exist."""

import difflib
import json
import os
import subprocess

from sweep_file import SweepError
from sweep_run import PROGRAM


def leaves(schema, prefix=""):
    """The dotted names of all keys that have a value."""
    for name, inner in schema["properties"].items():
        if "properties" in inner:
            yield from leaves(inner, f"{prefix}{name}.")
        else:
            yield prefix + name


def known_keys():
    """All keys of a config, or None if there is no program."""
    if not os.access(PROGRAM, os.X_OK):
        return None
    told = subprocess.run([PROGRAM, "schema"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    return set(leaves(json.loads(told.stdout))) if told.returncode == 0 else None


def check_keys(runs):
    """Raises a SweepError for an unknown key, with a similar key if there is one."""
    given = {value.partition("=")[0] for run in runs for value in run.values}
    keys = known_keys() if given else None
    for key in sorted(given - keys) if keys else []:
        near = difflib.get_close_matches(key, sorted(keys), 1)
        hint = f'did you mean "{near[0]}"?' if near else '"equant-train schema" shows all keys.'
        raise SweepError(f'a run of this sweep is refused: unknown config key "{key}"; {hint}')
