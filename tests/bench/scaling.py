#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How 1 to 18 boards scale: samples a second of so many boards, divided by those of one board alone.

usage: scaling.py [--calibration FILE] [--measure N,N,...] PROGRAM

Prints a Markdown table for each kind of board by `plan`, for boards that are separate machines. A cell has
the speed-ups of 2, 4, 8 and 18 boards, each with the same batch as one alone. With --calibration compressors have
the speeds in FILE, which `bench codecs --json` or `plan --calibrate` wrote.

With --measure it prints instead what steps take on so many emulated boards behind the links of netlab.sh,
beside what `plan` says of boards that share this machine's cores, and of separate ones. Needs root, as
netlab.sh does; three minutes for each number.
"""
import argparse, functools, json, os, subprocess, sys, tempfile

from plan_laboratory import ROOT, cluster_of, measured, planned

NUMBERS = (2, 4, 8, 18)
# Network, seconds of a step with the update, speed of a core's codecs relative to this machine's, caption.
BOARDS = [
    ("resnet50", 0.25, 0.4, "ResNet-50, 0.25 s a step (assumed: a board with a GPU)"),
    ("resnet50", 3.0, 0.4, "ResNet-50, 3 s a step (assumed)"),
    ("resnet50", 16.1, 0.3, "ResNet-50 on Raspberry Pi 5, 16.1 s a step"),
    ("resnet18", 5.84, 0.3, "ResNet-18 on Raspberry Pi 5, 5.84 s a step"),
]
EIGHT = {"synchronization.algorithm": "local-sgd", "synchronization.local_steps": 8}
SCHEMES = [
    ("float32", {"name": "none"}, {}),
    ("bf16", {"name": "bf16"}, {}),
    ("default", {"name": "e-elastiquant"}, {}),
    ("0.25 bits", {"name": "e-elastiquant", "rate": 0.25}, {}),
    ("local, float32", {"name": "none"}, EIGHT),
    ("local, default", {"name": "e-elastiquant"}, EIGHT),
    ("local, delayed", {"name": "e-elastiquant"}, EIGHT | {"synchronization.delay": "auto"}),
    ("PowerSGD", {"name": "powersgd", "rank": 2}, {}),
    ("top-k", {"name": "topk", "density": 0.001}, {}),
]
# Megabits a second, network, seconds, scheme. Float32 at 10 Mb/s would take minutes a step.
MEASURED = [
    (100, "resnet50", 0.25, "float32"),
    (100, "resnet50", 0.25, "default"),
    (100, "resnet50", 0.25, "local, default"),
    (100, "resnet50", 0.25, "PowerSGD"),
    (100, "resnet50", 0.25, "top-k"),
    (10, "resnet50", 3.0, "default"),
]


def links():
    """Captions and links of a cluster file; the radio channel is that of configs/clusters/wifi.json."""
    for rate in (10, 100, 1000):
        yield f"{rate} Mb/s", {"kind": "duplex", "megabits": rate, "latency_ms": 0.2}
    with open(os.path.join(ROOT, "configs/clusters/wifi.json")) as file:
        wifi = json.load(file)["links"]["wifi"]
    wifi.pop("jitter_ms")
    yield f"Wi-Fi, {wifi['megabits']} Mb/s for all", wifi


def config_of(network, seconds, compressor, steps):
    return {"model": {"name": network}, "compressor": compressor, "output": {"tensorboard": False},
            "train": {"emulate_compute": seconds, "steps": steps}}


def sets_of(keys):
    return [text for key, value in keys.items() for text in ("--set", f"{key}={json.dumps(value)}")]


def write(folder, name, document):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        json.dump(document, file)
    return path


def speed_ups(program, calibration, folder, board, link, compressor, keys):
    """Of NUMBERS boards, which are separate machines."""
    network, seconds, codec, _ = board
    kind = {"name": "board", "count": NUMBERS[-1], "step_seconds": seconds, "update_seconds": 0,
            "codec_scale": codec, "link": "link"}
    command = [program, "plan", "--json", "--ranks", ",".join(map(str, NUMBERS)), "--vary", "seed=1",
               "--config", write(folder, "config.json", config_of(network, seconds, compressor, 1)),
               "--cluster", write(folder, "cluster.json", {"boards": [kind], "links": {"link": link}})]
    command += sets_of(keys) + (["--calibration", calibration] if calibration else [])
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"scaling.py: {' '.join(command)}: {run.stderr}")
    plan = json.loads(run.stdout)
    alone = plan["one_board"]["images_per_second"]
    return [row["images_per_second"] / alone for row in plan["schemes"][0]["by_ranks"]]


def print_plan(program, calibration, folder):
    columns = list(links())
    for board in BOARDS:
        print(f"{board[3]}\n\n| | {' | '.join(name for name, _ in columns)} |")
        print("|---" * (len(columns) + 1) + "|")
        for name, compressor, keys in SCHEMES:
            cells = (speed_ups(program, calibration, folder, board, link, compressor, keys) for _, link in columns)
            shown = (", ".join(f"{times:.2f}" if times < 1 else f"{times:.3g}" for times in cell) for cell in cells)
            print(f"| {name} | {' | '.join(shown)} |", flush=True)
        print()


def print_measured(program, calibration, folder, numbers):
    schemes = {name: (compressor, keys) for name, compressor, keys in SCHEMES}
    apart = {(network, seconds): board for board in BOARDS for network, seconds in [board[:2]]}
    by_rate = {link["megabits"]: link for _, link in links() if link["kind"] == "duplex"}

    @functools.cache
    def alone(network, seconds):
        return steps_of(network, [1000], seconds, "float32")[1]

    def steps_of(network, megabits, seconds, scheme):
        compressor, keys = schemes[scheme]
        every = keys.get("synchronization.local_steps", 1)
        ranks = len(megabits)
        config = write(folder, "config.json", config_of(network, seconds, compressor, max(4, 3 * every)))
        sets = sets_of(keys)
        speeds = ["--calibration", calibration] if calibration else []
        plan, _ = planned(program, folder, config, sets + speeds, cluster_of(megabits, [seconds] * ranks), ranks)
        return plan, measured(program, folder, config, sets, megabits, ranks, every)

    print("| boards | link, a step | | planned, s | measured, s | error | × one board | separate boards, planned |\n"
          "|---|---|---|---|---|---|---|---|")
    for ranks in numbers:
        for rate, network, seconds, scheme in MEASURED:
            plan, step = steps_of(network, [rate] * ranks, seconds, scheme)
            times = ranks * alone(network, seconds) / step
            separate = speed_ups(program, calibration, folder, apart[network, seconds], by_rate[rate], *schemes[scheme])
            print(f"| {ranks} | {rate} Mb/s, {seconds:g} s | {scheme} | {plan:.3f} | {step:.3f} | "
                  f"{100 * (plan / step - 1):+.1f} % | {times:.2f} | {separate[NUMBERS.index(ranks)]:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--calibration", default="")
    parser.add_argument("--measure", default="")
    asked = parser.parse_args()
    program = os.path.abspath(asked.program)
    with tempfile.TemporaryDirectory() as folder:
        if not asked.measure:
            return print_plan(program, asked.calibration, folder)
        numbers = [int(word) for word in asked.measure.split(",") if word in map(str, NUMBERS)]
        if len(numbers) != len(asked.measure.split(",")):
            sys.exit(f"scaling.py: --measure: expected some of {NUMBERS}, found {asked.measure}; try --measure 2,4,8")
        print_measured(program, asked.calibration, folder, numbers)


if __name__ == "__main__":
    main()
