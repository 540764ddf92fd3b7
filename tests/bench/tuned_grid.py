#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `train.tune` chooses, beside a grid of batches and learning rates, behind the links of netlab.sh.

usage: tuned_grid.py [--batches B,B] [--rates R,R] [--links MB,MB] [--epochs E] [--tune KEY=JSON]... --out DIR
                     PROGRAM CONFIG TARGET

Two ranks. A setting takes its steps to the accuracy, interpolated between the evaluations of E epochs, times the mean
of steps 9 to 16 on the link. What is in DIR is not measured again. Needs root, as netlab.sh does.
"""
import argparse, itertools, json, os, statistics, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RANKS = 2


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("config", type=os.path.abspath)
    parser.add_argument("target", type=float)
    parser.add_argument("--batches", default="32,64,128")
    parser.add_argument("--rates", default="0.2,0.4,0.8,1.6")
    parser.add_argument("--links", default="10,100,1000", help="[Mb/s]")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--tune", action="append", default=[], help="a key of the job that chooses")
    parser.add_argument("--out", required=True, type=os.path.abspath)
    return parser.parse_args()


class Bench:
    def __init__(self, options):
        self.options = options

    def run(self, name, sets, megabits=None):
        """The records of a run in the folder `name`, made unless it is there."""
        out = os.path.join(self.options.out, name)
        if not os.path.exists(os.path.join(out, "summary.json")):
            command = [self.options.program, "--config", self.options.config, "--out", out, "--overwrite", "--quiet",
                       *(word for one in sets for word in ("--set", one))]
            if megabits is None:
                command += ["--simulate", str(RANKS)]
            else:
                command = [os.path.join(ROOT, "scripts/netlab.sh"), "--ranks", str(RANKS), "--rate", f"{megabits}mbit",
                           "--timeout", "600", "--", *command]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"tuned_grid.py: {' '.join(command)}: {done.stderr}")
        with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as file:
            return out, [json.loads(line) for line in file]

    def steps(self, name, sets):
        """Steps to the target; none, if it is not reached."""
        _, records = self.run(f"steps/{name}", [*sets, f"train.epochs={self.options.epochs}"])
        before = (0, 0)
        for record in records:
            if record["type"] != "epoch":
                continue
            step, accuracy = record["step"], record["test_accuracy"]
            if accuracy >= self.options.target:
                return before[0] + (step - before[0]) * (self.options.target - before[1]) / (accuracy - before[1])
            before = (step, accuracy)
        return None

    def seconds(self, name, sets, megabits):
        """The mean step on a link."""
        _, records = self.run(f"seconds/{name}-{megabits}", [*sets, "train.steps=16", "train.evaluate_every=0"], megabits)
        return statistics.mean(r["seconds"]["total"] for r in records if r["type"] == "step" and r["step"] > 8)

    def choice(self, megabits):
        """What a job chooses on a link: tuned.json, and the keys that decide its time."""
        out, _ = self.run(f"choice/{megabits}", ["train.tune=auto", f"train.tune_target={self.options.target}",
                                                 *self.options.tune], megabits)
        with open(os.path.join(out, "tuned.json"), encoding="utf-8") as file:
            tuned = json.load(file)
        return tuned, [one for one in tuned["sets"] if not one.startswith("train.steps=")]


def main():
    options = parse_arguments()
    bench = Bench(options)
    grid = list(itertools.product(options.batches.split(","), options.rates.split(",")))
    batch_of = lambda batch: [f"train.batch_size={batch}"]
    steps = {one: bench.steps("b{}-r{}".format(*one), batch_of(one[0]) + [f"optimizer.learning_rate={one[1]}"])
             for one in grid}
    print("steps to the target:", ", ".join(f"{b} at {r}: {'none' if n is None else f'{n:.0f}'}"
                                            for (b, r), n in steps.items()))
    for megabits in options.links.split(","):
        tuned, sets = bench.choice(megabits)
        name = "-".join(one.split("=")[1] for one in sets)
        found = bench.steps(f"choice-{name}", sets)
        if found is None:
            sys.exit(f"tuned_grid.py: {sets} does not reach the target in {options.epochs} epochs; raise --epochs")
        chosen = found * bench.seconds(f"choice-{name}", sets, megabits)
        second = {batch: bench.seconds(f"b{batch}", batch_of(batch), megabits) for batch in options.batches.split(",")}
        times = sorted((n * second[b], b, r) for (b, r), n in steps.items() if n is not None)
        planned = next(one.split("=")[1] for one in tuned["sets"] if one.startswith("train.steps="))
        print(f"{megabits} Mb/s: choice {', '.join(sets)}: {chosen:.2f} s, {found:.0f} steps ({planned} planned), "
              f"{chosen / times[0][0]:.2f} times the best of {len(grid)}; choosing took {tuned['seconds']:.1f} s")
        print("  " + "; ".join(f"{b} at {r}: {t:.2f} s" for t, b, r in times))


if __name__ == "__main__":
    main()
