#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `plan` says, beside what steps take on emulated boards behind the links of netlab.sh.

usage: plan_laboratory.py [--first K] [--every N] [--steps N] PROGRAM

Prints a row for each cell and, at the end, median, 90th percentile and greatest |error|, and how often
the compressor that is planned as the fastest one is so within 10 %. With --every only each N-th choice
among compressors is measured, from the K-th on. Needs root, as netlab.sh does. Emulated boards sleep
while they compute, so that two cores carry up to eight of them.
"""
import argparse, itertools, json, os, statistics, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECONDS = {"resnet20": 0.25, "resnet18": 0.75, "resnet34": 1.0}
COMPRESSORS = [{"name": "none"}, {"name": "bf16"}, {"name": "e-elastiquant"}, {"name": "topk", "density": 0.01}]


def cells():
    """Lists of cells that differ in the compressor alone: (model, megabits of each rank's link, compressor,
    computing seconds by rank, other keys)."""
    def choice(model, megabits, seconds, keys, compressors=COMPRESSORS):
        return [(model, megabits, compressor, seconds, keys) for compressor in compressors]

    for model, ranks, rate, overlap in itertools.product(SECONDS, (2, 4, 8), (10, 100, 1000), (True, False)):
        # Float32 of the larger networks at 10 Mb/s takes a minute a step.
        quick = COMPRESSORS[2:] if rate == 10 and model != "resnet20" else COMPRESSORS
        yield choice(model, [rate] * ranks, [SECONDS[model]] * ranks, {"synchronization.overlap": overlap}, quick)
    yield choice("resnet18", [100] * 4, [0.75, 0.75, 0.75, 1.5], {})
    yield choice("resnet18", [100, 100, 100, 20], [0.75] * 4, {})
    for delay in (0, 8):
        yield choice("resnet18", [100] * 4, [0.75] * 4, {
            "synchronization.algorithm": "local-sgd", "synchronization.local_steps": 8,
            "synchronization.delay": delay})


def cluster_of(megabits, computing):
    """The cluster file: boards whose ranks share this machine's cores."""
    boards, links = [], {}
    for rank, (rate, seconds) in enumerate(zip(megabits, computing)):
        links[f"at {rate}"] = {"kind": "duplex", "megabits": rate, "latency_ms": 0.1}
        if boards and boards[-1]["step_seconds"] == seconds and boards[-1]["link"] == f"at {rate}":
            boards[-1]["count"] += 1
        else:
            boards.append({"name": f"board{rank}", "count": 1, "step_seconds": seconds, "link": f"at {rate}"})
    return {"cores_of_all": os.cpu_count(), "boards": boards, "links": links}


def planned(program, folder, config, sets, cluster, ranks):
    path = os.path.join(folder, "cluster.json")
    with open(path, "w") as file:
        json.dump(cluster, file)
    command = [program, "plan", "--config", config, "--cluster", path, "--json", "--ranks", str(ranks),
               "--vary", "seed=1", *sets]
    row = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["schemes"][0]
    return row["step_seconds"], row["collective"]


def measured(program, folder, config, sets, megabits, ranks, every):
    out = os.path.join(folder, "run")
    rates = [word for r, rate in enumerate(megabits) if rate != megabits[0]
             for word in ("--rate-of", f"{r}={rate}mbit")]
    command = [os.path.join(ROOT, "scripts/netlab.sh"), "--ranks", str(ranks), "--rate", f"{megabits[0]}mbit", *rates,
               "--timeout", "300", "--", program, "--config", config, "--out", out, "--overwrite", "--quiet", *sets]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"plan_laboratory.py: {' '.join(command)}: {run.stderr}")
    with open(os.path.join(out, "metrics.jsonl")) as file:
        records = [json.loads(line) for line in file]
    seconds = [r["seconds"]["total"] for r in records if r["type"] == "step"]
    # The first steps allocate; rounds of several steps count as a whole.
    return statistics.median(seconds[1:]) if every == 1 else statistics.mean(seconds[every:])


def compare(program, folder, steps, cell):
    """Seconds of a step, planned and measured; prints them."""
    model, megabits, compressor, computing, keys = cell
    ranks = len(computing)
    every = keys.get("synchronization.local_steps", 1)
    config = os.path.join(folder, "config.json")
    with open(config, "w") as file:
        json.dump({"model": {"name": model}, "compressor": compressor, "output": {"tensorboard": False},
                   "train": {"emulate_compute": computing, "steps": max(steps, 3 * every)}}, file)
    sets = [text for key, value in keys.items() for text in ("--set", f"{key}={json.dumps(value)}")]
    plan, collective = planned(program, folder, config, sets, cluster_of(megabits, computing), ranks)
    seconds = measured(program, folder, config, sets, megabits, ranks, every)
    shown = " ".join(f"{key.split('.')[-1]}={value}" for key, value in keys.items())
    if len(set(computing)) > 1:
        shown += f" computing={max(computing)}"
    print(f"{model} {ranks} ranks {'/'.join(map(str, dict.fromkeys(megabits))):>6s} Mb/s {compressor['name']:14s} "
          f"{collective:15s} planned {plan:7.3f} measured {seconds:7.3f} error {100 * (plan / seconds - 1):+6.1f} %  "
          f"{shown}", flush=True)
    return plan, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=8)
    asked = parser.parse_args()
    program = os.path.abspath(asked.program)
    errors, found, choices = [], 0, list(cells())[asked.first::asked.every]
    with tempfile.TemporaryDirectory() as folder:
        for choice in choices:
            times = [compare(program, folder, asked.steps, cell) for cell in choice]
            errors += [abs(plan / seconds - 1) for plan, seconds in times]
            found += min(times)[1] <= 1.1 * min(seconds for _, seconds in times)
    errors.sort()
    print(f"{len(errors)} cells: |error| median {100 * statistics.median(errors):.1f} %, 90 % "
          f"{100 * errors[min(len(errors) - 1, int(0.9 * len(errors)))]:.1f} %, greatest {100 * errors[-1]:.1f} %; "
          f"what is planned as the fastest compressor is within 10 % of it in {found} of {len(choices)} choices")


if __name__ == "__main__":
    main()
