"""Runs every combination of configs, --set values and seeds, and makes one table of the results.

Called by scripts/sweep.sh. Needs nothing beside Python's standard library.
"""

import argparse
import csv
import fnmatch
import hashlib
import itertools
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIGURES = ["test_accuracy", "node_test_accuracy_mean", "gb_per_node", "paper_gb_per_node",
           "compression_ratio", "bits_per_value", "images_per_second"]
MEANS = FIGURES[:4]  # what the table of means over seeds shows
ROOMS = ["data", "compute", "encode", "transfer", "decode", "update", "total"]
COLUMNS = (["config", "sets", "seed"] + FIGURES + [f"{room}_seconds" for room in ROOMS]
           + ["wall_seconds", "state"])
# Digits after the point in the text table [3]; the CSV keeps them all.
DIGITS = {"test_accuracy": 4, "node_test_accuracy_mean": 4, "test_accuracy_deviation": 4,
          "gb_per_node": 4, "paper_gb_per_node": 4, "seeds": 0, "compression_ratio": 2, "bits_per_value": 2, "images_per_second": 1,
          "wall_seconds": 1}

EPILOG = """\
example:
  scripts/sweep.sh --out runs/sweep1 --ranks 2 \\
    --config configs/cifar10_resnet20/none.json --config configs/cifar10_resnet20/qsgd4.json \\
    --set 'train.batch_size=32|64' --seed 1 --seed 2 -- --set train.epochs=3

  scripts/sweep.sh --out runs/rows --rows configs/decentralised/table4.rows --only '*-0' \\
    --set 'data.partition.skew=0.0|0.9' --seed 1 --seed 2 --seed 3

A file of rows has a line "NAME RANKS CONFIG [KEY=VALUE]..." for each, the config beside the file;
# begins a comment. --set and --seed come on top of it; --ranks takes the place of its ranks.

Each run has a folder and a .log in --out. A run whose folder has a summary.json is finished and is
not run again, so the same command resumes a sweep that was stopped. table.txt and table.csv are
written anew after each run, with several seeds means.txt too. Seconds by room are of one epoch, GB
per node what a rank sends on average.
Exit code: 0 when every run finished, 1 when one failed, 2 for a wrong command line.
"""


def fail(code, sentence):
    print(f"sweep.sh: {sentence}", file=sys.stderr)
    sys.exit(code)


def natural(text):
    if not re.fullmatch(r"[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(f'expected a whole number of at least 1, found "{text}"')
    return text


class Row:
    """A line of a file of rows: a config, what is set on top of it, and how many ranks it has."""

    def __init__(self, name, ranks, config, sets):
        self.name, self.ranks, self.config, self.sets = name, ranks, config, sets


def read_rows(path):
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        sets = words[3:]
        if (len(words) < 3 or not re.fullmatch(r"[1-9][0-9]*", words[1])
                or not all(re.match(r"[^=]+=.", word) for word in sets)):
            fail(2, f"{path}:{number}: expected NAME RANKS CONFIG [KEY=VALUE]..., "
                    f'found "{line.strip()}".')
        config = path.parent / words[2]
        if not config.is_file():
            fail(2, f"{path}:{number}: there is no config file {config}.")
        rows.append(Row(words[0], words[1], str(config), sets))
    if len({row.name for row in rows}) < len(rows):
        fail(2, f"{path}: two rows have the same name.")
    return rows


def chosen_rows(options):
    """The rows to run: of the file, or one for each config."""
    if not options.rows:
        return [Row(None, options.ranks, config, []) for config in options.config]
    rows = read_rows(options.rows)
    for pattern in options.only or []:
        if not any(fnmatch.fnmatchcase(row.name, pattern) for row in rows):
            fail(2, f'--only "{pattern}" fits none of the rows '
                    f"{', '.join(row.name for row in rows)}.")
    rows = [row for row in rows if not options.only
            or any(fnmatch.fnmatchcase(row.name, pattern) for pattern in options.only)]
    return [Row(row.name, options.ranks or row.ranks, row.config, row.sets) for row in rows]


def parse_arguments(words):
    parser = argparse.ArgumentParser(
        prog="scripts/sweep.sh", description=__doc__.splitlines()[0], epilog=EPILOG,
        usage="%(prog)s --out DIR (--config FILE | --rows FILE) [options] "
              "[-- equant-train arguments]",
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--out", required=True, metavar="DIR", type=pathlib.Path,
                        help="folder for all runs and the tables")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--config", action="append", metavar="FILE",
                      help="a config; repeat for more")
    what.add_argument("--rows", metavar="FILE", type=pathlib.Path, help="a file of rows, see below")
    parser.add_argument("--only", action="append", metavar="PATTERN",
                        help="only rows with such a name, as of files; repeat for more")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=A|B", dest="sets",
                        help="a key and its values, separated by |; repeat for more keys")
    parser.add_argument("--seed", action="append", metavar="N", help="a seed; repeat for more")
    for name, meaning in (("ranks", "MPI processes [2]"), ("threads", "threads per rank"),
                          ("timeout", "end a run after this many seconds")):
        parser.add_argument(f"--{name}", type=natural, metavar="N", help=meaning)
    parser.add_argument("--stop-on-error", action="store_true",
                        help="run nothing more after a run that failed")
    parser.add_argument("--dry-run", action="store_true", help="list the runs; run none")
    split = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:split])
    options.extra = words[split + 1:]
    for item in options.sets:
        if not re.match(r"[^=]+=.", item):
            parser.error(f'--set needs KEY=VALUE or KEY=A|B, found "{item}"')
    for seed in options.seed or []:
        if not seed.isdigit():
            parser.error(f'--seed needs a whole number, found "{seed}"')
    for config in options.config or [options.rows]:
        if not pathlib.Path(config).is_file():
            parser.error(f"there is no file {config}")
    if options.only and not options.rows:
        parser.error("--only needs --rows")
    return options


class Run:
    """One combination: what to run, where its results lie, and how it ended."""

    def __init__(self, options, row, sets, seed):
        self.config, self.sets, self.seed = row.name or row.config, sets, seed
        self.file, self.ranks = row.config, row.ranks or "2"
        self.state = "not run"
        seeds = [f"seed={seed}"] if seed is not None else []
        self.values = [*row.sets, *sets, *seeds]
        name = self._folder_name([*sets, *seeds])
        self.folder = options.out / name
        self.log = options.out / f"{name}.log"
        self.recipe_file = options.out / f"{name}.recipe.json"
        # What must be equal for an earlier result to be this run's result.
        self.recipe = {
            "config_sha256": hashlib.sha256(pathlib.Path(self.file).read_bytes()).hexdigest(),
            "extra": options.extra, "ranks": self.ranks, "threads": options.threads}
        if row.sets:
            self.recipe["row"] = row.sets

    def _folder_name(self, values):
        stem = re.sub(r"^(\./)?configs/|\.json$", "", self.config)
        raw = ",".join([stem, *values])
        safe = re.sub(r"[^A-Za-z0-9._=,+-]+", "-", raw).lstrip("-.")[:150]
        if safe.replace("-", "/") != raw.replace("-", "/"):
            safe += "-" + hashlib.sha256(raw.encode()).hexdigest()[:8]
        return safe

    def title(self):
        return " ".join([self.config, *self.values, f"on {self.ranks} ranks"])

    def summary(self):
        """The finished run's summary, or None."""
        path = self.folder / "summary.json"
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:
            fail(1, f"{path} is not JSON: delete {self.folder} and run the sweep again.")

    def check_finished(self):
        """Whether an earlier result stands; leaves with a sentence if it is of another recipe."""
        if self.summary() is None:
            return False
        try:
            known = json.loads(self.recipe_file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            known = None
        if known != self.recipe:
            fail(2, f"{self.folder} holds a run with another config file, rank or thread count or "
                    "extra arguments: choose another --out or delete that folder.")
        self.state = "ok"
        return True

    def command(self, options):
        launcher = [str(ROOT / "scripts/run_local.sh"), "--ranks", self.ranks]
        for name in ("threads", "timeout"):
            if getattr(options, name):
                launcher += [f"--{name}", getattr(options, name)]
        sets = [word for value in self.values for word in ("--set", value)]
        return [*launcher, "--", "--config", self.file, *options.extra, *sets,
                "--out", str(self.folder), "--overwrite"]

    def execute(self, options):
        self.recipe_file.write_text(json.dumps(self.recipe, indent=1) + "\n", encoding="utf-8")
        with self.log.open("w", encoding="utf-8") as log:
            code = subprocess.run(self.command(options), stdin=subprocess.DEVNULL, stdout=log,
                                  stderr=subprocess.STDOUT, check=False).returncode
        if code == 0 and self.summary() is None:
            self.state = "no summary.json"
        else:
            self.state = "ok" if code == 0 else f"exit {code}"

    def last_words(self):
        lines = [line for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines()
                 if line.strip()]
        return lines[-1].strip() if lines else "no output"

    def row(self):
        summary = (self.summary() if self.state == "ok" else None) or {}
        seconds = summary.get("epoch_seconds", {})
        row = {"config": self.config, "sets": " ".join(self.sets),
               "seed": self.seed if self.seed is not None else "", "state": self.state,
               "wall_seconds": summary.get("wall_seconds")}
        row.update({name: summary.get(name) for name in FIGURES})
        for name, bytes_sent in (("gb_per_node", summary.get("sent_bytes")),
                                 ("paper_gb_per_node", summary.get("paper_sent_bytes_per_node"))):
            if bytes_sent is not None:
                nodes = summary["ranks"] if name == "gb_per_node" else 1
                row[name] = bytes_sent / nodes / 1e9
        row.update({f"{room}_seconds": seconds.get(room) for room in ROOMS})
        return row


def all_runs(options):
    keys = []
    for item in options.sets:
        key, values = item.split("=", 1)
        keys.append([f"{key}={value}" for value in values.split("|")])
    combinations = itertools.product(chosen_rows(options), itertools.product(*keys),
                                     options.seed or [None])
    runs = [Run(options, row, sets, seed) for row, sets, seed in combinations]
    if len({run.folder for run in runs}) < len(runs):
        fail(2, "two runs of this sweep are the same: a config, value or seed is named twice.")
    return runs


def text_cell(column, value):
    if value is None or value == "":
        return "-"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:.{DIGITS.get(column, 3)}f}"
    return str(value)


def text_table(rows, columns=COLUMNS):
    """Aligned columns: words to the left, numbers to the right; columns that hold nothing are left out."""
    heads = {name: name.replace("_seconds", " s").replace("_", " ") for name in columns}
    cells = {name: [text_cell(name, row[name]) for row in rows] for name in columns}
    shown = [name for name in columns
             if name in ("config", "state") or any(cell != "-" for cell in cells[name])]
    lines = []
    for i in range(-1, len(rows)):
        line = []
        for name in shown:
            width = max(len(heads[name]), *(len(cell) for cell in cells[name]))
            cell = heads[name] if i < 0 else cells[name][i]
            line.append(cell.ljust(width) if name in ("config", "sets", "state")
                        else cell.rjust(width))
        lines.append("  ".join(line).rstrip())
    return "\n".join(lines) + "\n"


def means_over_seeds(rows):
    """A row for each combination that finished with several seeds."""
    groups = {}
    for row in rows:
        if row["state"] == "ok":
            groups.setdefault((row["config"], row["sets"]), []).append(row)
    means = []
    for (config, sets), group in groups.items():
        if len(group) < 2:
            continue
        mean = {"config": config, "sets": sets, "seeds": len(group)}
        for name in MEANS:
            known = [row[name] for row in group if row[name] is not None]
            mean[name] = statistics.fmean(known) if len(known) == len(group) else None
        accuracies = [row["test_accuracy"] for row in group]
        mean["test_accuracy_deviation"] = (None if None in accuracies
                                           else statistics.stdev(accuracies))
        means.append(mean)
    return means


def write_tables(out, runs):
    rows = [run.row() for run in runs]
    (out / "table.txt").write_text(text_table(rows), encoding="utf-8")
    means = means_over_seeds(rows)
    if means:
        columns = ["config", "sets", "seeds", "test_accuracy", "test_accuracy_deviation", *MEANS[1:]]
        (out / "means.txt").write_text(text_table(means, columns), encoding="utf-8")
    with (out / "table.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    options = parse_arguments(sys.argv[1:])
    runs = all_runs(options)
    todo = [run for run in runs if not run.check_finished()]
    print(f"{len(runs)} runs, {len(runs) - len(todo)} of them finished before")
    if options.dry_run:
        for run in runs:
            print(f"{'finished' if run not in todo else 'to run'}: {run.title()}")
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    for number, run in enumerate(todo, 1):
        print(f"[{number}/{len(todo)}] {run.title()} ... ", end="", flush=True)
        start = time.monotonic()
        run.execute(options)
        print(f"{run.state}, {time.monotonic() - start:.0f} s", flush=True)
        if run.state != "ok":
            print(f"  {run.last_words()}\n  (all of it in {run.log})", flush=True)
        write_tables(options.out, runs)
        if run.state != "ok" and options.stop_on_error:
            break
    write_tables(options.out, runs)
    for name in ("table.txt", "means.txt"):
        if (options.out / name).is_file():
            print(f"\n{(options.out / name).read_text(encoding='utf-8')}", end="")
    print(f"\nTables: {options.out}/table.txt and {options.out}/table.csv")
    return 0 if all(run.state == "ok" for run in runs) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        fail(130, "interrupted; the same command goes on with the runs that are left.")
    except OSError as error:
        fail(1, f"cannot write the results: {error}.")
