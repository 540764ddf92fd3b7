# SPDX-License-Identifier: Apache-2.0
"""Chooses batch, local steps and learning rate for a job by a probe of it, and starts it with them.

Called by scripts/tune.sh. Needs only Python's standard library.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

from arguments import refuse_unknown

EPILOG = """\
  scripts/tune.sh configs/quickstart.json --ranks 2 --target 88% --out runs/tuned
  scripts/tune.sh FILE --hosts pi0,pi1,pi2,pi3 --target 0.9 --set data.path=/data --out runs/tuned
  scripts/netlab.sh --ranks 2 --rate 10mbit --once -- sh -c \\
    'scripts/tune.sh FILE --hosts $NETLAB_HOSTS --target 90% --out runs/tuned'

The folder gets: probe, a run of the config with the compressor auto, which observes the gradients' noise; doctor.json,
the measured links; calibration.json and cluster.json, for equant-train plan; choice.json, what plan --to-accuracy says;
tuned.json, the config with the choice, which repeats the run; run, that run.
"""
# Links within a host are not planned; a cluster file has to name one.
NO_LINK = {"kind": "duplex", "megabits": 10000, "latency_ms": 0}
UNEVEN = 1.25  # hosts whose matrix products differ more have times of their own


def fail(code, sentence):
    print(f"tune.sh: {sentence}", file=sys.stderr)
    sys.exit(code)


def parse_arguments(words):
    parser = argparse.ArgumentParser(
        prog="scripts/tune.sh", description=__doc__.splitlines()[0], epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("config", type=pathlib.Path, metavar="CONFIG", help="config of the run")
    parser.add_argument("--target", required=True, metavar="A", help="test accuracy, a share or with %%")
    parser.add_argument("--out", required=True, type=pathlib.Path, metavar="DIR", help="a new folder for all of it")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--ranks", metavar="N", help="ranks on this machine [2]")
    where.add_argument("--hosts", metavar="LIST", help="hosts as for run_hosts.sh")
    parser.add_argument("--epochs", type=int, default=5, metavar="E", help="of the probe [5]")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=JSON", help="a key of the config")
    parser.add_argument("--seconds", default="2", metavar="S", help="for measuring links [2]")
    parser.add_argument("--dry-run", action="store_true", help="choose, but do not start the run")
    refuse_unknown(parser, words)
    options = parser.parse_args(words)
    if options.epochs < 1:
        parser.error(f"expected --epochs of at least 1, found {options.epochs}")
    if options.ranks is not None and options.ranks == "1":
        parser.error("expected at least 2 --ranks, whose gradients tell the noise, found 1")
    if options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir())):
        parser.error(f"expected a new folder for --out, found {options.out}; name another one")
    return options


def run(words, out=None):
    """Runs a command, whose standard output goes to the file `out`; ends with its exit code if it fails."""
    if out is None:
        code = subprocess.run(words).returncode
    else:
        with open(out, "w", encoding="utf-8") as file:
            code = subprocess.run(words, stdout=file).returncode
    if code != 0:
        sys.exit(code if code > 0 else 128 - code)


class Job:
    """The commands of a job: the program alone, or under MPI."""

    def __init__(self, options):
        scripts = pathlib.Path(__file__).parent.parent
        self.program = os.environ["EQT_PROGRAM"]
        if options.hosts is not None:
            self.launch = [scripts / "run_hosts.sh", "--hosts", options.hosts, "--"]
        else:
            self.launch = [scripts / "run_local.sh", "--ranks", options.ranks or "2", "--"]

    def under_mpi(self, *words, out=None):
        run([*self.launch, *words], out)

    def alone(self, *words, out=None):
        run([self.program, *words], out)


def with_sets(sets):
    return [word for one in sets for word in ("--set", one)]


def probe_config(asked, epochs):
    """The config with the compressor auto, averaging gradients in each step, and no states to save."""
    config = json.loads(asked.read_text(encoding="utf-8"))
    kept = {"overlap", "timeout_seconds"}
    config.pop("checkpoint", None)
    config.update(name="probe", compressor={"name": "auto"}, synchronization={
        key: value for key, value in config.get("synchronization", {}).items() if key in kept})
    config.setdefault("train", {}).update(epochs=epochs, steps=0, evaluate_every=1, early_stopping=0)
    config.setdefault("output", {}).update(step_records=True, tensorboard=False)
    return config


def cluster_of(doctor, laboratory):
    """The hosts as boards whose times and links are those of the calibration."""
    hosts = {}
    for rank in doctor["ranks"]:
        hosts.setdefault(rank["host"], []).append(rank)
    speeds = {name: min(rank["matmul_flops"] for rank in ranks) for name, ranks in hosts.items()}
    # Hosts of a laboratory are one machine, whose noise is no difference.
    uneven = not laboratory and max(speeds.values()) > UNEVEN * min(speeds.values()) > 0
    boards = []
    for name, ranks in hosts.items():
        board = {"name": name, "count": 1, "ranks": len(ranks), "link": "lan"}
        if uneven:
            board["flops"] = speeds[name]
        if not laboratory:
            board["cores"] = ranks[0]["host_cores"]
        alike = boards[-1] if boards else {}
        if all(alike.get(key) == board.get(key) for key in ("ranks", "cores", "flops")):
            alike["count"] += 1
        else:
            boards.append(board)
    cluster = {"source": "tune.sh: the hosts of this job", "boards": boards,
               "links": {"lan": {"kind": "duplex"} if len(hosts) > 1 else NO_LINK}}
    if laboratory:
        cluster["cores_of_all"] = os.cpu_count()
    return cluster


def write(path, document):
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def main():
    options = parse_arguments(sys.argv[1:])
    job, out = Job(options), options.out
    out.mkdir(parents=True, exist_ok=True)
    given = ["--config", str(options.config), *with_sets(options.set)]
    job.alone("check", *given, out=out / "asked.json")
    write(out / "probe.json", probe_config(out / "asked.json", options.epochs))
    print(f"A probe of {options.epochs} epochs:", flush=True)
    job.under_mpi("--config", str(out / "probe.json"), "--out", str(out / "probe"))
    # Hosts are compared by products of as many threads as the probe had; without the key both choose the same.
    threads = json.loads((out / "asked.json").read_text(encoding="utf-8")).get("threads_per_rank", 0)
    job.under_mpi("doctor", "--json", "--seconds", options.seconds, *(["--threads", str(threads)] if threads else []),
                  out=out / "doctor.json")
    job.alone("plan", "--calibrate", str(out / "calibration.json"), "--from", str(out / "probe"),
              "--from", str(out / "doctor.json"))
    doctor = json.loads((out / "doctor.json").read_text(encoding="utf-8"))
    write(out / "cluster.json", cluster_of(doctor, "EQT_LABORATORY" in os.environ))
    # Compressors are measured now, which a calibration without them leaves to plan.
    job.alone("plan", "--config", str(out / "asked.json"), "--cluster", str(out / "cluster.json"), "--calibration",
              str(out / "calibration.json"), "--to-accuracy", options.target, "--probe", str(out / "probe"), "--json",
              out=out / "choice.json")
    plan = json.loads((out / "choice.json").read_text(encoding="utf-8"))
    print(f"\n{plan['summary']}", flush=True)
    choice = plan["choice"]["sets"]
    job.alone("check", "--config", str(out / "asked.json"), *with_sets(choice), out=out / "tuned.json")
    if options.dry_run:
        print(f"The config with the choice is {out / 'tuned.json'}.")
        return
    job.under_mpi("--config", str(out / "tuned.json"), "--out", str(out / "run"))


if __name__ == "__main__":
    main()
