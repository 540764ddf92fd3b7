# SPDX-License-Identifier: Apache-2.0
"""Common parts of all cells of matrix.py: limits, a small job, its processes, and checks of how it ended."""

import json
import os
import re
import signal
import subprocess
import time
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 10.0  # seconds from the fault to the end
START = 60.0  # seconds until a fault has happened, on a busy machine
CRASH = re.compile(r"terminate called|Signal:|Backtrace|Segmentation|Sanitizer|#0 ")
CONFIG = {
    "name": "chaos", "threads_per_rank": 1,
    "model": {"name": "resnet20"},
    "data": {"name": "synthetic", "augment": False, "limit_train": 32, "limit_test": 8},
    "train": {"epochs": 1, "steps": 4, "batch_size": 2},
    "synchronization": {"timeout_seconds": 5},
    "output": {"progress": "off"},
}


def config_with(**sections):
    """CONFIG with other values in some sections."""
    return {**CONFIG, **{name: {**CONFIG.get(name, {}), **section} for name, section in sections.items()}}


def mpirun():
    return ["mpirun", "--oversubscribe", "--bind-to", "none"]


def environment(place, **more):
    """Of a job whose files are in `place`."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
            # In a shared folder, a job that ends removes files that another has just made.
            "OMPI_MCA_orte_tmpdir_base": os.path.join(place, "mpi"),
            "PRTE_MCA_prte_tmpdir_base": os.path.join(place, "mpi"),
            # Ranks print their errors; mpirun's report comes after them.
            "OMPI_MCA_orte_execute_quiet": "1",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **more}


class Job:
    """One start, its folder, and the processes with its tag."""

    def __init__(self, program, place, config=None):
        self.program, self.place, self.content = program, place, config or CONFIG
        self.config, self.out = os.path.join(place, "config.json"), os.path.join(place, "run")
        self.errors, self.mark = os.path.join(place, "stderr"), os.path.join(place, "fault")
        self.tag = f"EQT_CHAOS_CELL={uuid.uuid4()}"
        self.process, self.fault_time = None, None
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(self.content, file)

    def arguments(self, *more, config=None):
        return ["--config", config or self.config, "--out", self.out, *more]

    def mpirun(self, *command, ranks=2):
        return [*mpirun(), "-np", str(ranks), *command]

    def train(self, *more, config=None, ranks=2):
        return self.mpirun(self.program, *self.arguments(*more, config=config), ranks=ranks)

    def script(self, name, *arguments):
        return [os.path.join(ROOT, "scripts", name), *arguments]

    def start(self, command, stdin=subprocess.DEVNULL, **more):
        key, value = self.tag.split("=")
        variables = environment(self.place, **{"EQT_PROGRAM": self.program, "EQT_FAULT_MARK": self.mark,
                                               key: value, **more})
        with open(self.errors, "wb") as sink, open(self.errors + ".out", "wb") as out:
            self.process = subprocess.Popen(command, env=variables, stdin=stdin, stdout=out, stderr=sink,
                                            start_new_session=True)
        self.fault_time = time.time()  # unless a fault comes later

    def processes(self, name=None):
        """[(rank or None, process)] of this job; those called `name` only."""
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    words = file.read().decode(errors="replace").split("\0")
                with open(f"/proc/{entry}/comm", encoding="utf-8") as file:
                    comm = file.read().strip()
            except OSError:
                continue
            if self.tag in words and (name is None or comm == name):
                rank = [w.split("=")[1] for w in words if w.startswith("OMPI_COMM_WORLD_RANK=")]
                found.append((int(rank[0]) if rank else None, int(entry)))
        return found

    def process_of(self, rank):
        """The program's process of this rank, or None."""
        return dict(self.processes("equant-train")).get(rank)

    def until(self, condition):
        """Waits for it; the job may end before."""
        deadline = time.time() + START
        while self.process.poll() is None and time.time() < deadline:
            if condition():
                return True
            time.sleep(0.02)
        return False

    def until_fault(self):
        """Waits until a fault of EQT_FAULT has happened."""
        return self.until(lambda: os.path.exists(self.mark))

    def until_ranks(self, ranks=2):
        """Waits until that many ranks handle signals."""
        return self.until(lambda: sum(catches(process, signal.SIGUSR1)
                                      for _, process in self.processes("equant-train")) >= ranks)

    def until_steps(self):
        def begun():
            try:
                with open(os.path.join(self.out, "metrics.jsonl"), encoding="utf-8") as file:
                    return '"type":"step"' in file.read()
            except OSError:
                return False
        return self.until(begun)

    def mark_fault(self):
        self.fault_time = time.time()

    def signal(self, number, rank=None):
        """Sends it to mpirun, or to one rank."""
        self.mark_fault()
        target = self.process.pid if rank is None else self.process_of(rank)
        if target is not None:
            os.kill(target, number)

    def end(self, limit):
        """(seconds after the fault, exit code, output, what is wrong)"""
        wrong = []
        while self.process.poll() is None and time.time() < self.fault_time + 3 * limit:
            time.sleep(0.02)
        seconds = time.time() - self.fault_time
        if self.process.poll() is None:
            wrong.append("hung")
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        elif seconds > limit:
            wrong.append(f"took {seconds:.1f} s")
        deadline = time.time() + 2
        while self.processes() and time.time() < deadline:
            time.sleep(0.1)
        left = self.processes()
        if left:
            wrong.append(f"{len(left)} processes left")
        for _, process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except OSError:
                pass
        with open(self.errors, encoding="utf-8", errors="replace") as file:
            said = file.read()
        if CRASH.search(said):
            wrong.append("a stack trace")
        return seconds, self.process.returncode, said, wrong


def catches(process, number):
    try:
        with open(f"/proc/{process}/status", encoding="utf-8") as file:
            caught = re.search(r"SigCgt:\s*([0-9a-f]+)", file.read())
    except OSError:
        return False
    return bool(caught and int(caught[1], 16) >> (number - 1) & 1)


class Cell:
    """A row of the table, named by its fault, its phase and its target.

    A kind of cells has `play(program, folder)`: (seconds after the fault, exit code, the best message, what
    is wrong).
    """

    def __init__(self, name):
        self.name = name
        self.act, self.phase, self.algorithm = name.split()

    def place(self, folder):
        """The path of the cell's own folder."""
        return os.path.join(folder, re.sub(r"[^a-z0-9-]", "-", self.name))


def sentences(said):
    """The program's and the scripts' own lines."""
    return [line for line in said.splitlines() if re.match(r"equant-train: |\w+\.sh: ", line)]


def best_of(*choices):
    """The first line of the first list that has one, without the program's name."""
    return next((lines[0] for lines in choices if lines), "").removeprefix("equant-train: ")


def wrong_code(code, expected):
    return [] if code in expected else [
        f"exit code {code}, expected {' or '.join(map(str, sorted(expected)))}"]
