#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The collective `dense` of ranks on one host beside MPI_Allreduce of several MPI libraries, each with settings of its own.

usage: allreduce_peers.py [--mpi NAME=FOLDER]... [--ranks 2] [--rounds 3] [--seconds 0.5] [--values N,N,...] [PROGRAM]

FOLDER/bin has a library's mpicc and mpirun; without --mpi only those of PATH are measured, which PROGRAM
[build/release/equant-train] uses. Of each library mpi_allreduce.c is built, which verifies sums and takes medians. In a
round everything runs once, one after the other; the Markdown table has the median of the rounds and, in brackets,
the least and the largest. Every setting of a library has a row.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TUNED = ("--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm")
# By what the first line of `mpirun --version` has in it: words of mpirun, and of the environment, for each row.
SETTINGS = {
    "Open MPI": {
        "as it comes": ((), {}),
        "recursive doubling": ((*TUNED, "3"), {}),
        "ring": ((*TUNED, "4"), {}),
        "Rabenseifner": ((*TUNED, "6"), {}),
        "coll sm": (("--mca", "coll_sm_priority", "100"), {}),
    },
    "HYDRA": {
        "as it comes": ((), {}),
        "release_gather": ((), {"MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM": "release_gather"}),
        "recursive doubling": ((), {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "recursive_doubling"}),
        "ring": ((), {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "ring"}),
        "Rabenseifner": ((), {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "reduce_scatter_allgather"}),
    },
}


def fail(text):
    raise SystemExit(f"allreduce_peers.py: {text}")


def run(command, **extra):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **extra}
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))} ended with exit code {done.returncode}: "
             + (done.stderr.strip().splitlines() or ["no words"])[-1])
    return done.stdout


class Library:
    """An MPI library: its name, its mpirun, the benchmark built by its mpicc, and its settings."""

    def __init__(self, name, folder, work):
        self.name = name
        compiler, self.mpirun = (shutil.which(tool, path=folder and f"{folder}/bin") for tool in ("mpicc", "mpirun"))
        if compiler is None or self.mpirun is None:
            fail(f"expected mpicc and mpirun in {folder + '/bin' if folder else 'PATH'}, for --mpi {name}; found one or none")
        self.benchmark = pathlib.Path(work) / f"{len(os.listdir(work))}"
        run([compiler, "-O2", "-o", self.benchmark, HERE / "mpi_allreduce.c"], PATH=self.path())
        version = run([self.mpirun, "--version"])
        kinds = [kind for kind in SETTINGS if kind in version]
        if not kinds:
            fail(f"expected one of {', '.join(SETTINGS)} in what {self.mpirun} --version says, found "
                 f"{version.splitlines()[:1]}; add its settings to SETTINGS")
        self.settings = SETTINGS[kinds[0]]

    def path(self):
        return f"{os.path.dirname(self.mpirun)}:{os.environ['PATH']}"

    def milliseconds(self, setting, options):
        words, environment = self.settings[setting]
        lines = run([self.mpirun, "-np", options.ranks, *words, self.benchmark, options.seconds, *options.values],
                    PATH=self.path(), **environment).splitlines()
        return [float(line.split("\t")[1]) for line in lines if "\t" in line]


def ours(options):
    """Milliseconds of `dense` for each number of values."""
    words = [word for count in options.values for word in ("--values", count)]
    lines = run(["mpirun", "-np", options.ranks, options.program, "bench", "collectives", "--collective", "dense",
                 "--seconds", options.seconds, "--json", *words]).splitlines()
    rows = {row["values"]: row["median_ms"] for row in map(json.loads, lines) if row.get("collective") == "dense"}
    return [rows[count] for count in options.values]


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def text(values):
    form = "{:.4f}" if max(values) < 0.1 else "{:.3f}" if max(values) < 1 else "{:.2f}"
    brackets = f" ({form} to {form})".format(min(values), max(values)) if len(values) > 1 else ""
    return form.format(statistics.median(values)) + brackets


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", default=str(HERE.parent.parent / "build/release/equant-train"))
    parser.add_argument("--mpi", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--values", default="1024,16384,262144,1050000,11173962")
    options = parser.parse_args()
    try:
        options.values = [int(count) for count in options.values.split(",")]
    except ValueError:
        fail(f"expected --values as numbers with commas, found \"{options.values}\"")
    with tempfile.TemporaryDirectory() as work:
        libraries = [Library("MPI of PATH", None, work)]
        for pair in options.mpi:
            name, equals, folder = pair.partition("=")
            if not equals:
                fail(f"expected --mpi NAME=FOLDER, found \"{pair}\"")
            libraries.append(Library(name, folder, work))
        rows = {("dense", ""): []}
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
            rows["dense", ""].append(ours(options))
            for library in libraries:
                for setting in library.settings:
                    rows.setdefault((library.name, setting), []).append(library.milliseconds(setting, options))
    print(f"Milliseconds of a mean (dense) or a sum (MPI_Allreduce) of float32, {options.ranks} ranks on one host, "
          f"{len(os.sched_getaffinity(0))} cores of {processor()}; of {options.rounds} round(s) the median, in brackets "
          "the least and the largest.\n")
    print("| | setting | " + " | ".join(f"{4 * count / 1e6:.3g} MB" for count in options.values) + " |")
    print("|---|---|" + "---|" * len(options.values))
    for (name, setting), rounds in rows.items():
        print(f"| {name} | {setting} | " + " | ".join(text(values) for values in zip(*rounds)) + " |")
    fastest = {}
    for (name, _), rounds in rows.items():
        medians = [statistics.median(values) for values in zip(*rounds)]
        fastest[name] = [min(pair) for pair in zip(fastest.get(name, medians), medians)]
    for name, best in fastest.items():
        if name != "dense":
            print(f"| dense, times as fast as {name} at its best | | "
                  + " | ".join(f"{peer / own:.1f}" for peer, own in zip(best, fastest["dense"])) + " |")


if __name__ == "__main__":
    main()
