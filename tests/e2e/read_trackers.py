#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that scripts/export_runs.sh exported everything in a run folder.

    read_trackers.py write-stand-in FOLDER        modules mlflow and wandb that write what they are handed
    read_trackers.py stand-in FOLDER HANDED...    what those wrote, a file each
    read_trackers.py mlflow FOLDER -              from MLFLOW_TRACKING_URI, with MLflow's own reader
    read_trackers.py wandb FOLDER OFFLINE         an offline run's file, with wandb's own messages

Exit code 77: the package is not there. An exception names what differs.
"""
import glob
import json
import math
import struct
import sys

STAND_IN = {
    "mlflow/__init__.py": "",
    "mlflow/entities.py": "from collections import namedtuple\n"
                          "Param = namedtuple('Param', 'key value')\n"
                          "Metric = namedtuple('Metric', 'key value timestamp step')\n",
    "mlflow/tracking.py": """
import json, os, types
class MlflowClient:
    handed = {"config": {}, "metrics": [], "tags": None, "status": None}
    def get_experiment_by_name(self, name): return None
    def create_experiment(self, name): return "1"
    def search_runs(self, experiments, text): return []
    def create_run(self, experiment, start_time, tags):
        self.handed["tags"] = tags
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id="r"))
    def log_batch(self, run, metrics=(), params=()):
        assert len(metrics) <= 1000 and len(params) <= 100
        self.handed["config"].update((p.key, p.value) for p in params)
        self.handed["metrics"] += [[m.step, m.key, m.value] for m in metrics]
    def log_artifact(self, run, path): pass
    def set_terminated(self, run, status):
        json.dump({**self.handed, "status": status}, open(os.environ["HANDED"], "w"))
""",
    "wandb.py": """
import json, os
handed = {"metrics": []}
class Run:
    summary = {}
    def log(self, point, step): handed["metrics"] += [[step, k, v] for k, v in point.items()]
    def finish(self, exit_code):
        json.dump({**handed, "summary": self.summary, "status": exit_code}, open(os.environ["HANDED"], "w"))
def init(project, name, id, resume, config):
    handed["config"] = config
    return Run()
""",
}


def leaves(value, name):
    if isinstance(value, (bool, int, float)):
        yield name, float(value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{name}/{key}")
    elif isinstance(value, list) and not (value and isinstance(value[0], dict)):
        for i, inner in enumerate(value):
            yield from leaves(inner, f"{name}/{i}")


def expected(folder):
    """{(step, name): value} of the epochs, {name: value} of the summary."""
    points = {}
    for line in open(folder + "/metrics.jsonl"):
        record = json.loads(line)
        if record["type"] == "epoch":
            kind, step = record.pop("type"), record.pop("step")
            points.update({(step, name): value for name, value in leaves(record, kind)})
    assert len({step for step, _ in points}) == 2, "a run of two epochs"
    return points, dict(leaves(json.load(open(folder + "/summary.json")), "summary"))


def same(found, want, what):
    assert set(found) == set(want), (what, set(found) ^ set(want))
    for key, value in want.items():
        assert math.isclose(found[key], value, rel_tol=1e-12), (what, key, found[key], value)


def check_config(config, folder):
    seed = json.load(open(folder + "/config.json"))["seed"]
    assert str(config["seed"]) == str(seed) and "compressor.name" in config, config


def stand_in(folder, files):
    points, summary = expected(folder)
    for path in files:
        handed = json.load(open(path))
        check_config(handed["config"], folder)
        found = {(step, name): value for step, name, value in handed["metrics"]}
        results = handed.get("summary", {name: v for (_, name), v in found.items() if name.startswith("summary/")})
        same({k: v for k, v in found.items() if not k[1].startswith("summary/")}, points, path)
        same({k: v for k, v in results.items() if not isinstance(v, str)}, summary, path)
        assert handed["status"] in (0, "FINISHED"), handed["status"]


def mlflow(folder, _):
    try:
        from mlflow.tracking import MlflowClient
    except ImportError:
        sys.exit(77)
    client = MlflowClient()
    [run] = client.search_runs([client.get_experiment_by_name("equant-train").experiment_id])
    check_config(run.data.params, folder)
    points, summary = expected(folder)
    found = {(m.step, name): m.value for name in run.data.metrics if not name.startswith("summary/")
             for m in client.get_metric_history(run.info.run_id, name)}
    same(found, points, "MLflow")
    same({k: v for k, v in run.data.metrics.items() if k.startswith("summary/")}, summary, "MLflow")
    assert run.info.status == "FINISHED", run.info.status


def log_records(path):
    """Of a .wandb file: seven bytes, then LevelDB's log format, blocks of 32 KiB with records of checksum,
    length, type (1 whole, 2 first, 3 middle, 4 last) and bytes."""
    data, at, record = open(path, "rb").read(), 7, b""
    assert data.startswith(b":W&B"), path
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        record = data[at + 7:at + 7 + size] if kind in (1, 2) else record + data[at + 7:at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            yield record


def wandb(folder, offline):
    try:
        from wandb.proto import wandb_internal_pb2
    except ImportError:
        sys.exit(77)
    [path] = glob.glob(offline + "/wandb/offline-run-*/*.wandb")
    found, summary, config = {}, {}, {}
    for data in log_records(path):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        for item in record.history.item:
            key = item.key or "/".join(item.nested_key)
            found[record.history.step.num, key] = json.loads(item.value_json)
        for item in record.summary.update:
            summary[item.key or item.nested_key[0]] = json.loads(item.value_json)
        for item in record.run.config.update:
            config[item.key or item.nested_key[0]] = json.loads(item.value_json)
    check_config(config, folder)
    points, results = expected(folder)
    same({k: v for k, v in found.items() if not k[1].startswith("_")}, points, "wandb")
    same({k: v for k, v in summary.items() if k.startswith("summary/") and not isinstance(v, str)}, results, "wandb")


if __name__ == "__main__":
    if sys.argv[1] == "write-stand-in":
        import os
        for name, text in STAND_IN.items():
            os.makedirs(os.path.dirname(os.path.join(sys.argv[2], name)), exist_ok=True)
            open(os.path.join(sys.argv[2], name), "w").write(text)
    elif sys.argv[1] == "stand-in":
        stand_in(sys.argv[2], sys.argv[3:])
    else:
        {"mlflow": mlflow, "wandb": wandb}[sys.argv[1]](*sys.argv[2:])
