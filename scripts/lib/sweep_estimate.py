"""How long a sweep will take: from runs of it that are finished, or else from a few measured steps.

Runs that differ in seed, rates, partition or number of steps take equally long for a step.
"""

import json
import pathlib
import statistics
import subprocess
import tempfile

STEPS = 6  # that are measured; the first two do not count
NOT_TIMED = ("seed", "data.partition.", "optimizer.", "schedule.", "train.epochs", "train.steps",
             "train.evaluate_every", "checkpoint.", "output.")
# Testing an image takes a third of training on it: forward, but neither of the two backward products.
FORWARD = 1 / 3
STARTUP = 2.0  # seconds of a run beside its steps, where it was not measured


class Cost:
    """What a step of some runs takes, and what the rest of them does [seconds]."""

    def __init__(self, step, test, start):
        self.step, self.test, self.start = step, test, start


class EstimateError(Exception):
    """A run that could not be tried, in the program's own words."""

    def __init__(self, sentence, code):
        super().__init__(sentence)
        self.code = code


def timed_alike(values):
    return tuple(value for value in values if not value.startswith(NOT_TIMED))


def records(folder):
    with (folder / "metrics.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def cost_of(folder, warm_up):
    """The cost that a run folder tells of, by the median of its steps."""
    try:
        known = records(folder)
        run = next(r for r in known if r["type"] == "run")
        steps = [r["seconds"]["total"] for r in known if r["type"] == "step"][warm_up:]
        step = statistics.median(steps)
        wall = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["wall_seconds"]
        batch = json.loads(run["config_json"])["train"]["batch_size"] \
            if isinstance(run.get("config_json"), str) else run["config"]["train"]["batch_size"]
    except (OSError, ValueError, KeyError, StopIteration, statistics.StatisticsError):
        return None, None
    # Ranks share the test set.
    test = run.get("test_samples", 0) / (batch * run["ranks"]) * step * FORWARD
    return Cost(step, test, max(STARTUP, wall - sum(steps) - test)), run
