#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `plan` says, beside what steps take on emulated boards behind the links of netlab.sh.

usage: plan_laboratory.py [--cells N] [--steps N] PROGRAM

Prints a row for each cell and, at the end, median, 90th percentile and greatest |error|. With
--cells only every k-th cell, so that about N are measured. Needs root, as netlab.sh does. Emulated
boards sleep while they compute, so that two cores carry up to eight of them.
"""
import argparse, itertools, json, os, statistics, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECONDS = {"resnet20": 0.25, "resnet18": 0.75, "resnet34": 1.0}
COMPRESSORS = [{"name": "none"}, {"name": "bf16"}, {"name": "e-elastiquant"}, {"name": "topk", "density": 0.01}]


def cells():
    """(model, megabits, compressor, computing seconds by rank, other keys)."""
    # float32 of the larger networks at 10 Mb/s takes a minute a step.
    for model, ranks, megabits, compressor, overlap in itertools.product(
            SECONDS, (2, 4, 8), (10, 100, 1000), COMPRESSORS, (True, False)):
        if megabits == 10 and model != "resnet20" and compressor["name"] in ("none", "bf16"):
            continue
        yield model, megabits, compressor, [SECONDS[model]] * ranks, {"synchronization.overlap": overlap}
    for compressor in COMPRESSORS:
        yield "resnet18", 100, compressor, [0.75, 0.75, 0.75, 1.5], {}
        for delay in (0, 8):
            yield "resnet18", 100, compressor, [0.75] * 4, {
                "synchronization.algorithm": "local-sgd", "synchronization.local_steps": 8,
                "synchronization.delay": delay}


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
    command = [os.path.join(ROOT, "scripts/netlab.sh"), "--ranks", str(ranks), "--rate", f"{megabits}mbit",
               "--timeout", "300", "--", program, "--config", config, "--out", out, "--overwrite", "--quiet", *sets]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"plan_laboratory.py: {' '.join(command)}: {run.stderr}")
    with open(os.path.join(out, "metrics.jsonl")) as file:
        records = [json.loads(line) for line in file]
    seconds = [r["seconds"]["total"] for r in records if r["type"] == "step"]
    # The first steps allocate; rounds of several steps count as a whole.
    return statistics.median(seconds[1:]) if every == 1 else statistics.mean(seconds[every:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--cells", type=int, default=0)
    parser.add_argument("--steps", type=int, default=8)
    asked = parser.parse_args()
    program = os.path.abspath(asked.program)
    chosen = list(cells())
    if asked.cells:
        chosen = chosen[::max(1, len(chosen) // asked.cells)]
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        for model, megabits, compressor, computing, keys in chosen:
            ranks = len(computing)
            every = keys.get("synchronization.local_steps", 1)
            config = os.path.join(folder, "config.json")
            with open(config, "w") as file:
                json.dump({"model": {"name": model}, "compressor": compressor, "output": {"tensorboard": False},
                           "train": {"emulate_compute": computing, "steps": max(asked.steps, 3 * every)}}, file)
            sets = [text for key, value in keys.items() for text in ("--set", f"{key}={json.dumps(value)}")]
            boards = [{"name": f"board{i}", "step_seconds": s, "link": "lan"} for i, s in enumerate(computing)]
            if len(set(computing)) == 1:
                boards = [{"name": "board", "count": ranks, "step_seconds": computing[0], "link": "lan"}]
            cluster = {"cores_of_all": os.cpu_count(), "boards": boards,
                       "links": {"lan": {"kind": "duplex", "megabits": megabits, "latency_ms": 0.1}}}
            plan, collective = planned(program, folder, config, sets, cluster, ranks)
            seconds = measured(program, folder, config, sets, megabits, ranks, every)
            errors.append(abs(plan / seconds - 1))
            shown = " ".join(f"{key.split('.')[-1]}={value}" for key, value in keys.items())
            print(f"{model} {ranks} ranks {megabits:5d} Mb/s {compressor['name']:14s} {collective:15s} "
                  f"planned {plan:7.3f} measured {seconds:7.3f} error {100 * (plan / seconds - 1):+6.1f} %  {shown}",
                  flush=True)
    errors.sort()
    print(f"{len(errors)} cells: |error| median {100 * statistics.median(errors):.1f} %, 90 % "
          f"{100 * errors[min(len(errors) - 1, int(0.9 * len(errors)))]:.1f} %, greatest {100 * errors[-1]:.1f} %")


if __name__ == "__main__":
    main()
