# SPDX-License-Identifier: Apache-2.0
"""Runs every combination of configs, --vary values, seeds, ranks and links; makes one table of the results.

Called by scripts/sweep.sh. Needs only Python's standard library.
"""

import argparse
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys

import sweep_estimate
from arguments import refuse_unknown
from files import read_text
from sweep_file import MOST_MEGABITS, NATURAL, Row, SweepError, SweepFile, as_rates, fitting, is_file, read_rows
from sweep_jobs import Jobs
from sweep_keys import check_keys
from sweep_plan import Plans
from sweep_run import INSTALLED, PROGRAM, ROOT, STOPPED, Run
from sweep_tables import write_tables

EPILOG = """\
examples:
  scripts/sweep.sh configs/sweeps/accuracy.json --short --out runs/accuracy \
    -- --set data.path="$(scripts/get_data.sh cifar10)"

  scripts/sweep.sh --out runs/sweep1 --ranks 2 \\
    --config configs/cifar10_resnet20/none.json --config configs/cifar10_resnet20/qsgd4.json \\
    --vary train.batch_size=32,64 --seed 1,2 -- --set train.epochs=3

  scripts/sweep.sh --out runs/rows --rows configs/decentralised/table4.rows --only '*-0' \\
    --vary data.partition.skew=0.0,0.9 --seed 1,2,3

A sweep in JSON says all of it (configs/sweeps/README.md has its keys). It first estimates how long it
will take, from runs that are finished or else from a few measured steps of each kind, and in the end
has "equant-train report" make tables and plots. --vary and --set come on top, --seed, --ranks, --threads and
--timeout take the place of what it says.

A file of rows has a line "NAME RANKS CONFIG [KEY=VALUE]..." for each, the config relative to the file;
# begins a comment. --vary, --set and --seed come on top of it; --ranks takes the place of its ranks.

Each run has a folder and a .log in --out. A run whose folder has a summary.json is finished and is
not run again, so the same command resumes a sweep that was stopped; a run that was cut off continues
from its checkpoint, if it has one. table.txt and table.csv are
written again after each run, with several seeds means.txt too. Seconds by phase are of one epoch, GB
per node what a rank sends on average. --hours, Ctrl-C and SIGTERM stop the runs under way with their
state saved. With --jobs runs share the machine: their accuracies do not change, their seconds do.

--plan-links adds columns plan_RATE_s: what "equant-train plan" says that all steps of the run, without
tests, take if each rank is a board with a link of so many Mb/s and 0.1 ms to a switch, with the
collective that the run used. Boards compute as long as the sweep's plan_step_seconds say, otherwise as
long as ranks did in the run, by its median step: ranks that shared cores with others or with their own
communication are slower than boards. Speeds of compressors are measured on this machine. "-" is for
runs that plan refuses.
Exit code: 0 when every run finished, 1 when one failed, 2 for a wrong command line, 75 when the hours of
--hours were over before all had finished, 130 when a signal stopped it.
"""


def fail(code, sentence):
    print(f"sweep.sh: {sentence}", file=sys.stderr)
    sys.exit(code)


def here(text):
    """The text, with the paths that its files have where scripts are installed."""
    if not INSTALLED:
        return text
    return re.sub(r"(?<![/\w])(scripts|configs)/", lambda found: f"{ROOT}/{found[0]}", text)


def rates(text):
    """A list of rates, such as 10,100."""
    try:
        known = [float(rate) for rate in text.split(",")]
    except ValueError:
        known = []
    if not known or not all(0 < rate < MOST_MEGABITS for rate in known):
        raise argparse.ArgumentTypeError(f'expected rates above 0 in Mb/s such as 10,100, found "{text}"')
    return as_rates(known)


def hours(text):
    try:
        known = float(text)
    except ValueError:
        known = 0
    if not 0 < known < 1e5:
        raise argparse.ArgumentTypeError(f'expected hours above 0 such as 2.5, found "{text}"')
    return known


def natural(text):
    if not re.fullmatch(NATURAL, text):
        raise argparse.ArgumentTypeError(f'expected a whole number of at least 1, found "{text}"')
    return text


def chosen_rows(options):
    """The rows to run: those of the file, or one for each config."""
    if not options.rows:
        return [Row(None, options.ranks, config, []) for config in options.config]
    rows = fitting(read_rows(options.rows), options.only, "--only")
    return [Row(row.name, options.ranks or row.ranks, row.config, row.sets) for row in rows]


def parts_of(text, separator):
    """The parts between separators that are in no brackets or quotes."""
    parts, depth, quoted = [""], 0, False
    for letter in text:
        quoted ^= letter == '"'
        if not quoted:
            depth += (letter in "[{") - (letter in "]}")
        if letter == separator and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


class Varied(argparse.Action):
    """Keeps the settings of --vary KEY=V,V and of --set KEY=V or KEY=A|B: a list of "KEY=V" for each."""

    def __call__(self, parser, namespace, item, option=None):
        if not re.match(r"[^=]+=.", item):
            parser.error(f'{option} needs {self.metavar}, found "{item}"')
        key, values = item.split("=", 1)
        parts = parts_of(values, "|") if "|" in values or option == "--set" else parts_of(values, ",")
        namespace.sets = [*namespace.sets, [f"{key}={value}" for value in parts]]


def parse_arguments(words):
    parser = argparse.ArgumentParser(
        prog=here("scripts/sweep.sh"), description=__doc__.splitlines()[0], epilog=here(EPILOG),
        usage="%(prog)s --out DIR (SWEEP.json | --config FILE | --rows FILE) [options] "
              "[-- equant-train arguments]",
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--out", required=True, metavar="DIR", type=pathlib.Path,
                        help="folder for all runs and the tables")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("file", nargs="?", metavar="SWEEP.json", type=pathlib.Path,
                      help="a sweep: configs, values, seeds, ranks, links")
    what.add_argument("--config", action="append", metavar="FILE",
                      help="a config; repeat for more")
    what.add_argument("--rows", metavar="FILE", type=pathlib.Path, help="a file of rows, see below")
    parser.add_argument("--only", action="append", metavar="PATTERN",
                        help="only rows with such a name, as of files; repeat for more")
    parser.add_argument("--vary", action=Varied, default=[], metavar="KEY=V,V,...", dest="sets",
                        help="a key and its values, as of plan; commas in brackets or quotes do not divide; "
                             "repeat for all combinations with more keys")
    parser.add_argument("--set", action=Varied, metavar="KEY=V", dest="sets",
                        help="a key and its value; A|B are several, as with --vary")
    parser.add_argument("--seed", action="append", metavar="N,N,...", help="seeds; repeat for more")
    for name, meaning in (("ranks", "MPI processes [2]"), ("threads", "threads per rank"),
                          ("timeout", "end a run after this many seconds"),
                          ("jobs", "runs at the same time [1]")):
        parser.add_argument(f"--{name}", type=natural, metavar="N", help=meaning)
    parser.add_argument("--hours", type=hours, metavar="H",
                        help="stop after so many hours, with the state of the runs under way saved")
    parser.add_argument("--plan-links", type=rates, metavar="MBITS,...",
                        help="add what runs take if each rank is a board on such a link, see below")
    parser.add_argument("--short", action="store_true",
                        help="the sweep's short size, which shows less and ends sooner")
    parser.add_argument("--estimate", action="store_true",
                        help="say how long a sweep will take; run nothing but a few steps")
    parser.add_argument("--stop-on-error", action="store_true",
                        help="run nothing more after a run that failed")
    parser.add_argument("--dry-run", action="store_true", help="list the runs; run none")
    split = words.index("--") if "--" in words else len(words)
    refuse_unknown(parser, words[:split])
    options = parser.parse_args(words[:split])
    options.extra = words[split + 1:]
    options.jobs = int(options.jobs or 1)
    if options.seed:
        options.seed = [seed for seeds in options.seed for seed in seeds.split(",")]
    for seed in options.seed or []:
        if not seed.isdigit():
            parser.error(f'--seed needs whole numbers, found "{seed}"')
    for config in options.config or [options.rows or options.file]:
        if not is_file(config):
            parser.error(f"there is no file {config}")
    if options.only and options.config:
        parser.error("--only needs --rows or a sweep in JSON")
    for name in ("short", "estimate"):
        if getattr(options, name) and not options.file:
            parser.error(f"--{name} needs a sweep in JSON")
    return options


def runs_of_file(options, sweep):
    """The runs of a sweep file, with the options of the command line."""
    options.threads = options.threads or sweep.threads
    options.timeout = options.timeout or sweep.timeout
    options.plan_links = options.plan_links or sweep.plan_links
    if options.only:
        for row in sweep.rows:
            row.name = row.name or row.config
        sweep.rows = fitting(sweep.rows, options.only, "--only")
    if options.ranks:
        sweep.ranks = [options.ranks]
    runs = []
    for (row, ranks, link, sets, told), more, seed in itertools.product(
            sweep.combinations(), itertools.product(*options.sets),
            options.seed or sweep.seeds or [None]):
        played = sweep.simulate if row.simulate is None else row.simulate
        chosen = Row(row.name, ranks, row.config, row.sets, played, row.stage, row.step_seconds)
        runs.append(Run(options, chosen, (*sets, *more), seed, link, told, sweep.cores))
    return sorted(runs, key=lambda run: run.stage)


def all_runs(options, sweep):
    if sweep:
        runs = runs_of_file(options, sweep)
    else:
        runs = [Run(options, row, sets, seed) for row, sets, seed in itertools.product(
            chosen_rows(options), itertools.product(*options.sets),
            options.seed or [None])]
    if len({run.folder for run in runs}) < len(runs):
        fail(2, "two runs of this sweep are the same: a config, value or seed is named twice.")
    return runs


def check_ready(runs, options):
    """Exits with a message if something that the runs need is missing."""
    if not os.access(PROGRAM, os.X_OK):
        remedy = "install equant-train again" if INSTALLED else "build it with scripts/quickstart.sh"
        fail(2, f"{PROGRAM} is not an executable: {remedy}, or name it in EQT_PROGRAM.")
    if not any(run.link for run in runs):
        return
    if options.jobs > 1:
        fail(2, "expected --jobs 1 with a link: the hosts of netlab.sh are one laboratory, whose links the runs "
                "would share.")
    lab = subprocess.run([str(ROOT / "scripts/netlab.sh"), "--check"], capture_output=True, text=True,
                         check=False)
    if lab.returncode != 0:
        fail(1, f"links of limited rate need {here('scripts/netlab.sh')}: {lab.stderr.strip()}")


def say_estimate(runs, todo, options):
    """Tries a few steps of each kind of run; exits with the program's message if it refuses one."""
    check_ready(todo, options)
    try:
        estimate = sweep_estimate.Estimate(runs, todo, options)
    except sweep_estimate.Refused as refusal:
        fail(refusal.code, f"a run of this sweep is refused: {refusal}")
    for line in estimate.lines if options.estimate else []:
        print(f"  {line}")
    print(f"estimate: {estimate.sentence()}", flush=True)


def make_report(options, sweep):
    """Makes the report, if the program can."""
    about = subprocess.run([PROGRAM, "--help"], stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, check=False)
    if not re.search(r"^ +report ", about.stdout, re.MULTILINE):
        return
    table = ["--table", sweep.table] if sweep.table else []
    print(flush=True)
    made = subprocess.run([PROGRAM, "report", str(options.out), *table], stdin=subprocess.DEVNULL,
                          check=False)
    if made.returncode != 0:
        print(f"  no report: equant-train report ended with exit code {made.returncode}", flush=True)


def print_tables(out):
    for name in ("table.txt", "means.txt"):
        if (out / name).is_file():
            print(f"\n{read_text(out / name)}", end="")
    print(f"\nTables: {out}/table.txt and {out}/table.csv")


def main():
    options = parse_arguments(sys.argv[1:])
    sweep = SweepFile(options.file, options.short) if options.file else None
    runs = all_runs(options, sweep)
    check_keys(runs)
    todo = [run for run in runs if not run.check_finished()]
    print(f"{len(runs)} runs, {len(runs) - len(todo)} of them finished before")
    if options.dry_run:
        for run in runs:
            print(f"{'finished' if run not in todo else 'to run'}: {run.title()}")
        return 0
    if sweep and todo:
        say_estimate(runs, todo, options)
    if options.estimate:
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    plans = Plans(options)
    for run in runs:
        plans.add_to(run)
    jobs, ended = Jobs(options), itertools.count(1)

    def note(run, seconds):
        """False if the sweep is to stop."""
        print(f"[{next(ended)}/{len(todo)}] {run.title()}: {run.state}, {seconds:.0f} s", flush=True)
        if run.state not in ("ok", "stopped"):
            print(f"  {run.last_words()}\n  (all of it in {run.log})", flush=True)
        plans.add_to(run)
        write_tables(options.out, runs, plans.columns())
        return run.state == "ok" or not options.stop_on_error

    jobs.execute(todo, note)
    write_tables(options.out, runs, plans.columns())
    print_tables(options.out)
    if sweep:
        make_report(options, sweep)
    unfinished = [run for run in runs if run.state != "ok"]
    if jobs.time_is_up and unfinished:
        print(f"the {options.hours:g} hours are over with {len(unfinished)} runs to do; the same command continues.",
              flush=True)
        if all(run.state in ("stopped", "not run") for run in unfinished):
            return STOPPED
    return 1 if unfinished else 0


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, signal.default_int_handler)
    try:
        sys.exit(main())
    except SweepError as error:
        fail(error.code, str(error))
    except KeyboardInterrupt:
        fail(130, "interrupted; the same command continues with the remaining runs.")
    except OSError as error:
        fail(1, f"cannot read or write: {error}.")
