# SPDX-License-Identifier: Apache-2.0
"""Estimates the time of a sweep from its finished runs, or else from a few measured steps.

Runs that differ only in seed, rates, partition or number of steps have the same time per step.
"""

import json
import pathlib
import statistics
import subprocess
import tempfile
import time

from files import parse_json, read_json, read_text

STEPS = 6  # steps to try
WARM_UP = 2  # of these, warm-up steps
NOT_TIMED = ("seed=", "data.partition.", "optimizer.", "schedule.", "train.epochs=", "train.steps=",
             "train.evaluate_every=", "checkpoint.", "output.", "data.limit_test=")
LAUNCH = 3.0  # seconds until a run begins, if not measured
TEST_SAMPLES = 10000  # of CIFAR and Fashion-MNIST
# Testing an image takes a third of the time of training on it: only the forward pass.
FORWARD = 1 / 3
REFUSED = (2, 3)  # exit codes that the other runs of the sweep would have, too


class Refused(Exception):
    """The program refuses a config: its own message, and its exit code."""

    def __init__(self, sentence, code):
        super().__init__(sentence)
        self.code = code


class Cost:
    """The time of a step, and of a run besides its steps and tests [seconds]."""

    def __init__(self, step, start, record):
        self.step, self.start = step, start
        self.steps_per_epoch = record["steps_per_epoch"]
        self.images = record["images_per_step"]
        self.emulated = record.get("emulated", False)
        # If models differ, each rank tests the whole set, then its share of it with the mean.
        self.tests = 1 if record["algorithm"] == "allreduce" else record["ranks"] + 1

    def seconds(self, config):
        """Seconds of a run with this resolved config."""
        train = config["train"]
        steps = train["steps"] or train["epochs"] * self.steps_per_epoch
        total = self.start + steps * self.step
        if self.emulated:
            return total
        epochs = -(-steps // self.steps_per_epoch)
        every = train["evaluate_every"]
        tested = self.tests * (config["data"]["limit_test"] or TEST_SAMPLES)
        times = -(-epochs // every) if every else 1
        return total + times * tested / self.images * self.step * FORWARD


def cost_in(folder, elapsed=None):
    """The cost of a finished run, from its folder; None if it is not there.

    `elapsed` is the time of the whole process, if it was measured [seconds].
    """
    try:
        records = [parse_json(line) for line in read_text(folder / "metrics.jsonl").split("\n") if line]
        run = next(record for record in records if record["type"] == "run")
        steps = [record["seconds"]["total"] for record in records if record["type"] == "step"]
        summary = read_json(folder / "summary.json")
        step = statistics.median(steps[WARM_UP:])
        whole = elapsed if elapsed is not None else summary["wall_seconds"] + LAUNCH
        return Cost(step, max(0.0, whole - sum(steps)), run)
    except (OSError, ValueError, KeyError, TypeError, StopIteration, statistics.StatisticsError):
        return None


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def refuse(result):
    if result.returncode in REFUSED:
        raise Refused(last_line(result.stderr), result.returncode)


def resolved(run, options):
    """The resolved config of a run."""
    result = subprocess.run(run.check_command(options), stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, check=False)
    refuse(result)
    return json.loads(result.stdout) if result.returncode == 0 else None


def tried(run, options):
    """The cost of a run from its first steps; their results are removed."""
    few = [f"train.steps={STEPS}", "train.evaluate_every=0", "data.limit_test=20",
           "checkpoint.every_steps=0", "checkpoint.every_epochs=0", "output.step_records=true"]
    with tempfile.TemporaryDirectory(prefix="sweep-estimate-") as place:
        folder = pathlib.Path(place) / "run"
        begin = time.monotonic()
        result = subprocess.run(run.command(options, folder, few), stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, env=run.environment(options),
                                check=False)
        refuse(result)
        elapsed = time.monotonic() - begin
        return cost_in(folder, elapsed) if result.returncode == 0 else None


def is_brief(config):
    return config is not None and 0 < config["train"]["steps"] <= STEPS


class Estimate:
    """Seconds of each run; None if its steps could not be tried."""

    def __init__(self, runs, todo, options):
        self.seconds = {}
        self.lines = []
        costs, configs = {}, {}
        for run in runs:
            if run not in todo and self._key(run) not in costs:
                cost = cost_in(run.folder)
                if cost:
                    costs[self._key(run)] = cost
        for run in todo:
            recipe = (run.file, tuple(v for v in run.values if not v.startswith("seed=")))
            if recipe not in configs:
                configs[recipe] = resolved(run, options)
            key, config = self._key(run), configs[recipe]
            if key not in costs and not is_brief(config):
                costs[key] = tried(run, options)
            self._note(run, costs.get(key), config)

    def _note(self, run, cost, config):
        self.seconds[run] = cost.seconds(config) if cost and config else None
        shown = "unknown, for its first steps failed"
        if cost and config:
            shown = f"{cost.step:.3f} s a step, {duration(self.seconds[run])}"
        elif is_brief(config):
            shown = f"unknown, for trying it would be running it: {config['train']['steps']} steps"
        self.lines.append(f"{run.title()}: {shown}")

    @staticmethod
    def _key(run):
        return (run.file, run.ranks, run.link, run.cores, run.simulate,
                tuple(value for value in run.values if not value.startswith(NOT_TIMED)))

    def total(self):
        return sum(seconds or 0 for seconds in self.seconds.values())

    def sentence(self):
        unknown = sum(seconds is None for seconds in self.seconds.values())
        if unknown == len(self.seconds):
            return f"unknown for {unknown} runs, none of which could be tried"
        beside = f", {unknown} more unknown" if unknown else ""
        return f"about {duration(self.total())} for {len(self.seconds) - unknown} runs{beside}"


def duration(seconds):
    """350 as "6 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
