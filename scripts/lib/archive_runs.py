# SPDX-License-Identifier: Apache-2.0
"""Packs what a report needs of runs into one small archive, so that others can make the same tables.

Called by scripts/archive_runs.sh. Needs only Python's standard library.
"""

import argparse
import io
import pathlib
import sys
import tarfile

from arguments import refuse_unknown

EPILOG = """\
  scripts/archive_runs.sh runs/plateau --out plateau.tar.xz
  tar xf plateau.tar.xz && equant-train report plateau     # the same report, but for losses by step

The archive has config.json, metrics.jsonl, summary.json and preprocessing.json, which names the classes, of every
run, and what scripts/sweep.sh wrote beside it: recipe, planned seconds, how a run ended that did not finish, tables.
Records of steps are left out, with them the losses by step, but for runs that have no epoch or choose their grades.
Checkpoints, weights and logs are left out. The same runs give the same bytes.
"""
RUN_FILES = ("config.json", "metrics.jsonl", "summary.json", "preprocessing.json")
BESIDE = (".recipe.json", ".plan.json", ".state.json")  # after the name of a run's folder
TABLES = ("table.txt", "table.csv", "means.txt")
DEEPEST = 3  # folders between the one that is given and a run, as for report
STEP, EPOCH = b'{"type":"step"', b'{"type":"epoch"'


def fail(code, sentence):
    print(f"archive_runs.sh: {sentence}", file=sys.stderr)
    sys.exit(code)


def parse_arguments(words):
    parser = argparse.ArgumentParser(
        prog="scripts/archive_runs.sh", description=__doc__.splitlines()[0], epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="DIR", help="folder with runs")
    parser.add_argument("--out", required=True, type=pathlib.Path, metavar="FILE", help="the archive, NAME.tar.xz")
    parser.add_argument("--limit", type=float, default=20, metavar="MB", help="refuse to make a larger one [20]")
    refuse_unknown(parser, words)
    options = parser.parse_args(words)
    for folder in options.folders:
        if not folder.is_dir():
            parser.error(f"there is no folder {folder}")
    if not options.out.name.endswith(".tar.xz"):
        parser.error(f'expected a name that ends with .tar.xz for --out, found "{options.out.name}"')
    names = [folder.resolve().name for folder in options.folders]
    if len(set(names)) < len(names):
        parser.error("two of the folders have the same name, by which the archive would call them")
    return options


def is_run(folder):
    return any((folder / name).is_file() for name in RUN_FILES)


def files_of(folder, depth=0):
    """The files to pack, sorted."""
    if is_run(folder):
        return [folder / name for name in RUN_FILES if (folder / name).is_file()]
    if depth == DEEPEST:
        return []
    files = [folder / name for name in TABLES if (folder / name).is_file()]
    for below in sorted(path for path in folder.iterdir() if path.is_dir()):
        of_run = files_of(below, depth + 1)
        files += of_run
        if of_run:
            beside = (folder / (below.name + ending) for ending in BESIDE)
            files += [path for path in beside if path.is_file()]
    return files


def without_steps(records):
    """The records of a run that tables are made of."""
    lines = records.splitlines(keepends=True)
    if not any(line.startswith(EPOCH) for line in lines) or (lines and b'"grades":{' in lines[0]):
        return records
    return b"".join(line for line in lines if not line.startswith(STEP) or not line.endswith(b"\n"))


def pack(options):
    """The archive's bytes, and its number of runs."""
    target, runs = io.BytesIO(), 0
    with tarfile.open(fileobj=target, mode="w:xz", preset=9, format=tarfile.PAX_FORMAT) as archive:
        for folder in options.folders:
            root = folder.resolve()
            for path in files_of(root):
                content = path.read_bytes()
                if path.name == "metrics.jsonl":
                    content, runs = without_steps(content), runs + 1
                entry = tarfile.TarInfo(str(path.relative_to(root.parent)))  # time 0, no owner
                entry.size, entry.mode = len(content), 0o644
                archive.addfile(entry, io.BytesIO(content))
    return target.getvalue(), runs


def main():
    options = parse_arguments(sys.argv[1:])
    content, runs = pack(options)
    if runs == 0:
        fail(2, f"expected folders with runs, found none in {', '.join(map(str, options.folders))}.")
    if len(content) > options.limit * 1e6:
        fail(1, f"the archive of {runs} runs would have {len(content) / 1e6:.1f} MB, more than {options.limit:g}: "
                "leave runs out, or give a larger --limit.")
    options.out.write_bytes(content)
    print(f"{options.out}: {runs} runs, {len(content) / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        fail(1, f"cannot read or write: {error}.")
