#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a Markdown table, and sentences that may be quoted, from the steps of bench_training.sh.

usage: training_table.py STEPS.csv --compressor NAME --ranks N [--pixels 32] [--machine TEXT]

Every speed-up is against the fastest float32 column of its row, which is named, or against one rank alone with the
same batch. With several rounds the smallest and the largest of the rounds' own medians and ratios stand in brackets.
"""

import argparse
import collections
import csv
import itertools
import os
import platform
import statistics

FLOAT32 = {
    "mpi": "MPI_Allreduce, fp32",
    "mpi-buckets": "MPI_Allreduce per bucket, fp32",
    "ddp": "PyTorch DDP + Gloo",
    "ddp-buckets": "the same in 16 buckets",
    "ddp-tuned": "PyTorch DDP + Gloo in the number of buckets that was fastest in a trial",
    "none": "our fp32, overlapped",
}
OTHERS = {
    "bf16-blocking": "bf16, after backward",
    "bf16": "bf16, overlapped",
    "best": "{}, overlapped",
    "alone": "no communication",
    "ddp-fp16": "PyTorch DDP with its hook for fp16, buckets by trial",
    "ddp-bf16": "PyTorch DDP with its hook for bf16, buckets by trial",
    "ddp-powersgd": "PyTorch DDP with its PowerSGD hook, rank 2, one bucket",
    "ddp-equant": "PyTorch DDP with equant.DDPHook, E-ElastiQuant with error feedback",
    "ddp-accumulate": "PyTorch DDP, fp32, a step for 4 batches, by batch",
    "ddp-local": "PyTorch, fp32, parameters averaged after every 4 steps, by step",
    "torch": "PyTorch in one process with a thread for each rank and all their images, no link",
    "accumulate": "{}, a step for 4 batches, by batch",
    "local": "{}, local SGD of 4 steps, by step",
}
HEADINGS = {  # of the table's columns; the names above are used in sentences
    "mpi": "MPI",
    "mpi-buckets": "MPI buckets",
    "ddp": "DDP",
    "ddp-buckets": "DDP 16",
    "ddp-tuned": "DDP tuned",
    "ddp-fp16": "DDP fp16",
    "ddp-bf16": "DDP bf16",
    "ddp-powersgd": "DDP PowerSGD",
    "ddp-equant": "DDP equant",
    "ddp-accumulate": "DDP, 4 batches",
    "ddp-local": "PyTorch, local 4",
    "torch": "PyTorch, no link",
    "none": "ours",
    "bf16-blocking": "bf16 after",
    "bf16": "bf16",
    "alone": "alone",
}
OURS = {"best": "{}", "accumulate": "{}, 4 batches", "local": "{}, local 4"}  # with the compressor
UNITS = {"k": ("kb/s", 1e3), "m": ("Mb/s", 1e6), "g": ("Gb/s", 1e9)}


def machine():
    name = platform.processor()
    try:
        for line in open("/proc/cpuinfo"):
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores of {name}, Linux {platform.release()}"


def rate_text(rate):
    number = rate.removesuffix("bit")
    unit = UNITS.get(number[-1:], ("b/s", 1))[0]
    return f"{number.rstrip('kmg')} {unit}"


def bytes_text(count):
    return f"{count / 1024:g} KiB" if count % 256 == 0 else f"{count} bytes"


def model_text(name):
    return name.replace("resnet", "ResNet-").replace("vgg", "VGG-")


def heading_of(way, compressor):
    return OURS[way].format(compressor) if way in OURS else HEADINGS[way]


def digits(seconds):
    return f"{seconds:.2f}" if seconds >= 0.2 else f"{seconds:.3f}"


class Seconds:
    """Of a way: the median of all its steps, and the median of each round by its number."""

    def __init__(self, rounds):
        self.rounds = {number: statistics.median(seconds) for number, seconds in rounds.items()}
        self.median = statistics.median(itertools.chain.from_iterable(rounds.values()))

    def text(self, form):
        return form(self.median) + brackets(self.rounds.values(), form)


def brackets(values, form):
    return f" ({form(min(values))} to {form(max(values))})" if len(values) > 1 else ""


def read(path):
    """(model, batch, rate, burst) -> way -> Seconds, in the order of the file; counts of steps; of rounds."""
    steps = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    for row in csv.DictReader(open(path, newline="")):
        key = row["model"], int(row["batch"]), row["rate"], int(row["burst_bytes"])
        steps[key][row["way"]][int(row["round"])].append(float(row["seconds"]))
    measured = {key: {way: Seconds(rounds) for way, rounds in ways.items()} for key, ways in steps.items()}
    every = [rounds for ways in steps.values() for rounds in ways.values()]
    counts = sorted({sum(map(len, rounds.values())) for rounds in every})
    return measured, counts, max(map(len, every), default=0)


def fastest_float32(ways):
    there = [way for way in FLOAT32 if way in ways]
    return min(there, key=lambda way: ways[way].median) if there else None


def table(measured, names, compressor, ranks):
    """Markdown: a row for each network, batch and link."""
    columns = [way for way in names if any(way in ways for ways in measured.values())]
    head = ["network, batch", "link (burst)", *(heading_of(way, compressor) for way in columns)]
    relative = any(fastest_float32(ways) and "best" in ways for ways in measured.values())
    if relative:
        head += ["over the fastest fp32", "no communication over it"]
    if any({"best", "alone"} <= set(ways) for ways in measured.values()):
        head += ["slower than without communication", "x one rank: fastest fp32, " + compressor]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for (model, batch, rate, burst), ways in measured.items():
        fastest = fastest_float32(ways)
        cells = [f"{model_text(model)}, {batch}", f"{rate_text(rate)} ({bytes_text(burst)})"]
        for way in columns:
            text = ways[way].text(digits) if way in ways else "–"
            cells.append(f"**{text}**" if way == "best" else f"*{text}*" if way == fastest else text)
        if relative:
            cells += [ratio(ways, fastest, "best"), ratio(ways, fastest, "alone")]
        if "slower than without communication" in head:
            both = {"best", "alone"} <= set(ways)
            cells.append(f"{100 * (ways['best'].median / ways['alone'].median - 1):.0f} %" if both else "–")
            cells.append(f"{times_one(ways, fastest, ranks)}, {times_one(ways, 'best', ranks)}" if both else "–")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def ratio(ways, slow, fast, factor=1):
    """The ratio of the medians; of each round's own, where a round ran both."""
    if slow not in ways or fast not in ways:
        return "–"
    both = ways[slow].rounds.keys() & ways[fast].rounds.keys()
    rounds = [factor * ways[slow].rounds[number] / ways[fast].rounds[number] for number in both]
    return f"{factor * ways[slow].median / ways[fast].median:.2f}" + brackets(rounds, "{:.2f}".format)


def times_one(ways, way, ranks):
    """Samples a second of all ranks, divided by those of one that computes alone."""
    return ratio(ways, "alone", way, ranks)


def sentences(measured, names, ranks):
    """Sentences that may be quoted: each speed-up with the column that it is compared with."""
    for (model, batch, rate, _), ways in measured.items():
        fastest = fastest_float32(ways)
        if fastest is None or "best" not in ways:
            continue
        text = (f"{model_text(model)}, batch {batch}, {rate_text(rate)}: {names['best']} is "
                f"{ratio(ways, fastest, 'best')} times as fast as the fastest float32 column, {names[fastest]}")
        if "alone" in ways:
            text += (f"; no communication at all would be {ratio(ways, fastest, 'alone')} times as fast "
                     f"({100 * ways['alone'].median / ways['best'].median:.0f} % of that factor is reached); {ranks} ranks are "
                     f"{times_one(ways, 'best', ranks)} times as fast as one alone, with that float32 "
                     f"{times_one(ways, fastest, ranks)} times")
        yield "* " + text + "."


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("steps")
    parser.add_argument("--compressor", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--pixels", type=int, default=32)
    parser.add_argument("--machine", default=None)
    options = parser.parse_args()
    try:
        measured, counts, rounds = read(options.steps)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise SystemExit(f"training_table.py: expected steps as bench_training.sh writes them in {options.steps}, "
                         f"found {type(error).__name__}: {error}") from None
    if not measured:
        raise SystemExit(f"training_table.py: expected steps in {options.steps}, found none")
    names = {**FLOAT32, **{way: name.format(options.compressor) for way, name in OTHERS.items()}}
    steps = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    of = f" of {rounds} rounds, in brackets the least and the largest of a round" if rounds > 1 else ""
    print(f"Seconds per step, medians of {steps} steps{of}; pictures of {options.pixels} x {options.pixels} pixels; "
          f"{options.ranks} ranks with one thread each on {options.machine or machine()}.")
    print("The burst is what an idle link lets pass at once. In italics: the fastest float32 of the row; "
          "DDP runs with channels_last.\n")
    headings = ((heading_of(way, options.compressor), name) for way, name in names.items()
                if any(way in ways for ways in measured.values()))
    print("Columns: " + "; ".join(f"{heading}: {name}" for heading, name in headings) + ".\n")
    print("\n".join(table(measured, names, options.compressor, options.ranks)))
    print()
    print("\n".join(sentences(measured, names, options.ranks)))


if __name__ == "__main__":
    main()
