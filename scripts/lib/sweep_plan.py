# SPDX-License-Identifier: Apache-2.0
"""What the steps of finished runs would take if each rank was a board on a link, by equant-train plan.

Boards compute as long as the sweep says, or else as long as ranks did in the run: its median step, from
its own records.
"""

import hashlib
import json
import pathlib
import subprocess
import tempfile

from files import read_json
from sweep_run import PROGRAM, options_among

LATENCY_MS = 0.1  # of a cable and a switch
ONE_BOARD = "one_board"  # beside the rates: as many samples on one such board alone, without a link


def column_of(megabits):
    """The column of a rate in tables."""
    return f"plan_{megabits}_s"


class NoPlan(Exception):
    """Why a run has no plan: the program's sentence."""


def told_by(arguments):
    """What `equant-train plan` prints."""
    made = subprocess.run([PROGRAM, "plan", *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    if made.returncode == 0:
        return made.stdout
    lines = [line.strip() for line in made.stderr.splitlines() if line.strip()]
    raise NoPlan(lines[-1] if lines else f"equant-train plan ended with exit code {made.returncode}")


def seconds_of(scheme, steps, epochs):
    """Of so many steps in so many epochs by the scheme of a plan; a list of each epoch's where the first ones
    take longer."""
    first = [epoch["step_seconds"] for epoch in scheme.get("first_epochs", [])]
    if not first:
        return steps * scheme["step_seconds"]
    return [steps / epochs * seconds for seconds in (first + epochs * [scheme["step_seconds"]])[:epochs]]


def total_of(seconds):
    """Of a run's seconds, or of a list of its epochs' seconds."""
    return sum(seconds) if isinstance(seconds, list) else seconds


def boards_of(config, ranks, step_seconds):
    """A board for each rank. Emulated boards compute as long as the config says, others as the sweep says
    (None: they are measured)."""
    emulated = config["train"].get("emulate_compute")
    if emulated is None and step_seconds is not None:
        return [{"name": "rank", "count": ranks, "step_seconds": step_seconds, "link": "link"}]
    if emulated is None:
        return [{"name": "rank", "count": ranks, "link": "link"}]
    seconds = emulated if isinstance(emulated, list) else [emulated] * ranks
    return [{"name": f"rank {rank}", "step_seconds": each, "link": "link"}
            for rank, each in enumerate(seconds)]


class Plans:
    """Adds to finished runs what they would take on links of these rates [Mb/s, as text]."""

    def __init__(self, options):
        self.links = options.plan_links or []
        self._plugins = options_among(options.extra, "--plugin")
        self._said = set()

    def columns(self):
        return [column_of(megabits) for megabits in self.links]

    def add_to(self, run):
        """Sets the run's planned seconds, from its file of plans if they are there."""
        if not self.links or run.state != "ok":
            return
        # A plan is of that run on such boards.
        digest = hashlib.sha256((run.folder / "summary.json").read_bytes()
                                + repr(run.step_seconds).encode()).hexdigest()
        known = self._known(run, digest)
        missing = [megabits for megabits in self.links if megabits not in known]
        if missing:
            known.update(self._planned(run, missing))
            one_board = known.pop(ONE_BOARD, None)
            plan = {"sha256": digest, "seconds": {rate: total_of(told) for rate, told in known.items()}}
            if one_board is not None:
                plan[ONE_BOARD] = one_board
            uneven = {rate: told for rate, told in known.items() if isinstance(told, list)}
            if uneven:
                plan["epochs"] = uneven
            run.plan_file.write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")
        run.planned = {column_of(rate): total_of(known[rate]) for rate in self.links}

    @staticmethod
    def _known(run, digest):
        try:
            told = read_json(run.plan_file)
            if told["sha256"] != digest:
                return {}
            alone = {ONE_BOARD: told[ONE_BOARD]} if ONE_BOARD in told else {}
            return {**told["seconds"], **told.get("epochs", {}), **alone}
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return {}

    def _planned(self, run, links):
        """Seconds of all steps by rate, or a list of each epoch's where they differ, and of one board alone; None
        for runs that cannot be planned."""
        try:
            with tempfile.TemporaryDirectory(prefix="sweep-plan-") as place:
                return self._in(pathlib.Path(place), run, links)
        except NoPlan as reason:
            if str(reason) not in self._said:
                print(f"  no plan of {run.title()}: {reason}", flush=True)
                self._said.add(str(reason))
            return {megabits: None for megabits in links}

    def _in(self, place, run, links):
        cluster, calibration = place / "cluster.json", place / "calibration.json"
        config = read_json(run.folder / "config.json")
        summary = run.summary()
        boards = boards_of(config, summary["ranks"], run.step_seconds)
        # The scheme of the run alone, with the collective that it used.
        words = [*self._plugins, "--config", str(run.folder / "config.json"), "--cluster", str(cluster), "--json",
                 "--ranks", str(summary["ranks"]), "--vary", f"seed={config['seed']}"]
        if "step_seconds" not in boards[0]:
            told_by(["--calibrate", str(calibration), "--from", str(run.folder)])
            words += ["--calibration", str(calibration)]
        result = {}
        for megabits in links:
            link = {"kind": "duplex", "megabits": float(megabits), "latency_ms": LATENCY_MS}
            cluster.write_text(json.dumps({"boards": boards, "links": {"link": link}}), encoding="utf-8")
            plan = json.loads(told_by(words))
            scheme = plan["schemes"][0]
            result[megabits] = seconds_of(scheme, summary["steps"], max(1, summary["epochs"]))
            if "one_board" in plan:
                result[ONE_BOARD] = summary["steps"] * scheme["step_seconds"] * scheme["times_one_board"]
        return result
