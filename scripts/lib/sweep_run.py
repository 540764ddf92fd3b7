# SPDX-License-Identifier: Apache-2.0
"""One run of a sweep: its command, its folder and its result."""

import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess

from files import read_json, read_text
from sweep_file import SweepError
from sweep_tables import FIGURES, ROOMS

# Exit codes of a run that a signal ended, with its state saved; that diverged; that `timeout` ended.
STOPPED, DIVERGED, OUT_OF_TIME = 75, 4, 124
ROOT = pathlib.Path(__file__).resolve().parents[2]
# In a checkout the program of the build tree; for installed scripts the one in PREFIX/bin.
INSTALLED = not (ROOT / "CMakeLists.txt").exists()
DEFAULT_PROGRAM = (ROOT.parent.parent / "bin/equant-train" if INSTALLED
                   else ROOT / "build/release/equant-train")
PROGRAM = os.environ.get("EQT_PROGRAM") or str(DEFAULT_PROGRAM)


def options_among(words, *names):
    """The options of these names and their values, in the order of a command's words."""
    starts = tuple(f"{name}=" for name in names)
    return [word for word, before in zip(words, ["", *words])
            if word in names or before in names or word.startswith(starts)]


def is_summary(found):
    """Whether it has the figures of a table, as far as it has any."""
    if not isinstance(found, dict) or not isinstance(found.get("epoch_seconds", {}), dict):
        return False
    figures = [found.get(name) for name in (*FIGURES, "wall_seconds", "sent_bytes", "paper_sent_bytes_per_node")]
    figures += [found.get("epoch_seconds", {}).get(room) for room in ROOMS]
    numbers = all(value is None or type(value) in (int, float) for value in figures)
    return numbers and type(found.get("ranks", 1)) is int and found.get("ranks", 1) > 0


class Run:
    """One combination: its command, its folder and its result."""

    def __init__(self, options, row, sets, seed, link=None, told=(), cores=None):
        self.config, self.sets, self.seed = row.name or row.config, sets, seed
        self.file, self.ranks = row.config, row.ranks or "2"
        self.link, self.simulate, self.stage = link, row.simulate, row.stage
        self.cores = cores  # of each host behind a link; None: all
        self.step_seconds = row.step_seconds  # of a board, for plans; None: as in the run
        self.state = "not run"
        self.process, self.was_stopped = None, False
        seeds = [f"seed={seed}"] if seed is not None else []
        self.values = [*row.sets, *sets, *seeds]
        name = self._folder_name([*sets, *seeds, *told])
        self.folder = options.out / name
        self.log = options.out / f"{name}.log"
        self.recipe_file = options.out / f"{name}.recipe.json"
        self.plan_file = options.out / f"{name}.plan.json"
        self.state_file = options.out / f"{name}.state.json"
        self.planned = {}  # seconds by column
        # An earlier result is used only if its recipe is equal.
        self.recipe = {
            "config_sha256": hashlib.sha256(pathlib.Path(self.file).read_bytes()).hexdigest(),
            "extra": options.extra, "ranks": self.ranks, "threads": options.threads}
        if row.sets:
            self.recipe["row"] = row.sets
        if self.link:
            self.recipe["link"] = self.link
        if self.cores is not None:
            self.recipe["cores"] = self.cores
        if self.simulate:
            self.recipe["simulate"] = True

    def _folder_name(self, values):
        stem = re.sub(r"^(\./)?configs/|\.json$", "", self.config)
        raw = ",".join([stem, *values])
        safe = re.sub(r"[^A-Za-z0-9._=,+-]+", "-", raw).lstrip("-.")[:150]
        if safe.replace("-", "/") != raw.replace("-", "/"):
            safe += "-" + hashlib.sha256(raw.encode()).hexdigest()[:8]
        return safe

    def title(self):
        link = f" at {self.link}" if self.link else ""
        link += f" with {self.cores:g} of a core" if self.cores is not None else ""
        played = " by one process" if self.simulate else ""
        return " ".join([self.config, *self.values, f"on {self.ranks} ranks{link}{played}"])

    def summary(self):
        """The finished run's summary, or None."""
        path = self.folder / "summary.json"
        try:
            found = read_json(path)
        except FileNotFoundError:
            return None
        except ValueError:
            found = None
        if not is_summary(found):
            raise SweepError(f"{path} is no run's summary: delete {self.folder} and run the sweep again.", 1)
        return found

    def check_finished(self):
        """True if there is an earlier result; exits with a message if it has another recipe."""
        if self.summary() is None:
            return False
        known = self._known_recipe()
        if known != self.recipe:
            raise SweepError(f"{self.folder} holds a run with another config file, rank or thread count or "
                    "extra arguments: choose another --out or delete that folder.")
        self.state = "ok"
        return True

    def _known_recipe(self):
        try:
            return read_json(self.recipe_file)
        except (FileNotFoundError, ValueError):
            return None

    def _goes_on(self):
        """True if this run was interrupted and has a checkpoint."""
        checkpoints = self.folder / "checkpoints"
        return (self._known_recipe() == self.recipe and checkpoints.is_dir()
                and any(checkpoints.iterdir()))

    def check_command(self, options):
        sets = [word for value in self.values for word in ("--set", value)]
        kept = options_among(options.extra, "--set", "--plugin")
        return [PROGRAM, "check", "--full", "--config", self.file, *kept, *sets]

    def command(self, options, folder, more=()):
        """The command for that folder, with the settings `more`."""
        sets = [word for value in [*self.values, *more] for word in ("--set", value)]
        arguments = ["--config", self.file, *options.extra, *sets, "--out", str(folder)]
        if not self.simulate and not self.link:
            launcher = [str(ROOT / "scripts/run_local.sh"), "--ranks", self.ranks]
            for name in ("threads", "timeout"):
                if getattr(options, name):
                    launcher += [f"--{name}", getattr(options, name)]
            return [*launcher, "--", *arguments]
        if options.threads:
            arguments = ["--set", f"threads_per_rank={options.threads}", *arguments]
        if self.link:
            limit = ["--timeout", options.timeout] if options.timeout else []
            share = ["--cores", f"{self.cores:g}"] if self.cores is not None else []
            return [str(ROOT / "scripts/netlab.sh"), "--ranks", self.ranks, "--rate", self.link, *share,
                    *limit, "--", PROGRAM, *arguments]
        limit = ["timeout", "--kill-after=300", options.timeout] if options.timeout else []
        return [*limit, PROGRAM, *arguments, "--simulate", self.ranks]

    def environment(self, options):
        """As in run_local.sh: linear algebra with another number of threads may round differently."""
        share = max(1, len(os.sched_getaffinity(0)) // int(self.ranks))
        return {**os.environ, "OMP_NUM_THREADS": options.threads or str(share)}

    def start(self, options):
        how = "--resume" if self._goes_on() else "--overwrite"
        self.recipe_file.write_text(json.dumps(self.recipe, indent=1) + "\n", encoding="utf-8")
        for of_earlier in (self.plan_file, self.state_file):
            of_earlier.unlink(missing_ok=True)
        with self.log.open("a" if how == "--resume" else "w", encoding="utf-8") as log:
            # In a session of its own: Ctrl-C must not reach it beside the signal of the sweep, for a
            # second one ends a run at once.
            self.process = subprocess.Popen([*self.command(options, self.folder), how],
                                            stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, env=self.environment(options),
                                            start_new_session=True)

    def has_ended(self):
        """True if it has; then its state is known, to a report too if it has no summary."""
        code = self.process.poll()
        if code is None:
            return False
        if code == 0 and self.summary() is None:
            self.state = "no summary.json"
        elif code == STOPPED or (code != 0 and self.was_stopped):  # a signal before its first step
            self.state = "stopped"
        elif code == DIVERGED:
            self.state = "diverged"
        elif code == OUT_OF_TIME:
            self.state = "out of time"
        else:
            self.state = "ok" if code == 0 else f"exit {code}"
        if self.state != "ok":
            told = {"state": self.state, "exit": code, "words": self.last_words()}
            self.state_file.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        return True

    def stop(self):
        """Asks it to save its state and end; a laboratory's SIGTERM ends what is in it at once."""
        self.was_stopped = True
        try:
            self.process.send_signal(signal.SIGUSR1 if self.link else signal.SIGTERM)
        except ProcessLookupError:
            pass

    def kill(self):
        """Ends all that was started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def last_words(self):
        lines = [line for line in read_text(self.log, errors="replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else "no output"

    def row(self):
        summary = (self.summary() if self.state == "ok" else None) or {}
        seconds = summary.get("epoch_seconds", {})
        row = {"config": self.config, "sets": " ".join(self.sets),
               "seed": self.seed if self.seed is not None else "", "state": self.state,
               "ranks": int(self.ranks), "link": self.link or "",
               "wall_seconds": summary.get("wall_seconds")}
        row.update({name: summary.get(name) for name in FIGURES})
        for name, bytes_sent in (("gb_per_node", summary.get("sent_bytes")),
                                 ("paper_gb_per_node", summary.get("paper_sent_bytes_per_node"))):
            if bytes_sent is not None:
                nodes = summary.get("ranks", 1) if name == "gb_per_node" else 1
                row[name] = bytes_sent / nodes / 1e9
        row.update({f"{room}_seconds": seconds.get(room) for room in ROOMS})
        row.update(self.planned)
        return row
