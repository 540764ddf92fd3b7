# SPDX-License-Identifier: Apache-2.0
"""Exports finished runs to MLflow or Weights & Biases.

  scripts/export_runs.sh --to mlflow DIR...     # into MLFLOW_TRACKING_URI, as MLflow itself takes it
  scripts/export_runs.sh --to wandb DIR...      # WANDB_MODE=offline: for a later `wandb sync`

DIR is a run folder, or a folder of run folders, as sweeps make them. The config becomes parameters, every
number of the epoch records a metric at its step ("epoch/test_accuracy"), the summary metrics named
"summary/...". Figures are those of the records: accuracies are fractions, bytes sums over all ranks.

The package is not part of this program: pip install mlflow-skinny or wandb into a virtual environment
and set EQT_TRACKER_PYTHON to its Python.

Exit code: 0 when every run was exported, 1 without the package or when the tracker refuses, 2 for a
wrong command line, 3 for a folder without runs or with records that cannot be read.
"""

import argparse
import hashlib
import io
import json
import math
import os
import sys

import files
from arguments import refuse_unknown


def fail(code, sentence):
    print(f"export_runs.sh: {sentence}", file=sys.stderr)
    sys.exit(code)


def numbers(value, name):
    """(name, number) of every number in a record; lists of numbers have an index."""
    if isinstance(value, (bool, int, float)):
        if math.isfinite(value):
            yield name, float(value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, f"{name}/{key}")
    elif isinstance(value, list) and not (value and isinstance(value[0], dict)):
        for i, inner in enumerate(value):
            yield from numbers(inner, f"{name}/{i}")


def settings(value, name=""):
    """(dotted key, value) of a config."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from settings(inner, f"{name}.{key}" if name else key)
    elif value is not None:
        yield name, value if isinstance(value, (bool, int, float, str)) else json.dumps(value)


def read_text(path, errors="strict"):
    try:
        return files.read_text(path, errors)
    except OSError as error:
        fail(3, f"{path}: expected a run's file, found none that can be read ({error.strerror}).")


def read_document(path):
    try:
        document = files.parse_json(read_text(path))
    except ValueError as error:
        fail(3, f"{path}: expected JSON, found something else ({error}).")
    if not isinstance(document, dict):
        fail(3, f"{path}: expected a JSON object, found {type(document).__name__}.")
    return document


def read_records(path):
    """{(type, step): record} of the numbered records; the last one of a step if a run went back."""
    records = {}
    lines = io.StringIO(read_text(path, errors="replace")).readlines()
    for number, line in enumerate(lines, 1):
        try:
            record = files.parse_json(line)
            if record["type"] in ("step", "epoch"):
                records[record["type"], int(record["step"])] = record
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            if number == len(lines) and not line.endswith("\n"):
                break  # cut off while it was written
            fail(3, f"{path}, line {number}: expected a record, found something else ({error}).")
    return records


class Run:
    def __init__(self, folder, with_steps):
        self.folder = os.path.abspath(folder)
        self.config = read_document(os.path.join(folder, "config.json"))
        path = os.path.join(folder, "metrics.jsonl")
        records = read_records(path)
        summary = os.path.join(folder, "summary.json")
        self.summary = read_document(summary) if os.path.exists(summary) else None
        self.end = os.path.getmtime(path)  # [seconds since 1970]
        self.name = os.path.basename(self.folder)
        wanted = ("step", "epoch") if with_steps else ("epoch",)
        # [(step, {metric: value})], ascending; an epoch's record behind its last step's.
        self.points = []
        for kind, step in sorted(records, key=lambda key: (key[1], key[0] != "step")):
            if kind in wanted:
                record = {k: v for k, v in records[kind, step].items() if k not in ("type", "step")}
                self.points.append((step, dict(numbers(record, kind))))
        self.last_step = max((step for step, _ in self.points), default=0)

    def results(self):
        return dict(numbers(self.summary or {}, "summary"))

    def words(self):
        """The texts of the summary."""
        return {k: v for k, v in (self.summary or {}).items() if isinstance(v, str)}

    def identity(self):
        """The same for the same run in the same place, so that exporting a run twice makes one."""
        return hashlib.sha256(json.dumps([self.folder, self.config]).encode()).hexdigest()[:16]

    def files(self):
        names = ("config.json", "summary.json", "preprocessing.json", "model.pt")
        return [path for name in names if os.path.exists(path := os.path.join(self.folder, name))]


def to_mlflow(runs, arguments):
    try:
        from mlflow import entities
        from mlflow.tracking import MlflowClient
    except ImportError:
        fail(1, f"the package mlflow was not found for {sys.executable}: pip install mlflow-skinny into a "
                "virtual environment and set EQT_TRACKER_PYTHON to its Python.")
    client = MlflowClient()
    experiment = client.get_experiment_by_name(arguments.project)
    experiment = experiment.experiment_id if experiment else client.create_experiment(arguments.project)
    for run in runs:
        found = client.search_runs([experiment], f"tags.`equant.identity` = '{run.identity()}'")
        if found:
            print(f"{run.folder}: is there already, as {found[0].info.run_id}")
            continue
        end = int(1000 * run.end)
        tags = {"equant.identity": run.identity(), "equant.folder": run.folder, "mlflow.runName": run.name}
        tags.update((f"equant.{key}", value) for key, value in run.words().items())
        target = client.create_run(experiment, start_time=end, tags=tags).info.run_id
        most = 100  # of a request
        parameters = [entities.Param(key, str(value)[:500]) for key, value in settings(run.config)]
        for i in range(0, len(parameters), most):
            client.log_batch(target, params=parameters[i:i + most])
        metrics = [entities.Metric(name, value, end, step) for step, point in run.points
                   for name, value in point.items()]
        metrics += [entities.Metric(name, value, end, run.last_step) for name, value in run.results().items()]
        for i in range(0, len(metrics), most):
            client.log_batch(target, metrics=metrics[i:i + most])
        if arguments.files:
            for path in run.files():
                client.log_artifact(target, path)
        client.set_terminated(target, "FINISHED" if run.summary else "KILLED")
        print(f"{run.folder}: MLflow run {target}{'' if run.summary else ', unfinished'}")


def to_wandb(runs, arguments):
    try:
        import wandb
    except ImportError:
        fail(1, f"the package wandb was not found for {sys.executable}: pip install wandb into a virtual "
                "environment and set EQT_TRACKER_PYTHON to its Python.")
    for run in runs:
        target = wandb.init(project=arguments.project, name=run.name, id=run.identity(), resume="allow",
                            config=dict(settings(run.config)))
        for step, point in run.points:
            target.log(point, step=step)
        target.summary.update({**run.results(), **run.words()})
        if arguments.files and run.files():
            artifact = wandb.Artifact(f"run-{run.identity()}", type="run")
            for path in run.files():
                artifact.add_file(path)
            target.log_artifact(artifact)
        target.finish(exit_code=0 if run.summary else 1)
        print(f"{run.folder}: Weights & Biases run {run.identity()}{'' if run.summary else ', unfinished'}")


def run_folders(folders):
    found = []
    for folder in folders:
        if not os.path.isdir(folder):
            fail(2, f"{folder}: expected a run folder, found no folder.")
        below = sorted(path for path, _, files in os.walk(folder) if {"config.json", "metrics.jsonl"} <= set(files))
        if not below:
            fail(3, f"{folder}: expected runs, found no folder with config.json and metrics.jsonl.")
        found += [path for path in below if path not in found]
    return found


def main():
    parser = argparse.ArgumentParser(prog="export_runs.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="DIR", help="run folders, or folders that hold some")
    parser.add_argument("--to", required=True, choices=["mlflow", "wandb"], help="who takes them")
    parser.add_argument("--project", default="equant-train", metavar="NAME",
                        help="MLflow's experiment, the project of Weights & Biases [%(default)s]")
    parser.add_argument("--steps", action="store_true", help="the records of single steps, too")
    parser.add_argument("--files", action="store_true",
                        help="config.json, summary.json, preprocessing.json and model.pt as artifacts, too")
    refuse_unknown(parser, sys.argv[1:])
    arguments = parser.parse_args()
    runs = [Run(folder, arguments.steps) for folder in run_folders(arguments.folders)]
    try:
        {"mlflow": to_mlflow, "wandb": to_wandb}[arguments.to](runs, arguments)
    except Exception as error:  # the packages have no common one
        fail(1, f"{arguments.to} does not take the runs: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
