# SPDX-License-Identifier: Apache-2.0
"""Sweeps as JSON files: the configs, values, seeds, ranks and links of the runs of a table.

Everything in such a file is checked: a SweepError is one sentence that names the file, the key,
what was expected and what was found.
"""

import difflib
import fnmatch
import itertools
import json
import os
import pathlib
import re

from files import read_text, read_written_json


class Share(float):
    """A share of a core, or several."""


# configs/sweeps/sweep.jsonschema is the same, for editors.
FLOW = {"name": str, "about": str, "configs": list, "rows": str, "only": list, "set": dict,
        "seeds": list, "ranks": list, "link": list, "cores": Share, "simulate": bool, "threads": int,
        "timeout": int, "table": str, "plan_links": list, "plan_step_seconds": float, "short": dict, "$schema": str}
LISTS = ("seeds", "ranks", "link", "only", "plan_links")  # a single value is a list of one
ITEM = {"name": str, "config": str, "set": dict, "ranks": list, "simulate": bool, "stage": int,
        "plan_step_seconds": float}
NAMES = {str: "a string", list: "a list", dict: "an object", bool: "true or false",
         int: "a whole number of at least 1", float: "seconds above 0", Share: "cores above 0"}
MOST_MEGABITS, MOST_SECONDS = 1e6, 1e6
NATURAL = "[1-9][0-9]{0,8}"
RATE = r"unlimited|[0-9]*[1-9][0-9]*(\.[0-9]+)?[kmg]?bit"


class SweepError(Exception):
    """An error in a sweep: one sentence, and the exit code."""

    def __init__(self, sentence, code=2):
        super().__init__(sentence)
        self.code = code


class Row:
    """A config, keys that are set on it, and its number of ranks (None: not given)."""

    def __init__(self, name, ranks, config, sets, simulate=None, stage=1, step_seconds=None):
        self.name, self.ranks, self.config, self.sets = name, ranks, config, sets
        self.simulate, self.stage, self.step_seconds = simulate, stage, step_seconds


def read_rows(path):
    """The lines of a file of rows: NAME RANKS CONFIG [KEY=VALUE]..., the config relative to the file."""
    rows = []
    try:
        lines = read_text(path).splitlines()
    except (OSError, ValueError) as error:
        raise SweepError(f"{path}: expected rows as UTF-8 text, found {error}.") from error
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        sets = words[3:]
        if (len(words) < 3 or not re.fullmatch(NATURAL, words[1])
                or not all(re.match(r"[^=]+=.", word) for word in sets)):
            raise SweepError(f"{path}:{number}: expected NAME RANKS CONFIG [KEY=VALUE]..., "
                             f'found "{line.strip()}".')
        config = path.parent / words[2]
        if not is_file(config):
            raise SweepError(f"{path}:{number}: there is no config file {config}.")
        rows.append(Row(words[0], words[1], str(config), sets))
    if len({row.name for row in rows}) < len(rows):
        raise SweepError(f"{path}: two rows have the same name.")
    return rows


def fitting(rows, patterns, where):
    """The rows whose names match one of the patterns; all if there are none."""
    for pattern in patterns or []:
        if not any(fnmatch.fnmatchcase(row.name, pattern) for row in rows):
            raise SweepError(f'{where} "{pattern}" fits none of the rows '
                             f"{', '.join(row.name for row in rows)}.")
    return [row for row in rows if not patterns
            or any(fnmatch.fnmatchcase(row.name, pattern) for pattern in patterns)]


def shown(value):
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def check_members(members, kinds, where):
    """Checks that every key is known and has a value of its kind."""
    for key, value in members.items():
        if key not in kinds:
            near = difflib.get_close_matches(key, kinds, 1)
            hint = f'did you mean "{near[0]}"?' if near else f"keys are {', '.join(kinds)}."
            raise SweepError(f'{where}: unknown key "{key}"; {hint}')
        kind = kinds[key]
        good = isinstance(value, (int, float) if issubclass(kind, float) else kind)
        good = good and (kind is bool or not isinstance(value, bool))
        if not good or (kind is int and value < 1) or (issubclass(kind, float) and not 0 < value < MOST_SECONDS):
            raise SweepError(f'{where}: expected {NAMES[kind]} for "{key}", found {shown(value)}.')


def with_lists(members):
    """The members, with single values made lists where lists are expected."""
    return {key: value if isinstance(value, (list, dict)) or key not in LISTS else [value]
            for key, value in members.items()}


def check_list(values, where, what, good):
    if not values or not all(good(value) for value in values):
        wrong = next((value for value in values if not good(value)), values)
        raise SweepError(f"{where}: expected {what}, found {shown(wrong)}.")


def as_rates(megabits):
    """Rates as texts with as few digits as can be, each once."""
    return list(dict.fromkeys(f"{rate:g}" for rate in megabits))


def natural(least):
    return lambda value: type(value) is int and least <= value < 10**9


def check_flow(flow, where):
    """The members that a sweep and its "short" have in common."""
    check_members(flow, FLOW, where)
    if "seeds" in flow:
        check_list(flow["seeds"], where, 'whole numbers in "seeds"', natural(0))
    if "ranks" in flow:
        check_list(flow["ranks"], where, 'whole numbers of at least 1 in "ranks"', natural(1))
    if "link" in flow:
        check_list(flow["link"], where, 'rates such as "100mbit" or "unlimited" in "link"',
                   lambda rate: isinstance(rate, str) and re.fullmatch(RATE, rate))
    if "plan_links" in flow:
        check_list(flow["plan_links"], where, 'rates above 0 in Mb/s in "plan_links"',
                   lambda rate: type(rate) in (int, float) and 0 < rate < MOST_MEGABITS)
    if "only" in flow:
        check_list(flow["only"], where, 'patterns in "only"', lambda p: isinstance(p, str))
    for key, values in flow.get("set", {}).items():
        if values == [] or isinstance(values, dict):
            raise SweepError(f'{where}: expected a value or a list of values for "{key}" in "set", '
                             f"found {shown(values)}.")


def merged(flow):
    """The flow with its "short" applied: members are replaced, keys of "set" one by one."""
    short = flow.get("short", {})
    if "configs" in short or "rows" in short:  # replace those of the whole sweep
        flow = {key: value for key, value in flow.items() if key not in ("configs", "rows", "only")}
    sets = {**flow.get("set", {}), **short.get("set", {})}
    return {**flow, **short, **({"set": sets} if sets else {})}


def is_file(path):
    """Also for names that no file can have."""
    return "\0" not in str(path) and os.path.isfile(path)


def as_set(key, value):
    return f"{key}={value if isinstance(value, str) else json.dumps(value)}"


def config_at(folder, name, where):
    path = folder / name
    if not is_file(path):
        raise SweepError(f"{where}: there is no config file {path}.")
    return str(path)


def row_of(item, folder, where):
    """One member of "configs": a file, or an object that names one and sets keys on top."""
    if isinstance(item, str):
        return Row(None, None, config_at(folder, item, where), [])
    if not isinstance(item, dict):
        raise SweepError(f'{where}: expected files or objects in "configs", found {shown(item)}.')
    item = with_lists(item)
    check_members(item, ITEM, f'{where}, in "configs"')
    if "name" not in item or "config" not in item:
        raise SweepError(f'{where}, in "configs": expected "name" and "config", found {shown(item)}.')
    if "ranks" in item:
        check_list(item["ranks"], where, 'whole numbers of at least 1 in "ranks"', natural(1))
    for key, value in item.get("set", {}).items():
        if isinstance(value, dict):
            raise SweepError(f'{where}: expected a value for "{key}" of "{item["name"]}", '
                             f"found {shown(value)}.")
    return Row(item["name"], [str(n) for n in item["ranks"]] if "ranks" in item else None,
               config_at(folder, item["config"], where),
               [as_set(key, value) for key, value in item.get("set", {}).items()],
               item.get("simulate"), item.get("stage", 1), item.get("plan_step_seconds"))


class SweepFile:
    """A checked file. With `short` its "short" is applied, a smaller version of the sweep."""

    def __init__(self, path, short):
        self.path = path
        try:
            flow = read_written_json(path)
        except (OSError, ValueError) as error:
            raise SweepError(f"{path}: expected JSON, found {error}.") from error
        if not isinstance(flow, dict):
            raise SweepError(f"{path}: expected an object, found {shown(flow)}.")
        flow = with_lists(flow)
        check_flow(flow, path)
        if "short" in flow:
            flow["short"] = with_lists(flow["short"])
        check_flow(flow.get("short", {}), f'{path}, in "short"')
        if "short" in flow.get("short", {}):
            raise SweepError(f'{path}: "short" has no "short" of its own.')
        if short and not flow.get("short"):
            raise SweepError(f'{path} has no "short": run it without --short.')
        self._take(merged(flow) if short else flow)

    def _take(self, flow):
        if ("configs" in flow) == ("rows" in flow):
            raise SweepError(f'{self.path}: expected either "configs" or "rows", '
                             f"found {'both' if 'rows' in flow else 'neither'}.")
        folder = self.path.parent
        if "rows" in flow:
            if not is_file(folder / flow["rows"]):
                raise SweepError(f"{self.path}: there is no file of rows {folder / flow['rows']}.")
            self.rows = read_rows(folder / flow["rows"])
        else:
            if not flow["configs"]:
                raise SweepError(f'{self.path}: expected files or objects in "configs", found [].')
            self.rows = [row_of(item, folder, self.path) for item in flow["configs"]]
        named = [row.name or row.config for row in self.rows]
        if len(set(named)) < len(named):
            raise SweepError(f'{self.path}: two of "configs" have the same name.')
        if flow.get("only"):
            for row in self.rows:
                row.name = row.name or row.config
            self.rows = fitting(self.rows, flow["only"], f'{self.path}: "only"')
        self.about = flow.get("about", "")
        keys = [[as_set(key, value) for value in (values if isinstance(values, list) else [values])]
                for key, values in flow.get("set", {}).items()]
        self.grid = [values for values in keys if len(values) > 1]
        for row in self.rows:  # only varying keys are a part of a run's name
            row.sets = row.sets + [values[0] for values in keys if len(values) == 1]
        self.seeds = [str(seed) for seed in flow["seeds"]] if "seeds" in flow else None
        self.ranks = [str(ranks) for ranks in flow["ranks"]] if "ranks" in flow else None
        self.links = flow.get("link", [None])
        self.simulate = flow.get("simulate", False)
        self.threads = str(flow["threads"]) if "threads" in flow else None
        self.timeout = str(flow["timeout"]) if "timeout" in flow else None
        self.table = flow.get("table")
        self.plan_links = as_rates(flow.get("plan_links", []))
        for row in self.rows:
            row.step_seconds = row.step_seconds or flow.get("plan_step_seconds")
        if self.simulate and self.links != [None]:
            raise SweepError(f'{self.path}: expected no "link" with "simulate", whose ranks send '
                             "nothing, found both.")
        self.cores = flow.get("cores")
        if self.cores is not None and self.links == [None]:
            raise SweepError(f'{self.path}: expected a "link" with "cores", which limits the hosts behind links, '
                             "found none.")

    def combinations(self):
        """(row, ranks, link, sets, other parts of the folder's name) of every run, without seeds."""
        for row, link, sets in itertools.product(self.rows, self.links,
                                                 itertools.product(*self.grid)):
            row_ranks = [row.ranks] if isinstance(row.ranks, str) else row.ranks
            counts = self.ranks or row_ranks or ["2"]
            for ranks in counts:
                told = ([f"ranks={ranks}"] if len(counts) > 1 else []) + (
                    [f"link={link}"] if len(self.links) > 1 else [])
                yield row, ranks, link, sets, told
