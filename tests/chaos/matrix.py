#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A matrix of faults: each cell starts a job, injects a fault into one rank, and checks how the job ends.

    tests/chaos/matrix.py [--program FILE] [--only REGEX] [--small] [--jobs N] [--table FILE]

A cell survives if mpirun is back within ten seconds of the fault, with the right exit code, a
sentence has named the rank and what was under way, nothing looks like a crash, and no process is
left. Cells of ends.py, files.py and memory.py say themselves how a job shall end that meets limits, pipes, frozen
disks and signals outside its steps, or files planted in its folder or in the hosts' memory. The table says for each cell how it ended; what makes no
sense is listed with its reason.
Exit code 0: all survived; 1: one did not; 2: bad arguments.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

import cells as common
import ends
import files
import memory
from cells import LIMIT, ROOT

CONFIG = common.config_with(train={"epochs": 3, "steps": 0}, optimizer={"learning_rate": 0.01},
                            synchronization={"bucket_mib": 0.1})

# name: (ranks, settings). The compressors are those that show a collective's own messages.
COLLECTIVES = {
    "mpi-allreduce": "none", "dense": "none", "allgather": "qsgd", "scatter-reduce": "qsgd",
    "ring": "qsgd", "recursive-doubling": "qsgd", "sparse": "topk", "integer": "terngrad",
    "hierarchical": "qsgd", "power-sgd": "powersgd",
}
GOSSIP = {
    "d-psgd": ["compressor.name=none"], "sgp": ["compressor.name=none"],
    "choco-sgd": ["compressor.name=qsgd"], "quant-sgp": ["compressor.name=qsgd"],
    "deep-squeeze": ["compressor.name=qsgd"], "ad-psgd": ["compressor.name=int8"],
    "local-sgd": ["compressor.name=qsgd", "synchronization.local_steps=2"],
}
# Phases other than steps use the same code for all algorithms, so these suffice.
EVERY_PHASE = ["mpi-allreduce", "scatter-reduce", "ring", "d-psgd", "choco-sgd", "ad-psgd",
               "local-sgd"]
STARTS = ["scatter-reduce", "d-psgd", "ad-psgd"]
SMALL = re.compile(r"^(kill step ring|stop evaluation choco-sgd|throw checkpoint scatter-reduce|"
                   r"stop launch d-psgd|flip step scatter-reduce|nan step ad-psgd|"
                   r"sigterm start run_local|addresses-850 launch limit|stdin reading config|"
                   r"stall end rank-0)$")

OPERATIONS = re.compile(
    r"MPI_|allreduce|allgather|broadcast|dense|scatter|ring|doubling|sparse|integer|hierarchical|"
    r"power|gossip|choco|squeeze|pair|local|a step between averages|forward and backward|"
    r"backward pass|loading|evaluation|checkpoint|update|synchronization|agreement|the start|"
    r"comparison|opening|loss|gradient|model|frame|payload|message", re.I)

CODES = {
    # mpirun reports the death, unless a waiting rank was faster.
    "kill": {137, 7},
    "stop": {7},
    "throw": {70},
    "nan": {4},
    "flip": {5},
    "truncate-message": {5},
}


class Cell(common.Cell):
    """A fault of EQT_FAULT in one rank."""

    def __init__(self, act, phase, algorithm):
        super().__init__(f"{act} {phase} {algorithm}")
        self.ranks = 4 if algorithm == "ad-psgd" else 3
        self.rank = 1

    def fault(self):
        # Faults in messages happen within a step, while other buckets are exchanged.
        text = f"{self.act}:rank={self.rank},step={0 if self.phase in ('launch', 'start') else 2}"
        if self.phase != "step":
            text += f",phase={self.phase}"
        elif self.act in ("flip", "truncate-message"):
            text += ",bucket=0"
        return text

    def settings(self):
        steps_per_epoch = 4
        found = [f"data.limit_train={2 * steps_per_epoch * self.ranks}"]
        if self.algorithm in COLLECTIVES:
            # PowerSGD has its own collective.
            collective = "auto" if self.algorithm == "power-sgd" else self.algorithm
            found += [f"synchronization.collective={collective}",
                      f"compressor.name={COLLECTIVES[self.algorithm]}"]
        else:
            found += [f"synchronization.algorithm={self.algorithm}", *GOSSIP[self.algorithm]]
        if self.phase == "checkpoint":
            found.append("checkpoint.every_steps=2")
        return found

    def play(self, program, folder):
        os.makedirs(self.place(folder))
        job = common.Job(program, self.place(folder), CONFIG)
        settings = [word for setting in self.settings() for word in ("--set", setting)]
        job.start(job.train(*settings, ranks=self.ranks), EQT_FAULT=self.fault())
        job.until_fault()
        happened = os.path.exists(job.mark)
        if happened:
            job.fault_time = os.path.getmtime(job.mark)
        seconds, code, said, wrong = job.end(LIMIT)
        if not happened:
            seconds = float("nan")
            wrong.append("the fault never happened")
        wrong += common.wrong_code(code, CODES[self.act])
        lines = common.sentences(said)
        # Before MPI starts ranks have no contact: only mpirun reports which one died.
        whom = r"rank \d" if self.phase == "launch" and self.act != "throw" else rf"rank {self.rank}\b"
        named = [line for line in lines if re.search(whom, line) and OPERATIONS.search(line)]
        if not named:
            wrong.append(f"no sentence names rank {self.rank} and what was under way")
        return seconds, code, common.best_of(named, lines, [said.strip()[:160]]), wrong


def reason_to_leave_out(act, phase, algorithm):
    if act == "nan" and phase in ("launch", "start"):
        return "no model is there yet"
    if act in ("flip", "truncate-message"):
        if phase == "launch":
            return "no message is there yet"
        if act == "truncate-message" and (phase == "start" or algorithm == "mpi-allreduce"):
            return "MPI's own collectives know how many bytes they carry"
    if phase in ("launch", "start") and algorithm not in STARTS:
        return "the start does not depend on the algorithm; three stand for all"
    if phase in ("evaluation", "checkpoint") and algorithm not in EVERY_PHASE:
        return "evaluations and checkpoints do not depend on it; seven stand for all"
    return None


def all_cells():
    cells, left_out = [], {}
    for act in CODES:
        for phase in ("launch", "start", "step", "evaluation", "checkpoint"):
            for algorithm in [*COLLECTIVES, *GOSSIP]:
                reason = reason_to_leave_out(act, phase, algorithm)
                if reason:
                    left_out.setdefault(reason, []).append(f"{act} {phase} {algorithm}")
                else:
                    cells.append(Cell(act, phase, algorithm))
    more, impossible = ends.cells()
    of_memory, not_here = memory.cells()
    return cells + more + files.cells() + of_memory, {**left_out, **impossible, **not_here}


def collectives_without_cells(program):
    """The collectives of the program that COLLECTIVES does not name."""
    listed = subprocess.run([program, "list", "collectives", "--json"], capture_output=True, check=True)
    return {row["name"] for row in json.loads(listed.stdout)} - {"auto", *COLLECTIVES}


def tell_left_out(left_out):
    for reason, names in left_out.items():
        acts, phases = (list(dict.fromkeys(name.split()[i] for name in names)) for i in (0, 1))
        print(f"left out: {len(names)} cells ({', '.join(acts)} at {', '.join(phases)}): {reason}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.environ.get(
        "EQT_PROGRAM", os.path.join(ROOT, "build/release/equant-train")))
    parser.add_argument("--only", default="", help="cells whose name matches this expression")
    parser.add_argument("--small", action="store_true", help="a few cells, under a minute")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--table", help="the table as Markdown into this file too")
    arguments = parser.parse_args()
    unknown = collectives_without_cells(arguments.program)
    if unknown:
        print(f"matrix.py: expected a compressor in COLLECTIVES for {', '.join(sorted(unknown))}; "
              "add one that shows its own messages.", file=sys.stderr)
        return 2
    cells, left_out = all_cells()
    if arguments.small:
        cells = [cell for cell in cells if SMALL.match(cell.name) or cell.name in files.SMALL + memory.SMALL]
    cells = [cell for cell in cells if re.search(arguments.only, cell.name)]
    if not cells:
        print(f"matrix.py: no cell matches \"{arguments.only}\".", file=sys.stderr)
        return 2
    rows, failures = [], 0
    with tempfile.TemporaryDirectory(prefix="equant-chaos.") as folder, \
            concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = [pool.submit(cell.play, arguments.program, folder) for cell in cells]
        for cell, job in zip(cells, jobs):
            seconds, code, sentence, wrong = job.result()
            failures += bool(wrong)
            result = "FAILED: " + ", ".join(wrong) if wrong else "survived"
            rows.append((cell, seconds, code, result, sentence))
            print(f"{cell.name:<42} {seconds:5.1f} s  exit {code:<4} {result}\n    {sentence}",
                  flush=True)
    if not arguments.small:
        tell_left_out(left_out)
    slowest = max(row[1] for row in rows)
    print(f"{len(rows)} cells, {len(rows) - failures} survived, {failures} failed; "
          f"the slowest ended {slowest:.1f} s after its fault")
    if arguments.table:
        with open(arguments.table, "w", encoding="utf-8") as file:
            file.write("| fault | in | with | seconds | exit | result | said |\n|---|---|---|--:|--:|---|---|\n")
            for cell, seconds, code, result, sentence in rows:
                file.write(f"| {cell.act} | {cell.phase} | {cell.algorithm} | {seconds:.1f} | "
                           f"{code} | {result} | {sentence.replace('|', '/')} |\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
