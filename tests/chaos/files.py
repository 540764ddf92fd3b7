# SPDX-License-Identifier: Apache-2.0
"""Cells of matrix.py for files: the contents of a run folder, files of others in it, and changes by others.

Each runs one or two jobs of two ranks and checks exit codes, messages, and every byte of files that are not
the program's.
"""

import io
import json
import os
import re
import shlex
import shutil
import signal
import stat
import struct
import subprocess
import tarfile
import time
import zlib

import cells as common
from cells import LIMIT, START

CONFIG = common.config_with(checkpoint={"every_steps": 2}, synchronization={"timeout_seconds": 20},
                            output={"tensorboard": False})
LONG = ["--set", "train.steps=1000000", "--set", "train.epochs=1000000", "--set", "train.evaluate_every=0",
        "--set", "checkpoint.every_steps=0"]
RESULTS = ["metrics.jsonl", "summary.json", "model.pt"]


class Play:
    """A cell's folder, its jobs, and what was wrong."""

    def __init__(self, program, place):
        self.program, self.place, self.wrong = program, place, []
        self.config, self.out = os.path.join(place, "config.json"), os.path.join(place, "run")
        self.seconds, self.code, self.said = float("nan"), None, ""
        self.variables = {}  # of the jobs' environment
        os.makedirs(place)
        self.write(self.config, json.dumps(CONFIG))

    def check(self, holds, what):
        if not holds:
            self.wrong.append(what)

    @staticmethod
    def write(path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    @staticmethod
    def read(path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def inside(self, *names):
        return os.path.join(self.out, *names)

    def aside(self, name, text="theirs"):
        """A file of another program next to the run folder."""
        path = os.path.join(self.place, name)
        self.write(path, text)
        return path

    def start(self, *ranks, out=None):
        """A job whose ranks have these lists of arguments, two equal ranks if there is one."""
        ranks = ranks * 2 if len(ranks) == 1 else ranks
        # To mpirun they are one program: that of Open MPI 5.0.7 crashes when it is given several.
        line = "case $OMPI_COMM_WORLD_RANK in"
        for rank, arguments in enumerate(ranks):
            first = [] if arguments[:1] in (["doctor"], ["bench"]) else [
                "--config", self.config, "--out", out or self.out]
            line += f" {rank}) exec {shlex.join([self.program, *first, *arguments])} ;;"
        command = [*common.mpirun(), "-np", str(len(ranks)), "bash", "-c", line + " esac"]
        return subprocess.Popen(command, env=common.environment(self.place, **self.variables), stdin=subprocess.DEVNULL,
                                text=True, errors="replace", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                start_new_session=True)

    def start_verb(self, *arguments):
        return subprocess.Popen([os.path.abspath(self.program), *arguments], env=common.environment(self.place),
                                cwd=self.place, stdin=subprocess.DEVNULL, text=True, errors="replace", stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, start_new_session=True)

    def verb(self, *arguments):
        return self.end(self.start_verb(*arguments))

    def end(self, job, since=None, limit=START):
        """Its exit code; what it said and how long it took are the cell's."""
        since = since or time.time()
        try:
            self.said = job.communicate(timeout=3 * limit)[1]
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            self.said = job.communicate()[1]
            self.wrong.append("hung")
        self.seconds, self.code = time.time() - since, job.returncode
        self.check(self.seconds <= limit, f"took {self.seconds:.1f} s")
        self.check(not common.CRASH.search(self.said), "a stack trace")
        return self.code

    def train(self, *ranks, out=None):
        return self.end(self.start(*ranks, out=out))

    def must(self, code, sentence=""):
        """Checks how the last job ended."""
        self.check(self.code == code, f"exit code {self.code}, expected {code}")
        self.check(re.search(sentence, self.said), f"no sentence like \"{sentence}\"")

    def prepare(self, *arguments, out=None):
        self.check(self.train([*arguments], out=out) == 0, f"the run before failed: {self.said[:200]}")

    def until_steps(self, job):
        deadline = time.time() + START
        while job.poll() is None and time.time() < deadline:
            if os.path.exists(self.inside("metrics.jsonl")) and '"type":"step"' in self.read(self.inside("metrics.jsonl")):
                return
            time.sleep(0.02)
        self.wrong.append("no step was recorded")

    def hash(self, out=None):
        try:
            return json.loads(self.read(os.path.join(out or self.out, "summary.json")))["parameter_hash"]
        except OSError:
            return "no summary"

    def state(self):
        """Every name below the run folder, with its bytes."""
        found = {}
        for folder, folders, files in os.walk(self.out):
            for name in files:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[path] = file.read()
            found.update((os.path.join(folder, name), None) for name in folders)
        return found

    def file_of(self, step, rank, out=None):
        return os.path.join(out or self.out, "checkpoints", f"step-{step:08}", f"rank-{rank}-of-2.eqt")

    def unfinish(self, step, out=None):
        """As if the run had been killed after its set of this step."""
        out = out or self.out
        for name in os.listdir(os.path.join(out, "checkpoints")):
            if int(name.removeprefix("step-")) > step:
                shutil.rmtree(os.path.join(out, "checkpoints", name))
        for name in ("summary.json", "model.pt"):
            os.remove(os.path.join(out, name))


# Files of other programs or jobs in the folder.

def stranger_without_overwrite(play):
    strange = [play.inside("checkpoints", name) for name in ("notes.txt", "best.pt", "step-00000099/rank-0-of-2.eqt")]
    for path in strange:
        play.write(path, "theirs")
    play.train([])
    play.must(0)
    play.check(all(os.path.exists(path) and play.read(path) == "theirs" for path in strange), "a stranger's file is lost")


def stranger_with_overwrite(play):
    play.prepare()
    strange = [play.inside("checkpoints", name) for name in ("notes.txt", "step-00000004/notes.txt")]
    for path in strange:
        play.write(path, "theirs")
    play.train(["--overwrite", "--set", "seed=2", "--set", "checkpoint.every_steps=0"])
    play.must(0)
    play.check(all(os.path.exists(path) for path in strange), "a stranger's file is lost")
    play.check(not os.path.exists(play.file_of(4, 0)), "the older run's checkpoint is still there")


def refused(code, sentence, *arguments):
    def cell(play):
        play.prepare()
        before = play.state()
        play.train([*arguments])
        play.must(code, sentence)
        play.check(play.state() == before, "the refused run changed the folder")
    return cell


def two_jobs(play):
    jobs = [play.start([]), play.start([])]
    codes = sorted(play.end(job) for job in jobs)
    play.check(codes == [0, 2], f"exit codes {codes}, expected [0, 2]")
    play.check(play.hash() != "no summary", "no run has the folder")


def stale_lock(play):
    play.write(play.inside(".lock"), "")
    play.train([])
    play.must(0)


# Changes to the folder while a job runs.

def disturbed(disturb, *arguments):
    def cell(play):
        job = play.start([*LONG, *arguments])
        play.until_steps(job)
        since = time.time()
        disturb(play)
        play.end(job, since, LIMIT)
        play.must(74, r"expected the file that the run writes to, found that it was (removed|moved)")
        play.check(not os.path.exists(play.inside("summary.json")), "a summary beside no records")
    return cell


def remove_folder(play):
    while os.path.exists(play.out):  # a checkpoint may just be written into it
        shutil.rmtree(play.out, ignore_errors=True)


# Prepared files.

def linked(name, code, sentence="", *arguments):
    def cell(play):
        target = play.aside("theirs")
        os.makedirs(os.path.dirname(play.inside(name)), exist_ok=True)
        os.symlink(target, play.inside(name))
        play.train([*arguments])
        play.must(code, sentence)
        play.check(play.read(target) == "theirs", "a file behind a link was written to")
    return cell


def linked_set(play):
    target = os.path.join(play.place, "theirs")
    os.makedirs(target)
    os.makedirs(play.inside("checkpoints"))
    os.symlink(target, play.inside("checkpoints", "step-00000002"))
    play.train([])
    play.must(0, "step 2 was not written on rank .*symbolic link")
    play.check(os.listdir(target) == [], "a folder behind a link was written to")
    play.check(os.path.exists(play.file_of(4, 1)), "the other checkpoint is not there")


def loop(name, code, sentence, *arguments):
    def cell(play):
        path = play.inside(name) if name else play.out
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(os.path.basename(path), path)
        play.train([*arguments])
        play.must(code, sentence)
    return cell


def folder_as_result(*arguments):
    def cell(play):
        os.makedirs(play.inside("summary.json"))
        play.train([*arguments])
        play.must(74, "expected a file called summary.json or none, found a folder")
        play.check(os.path.isdir(play.inside("summary.json")), "the folder is lost")
    return cell


# Folders for --resume.

def labels_changed(play):
    data = os.path.join(play.place, "data")
    os.makedirs(data)
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        with open(os.path.join(data, name), "wb") as file:
            file.truncate(30730000)
    more = ["--set", "data.name=cifar10", "--set", f"data.path={data}"]
    play.prepare(*more)
    play.unfinish(2)
    with open(os.path.join(data, "data_batch_1.bin"), "r+b") as file:
        file.seek(5 * 3073)
        file.write(b"\1")
    before = play.state()
    play.train(["--resume", *more])
    play.must(3, "expected the data that the checkpoint of step 2 was trained on, found training labels hash")
    play.check(play.state() == before, "the refused run changed the folder")


def file_changed(key, make, change, *arguments):
    """A file that the config names is another one when the run goes on."""
    def cell(play):
        path = os.path.join(play.place, "named")
        make(play, path)
        more = ["--set", f"{key}={path}", *arguments]
        play.prepare(*more)
        play.unfinish(2)
        with open(path, "rb") as file:
            content = file.read()
        change(play, path)
        before = play.state()
        play.train(["--resume", *more])
        play.must(3, rf"expected the files that the checkpoint of step 2 was trained with, found {key} a file of")
        play.check(play.state() == before, "the refused run changed the folder")
        with open(path, "wb") as file:
            file.write(content)
        play.train(["--resume", *more])
        play.must(0)
    return cell


def weights_of(seed):
    def make(play, path):
        out = path + f".run{seed}"
        play.prepare("--set", f"seed={seed}", out=out)
        shutil.copy(os.path.join(out, "model.pt"), path)
    return make


def graph_of(weight):
    edges = [[0, 1, weight], [1, 0, weight]]
    return lambda play, path: play.write(path, json.dumps({"ranks": 2, "directed": True, "edges": edges}))


# Outputs of verbs, and inputs that end too early.

def verb_outputs(play):
    play.prepare()
    before = play.state()
    for name in ("model.pt", "config.json", "summary.json", "checkpoints/step-00000002/manifest.json", "network.pt"):
        play.verb("export", play.out, "--out", play.inside(name))
        play.must(2, "expected a file that is no record of a run")
        play.verb("predict", play.out, "--out", play.inside(name))
        play.must(2, "expected a file that is no record of a run")
    pipe = os.path.join(play.place, "pipe")
    os.mkfifo(pipe)
    link = os.path.join(play.place, "link")
    os.symlink(play.aside("theirs"), link)
    for out in (pipe, link, "/dev/full", play.place):
        play.verb("export", play.out, "--out", out)
        play.must(74, "expected a regular file or nothing, found")
    play.check(play.read(link) == "theirs" and os.path.islink(link), "a link was written through or replaced")
    play.check(stat.S_ISFIFO(os.lstat(pipe).st_mode), "a pipe was replaced")
    play.check(play.state() == before, "a refused verb changed the run")


def verbs_at_once(play):
    play.prepare()
    out = play.aside("net.pt")
    for name in (out + ".tmp", out + f".tmp{os.getpid()}-0"):
        play.write(name, "theirs")
    names = set(os.listdir(play.place))
    jobs = [play.start_verb("export", play.out, "--out", out) for _ in range(4)]
    play.check([play.end(job, limit=2 * START) for job in jobs] == [0] * 4, "an export failed")
    with open(out, "rb") as file:
        together = file.read()
    play.verb("export", play.out, "--out", out)
    with open(out, "rb") as file:
        play.check(file.read() == together, "exports at once wrote another file than one alone")
    play.check(set(os.listdir(play.place)) == names, "files are left or lost")
    play.check(play.read(out + ".tmp") == "theirs", "a file of others was replaced")


def killed_verb(play):
    """Wherever it is killed, the older file is whole or the new one is."""
    play.prepare()
    out = play.aside("net.pt")
    play.verb("export", play.out, "--out", out + ".whole")
    with open(out + ".whole", "rb") as file:
        sizes = {len("theirs"), len(file.read())}
    for moment in range(8):
        job = play.start_verb("export", play.out, "--out", out)
        time.sleep(0.1 + 0.1 * moment)
        job.kill()
        job.communicate()
        play.check(os.path.getsize(out) in sizes, f"half a file after {moment}")


def cut_archive(play):
    data = os.path.join(play.place, "data")
    os.makedirs(data)
    for part in ("train", "test"):
        with tarfile.open(os.path.join(data, f"{part}-0.tar"), "w") as archive:
            for i in range(32):
                for ending, content in (("png", picture(i)), ("cls", str(i % 4).encode())):
                    member = tarfile.TarInfo(f"{i:04}.{ending}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    path = os.path.join(data, "train-0.tar")
    more = ["--set", "data.name=shards", "--set", f"data.path={data}", "--set", "data.image_size=32"]
    with open(path, "rb") as file:
        whole = file.read()
    members = len(whole.rstrip(b"\0")) // 512 * 512 + 512
    for size in (members, members + 512, 8 * 2048, 10240):
        with open(path, "wb") as file:
            file.write(whole[:size])
        play.train(more)
        play.must(3, r"train-0\.tar: expected .*(was cut off|found the end of the archive|and a class)")
    with open(path, "wb") as file:
        file.write(whole)
    play.train(more)
    play.must(0)


def picture(shade):
    """A grey PNG of 32 x 32 pixels."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes([8 * shade] * 32) for _ in range(32))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 32, 32, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def foreign_file(step, manifest):
    def cell(play):
        other = os.path.join(play.place, "other")
        for out in (play.out, other):
            play.prepare(out=out)
        whole = play.hash()
        for out in (play.out, other):
            play.unfinish(step, out)
        if step == 2:
            for out in (play.out, other):
                play.check(os.path.exists(play.file_of(2, 0, out)), "no set of step 2")
        if not manifest:
            os.remove(os.path.join(os.path.dirname(play.file_of(step, 0)), "manifest.json"))
        shutil.copy(play.file_of(step, 1, other), play.file_of(step, 1))
        play.train(["--resume"])
        if step == 4:  # the set before is undamaged
            play.must(0, r"rank-1-of-2\.eqt: expected the file that manifest\.json names")
            play.check(play.hash() == whole, "the resumed run ended elsewhere")
        elif manifest:
            play.must(0, r"rank-1-of-2\.eqt: expected the file that manifest\.json names")
            play.check("rank 1's file of step 2 is nowhere" in play.said, "the other run's file was believed")
        else:
            play.must(3, "step 2: expected files of one save, found rank 0's of save")
    return cell


def odd_manifest(play):
    play.prepare()
    whole = play.hash()
    play.unfinish(2)
    play.write(play.inside("checkpoints", "step-00000002", "manifest.json"), "{\"files\": []}")
    play.train(["--resume"])
    play.must(0, r"manifest\.json: expected the list of a checkpoint's files")
    play.check(play.hash() == whole, "the resumed run ended elsewhere")


def other_version(version):
    def cell(play):
        play.prepare()
        play.unfinish(2)
        for rank in (0, 1):
            with open(play.file_of(2, rank), "r+b") as file:
                file.seek(12)
                file.write(bytes([version]))
        before = play.state()
        play.train(["--resume"])
        play.must(3, f"expected format version 2, found {version}")
        play.check(play.state() == before, "the refused run changed the folder")
    return cell


def one_rank_differs(first, second, sentence):
    def cell(play):
        play.train(first, second)
        play.must(2, sentence)
        play.check(not os.path.exists(play.inside("summary.json")), "a refused run wrote a summary")
    return cell


CELLS = {
    "stranger checkpoints new-run": stranger_without_overwrite,
    "stranger checkpoints overwrite": stranger_with_overwrite,
    "refused start results": refused(2, "holds another run's metrics.jsonl"),
    "refused start overwrite": refused(3, "nowhere", "--overwrite", "--set", "data.name=cifar10", "--set", "data.path=/nowhere"),
    "refused start resume": refused(2, "optimizer.momentum 0.5 instead of 0.9", "--resume", "--set", "optimizer.momentum=0.5"),
    "two-jobs start folder": two_jobs,
    "stale-lock start folder": stale_lock,
    "removed step folder": disturbed(remove_folder),
    "removed checkpoint folder": disturbed(remove_folder, "--set", "checkpoint.every_steps=1"),
    "removed step records": disturbed(lambda play: os.remove(play.inside("metrics.jsonl"))),
    "moved step folder": disturbed(lambda play: os.rename(play.out, play.out + ".moved")),
    "link start records": linked("metrics.jsonl", 2, "holds another run's metrics.jsonl"),
    "link start records-overwrite": linked("metrics.jsonl", 0, "", "--overwrite"),
    "link start lock": linked(".lock", 74, r"cannot open its file \.lock"),
    "link start config": linked("config.json.tmp", 0),
    "link end summary": linked("summary.json.tmp", 0),
    "link end weights": linked("model.pt.tmp", 0),
    "link checkpoint set": linked_set,
    "link checkpoint file": linked("checkpoints/step-00000002/rank-0-of-2.eqt.tmp", 0),
    "link-loop start folder": loop("", 74, "expected a writable folder"),
    "link-loop start summary": loop("summary.json", 2, "holds another run's summary.json"),
    "link-loop start overwrite": loop("summary.json", 0, "", "--overwrite"),
    "link-loop resume checkpoints": loop("checkpoints", 3, "cannot read the folder .*checkpoints", "--resume"),
    "folder start summary": folder_as_result(),
    "folder start summary-overwrite": folder_as_result("--overwrite"),
    "labels-changed resume data": labels_changed,
    "weights-changed resume file": file_changed("model.weights", weights_of(1), weights_of(2)),
    "graph-changed resume file": file_changed(
        "synchronization.topology.file", graph_of(0.5), graph_of(0.4), "--set", "synchronization.algorithm=d-psgd",
        "--set", "synchronization.topology.kind=graph"),
    "verb-outputs verbs records": verb_outputs,
    "at-once verbs export": verbs_at_once,
    "killed verbs export": killed_verb,
    "cut-archive start shards": cut_archive,
    "foreign-file resume older-set": foreign_file(4, True),
    "foreign-file resume manifest": foreign_file(2, True),
    "foreign-file resume no-manifest": foreign_file(2, False),
    "odd-manifest resume set": odd_manifest,
    "earlier-version resume set": other_version(1),
    "later-version resume set": other_version(7),
    "one-rank start resume": one_rank_differs(["--resume"], [], "rank 1: .*--resume not given instead of given"),
    "one-rank start overwrite": one_rank_differs([], ["--overwrite"], "rank 1: .*--overwrite given instead of not given"),
    "one-rank start simulate": one_rank_differs([], ["--simulate", "2"], "rank 1: .*--simulate 2 instead of not given"),
    "one-rank start verb": one_rank_differs([], ["doctor"], "rank 1: .*verb doctor instead of train"),
}

SMALL = ["stranger checkpoints overwrite", "removed checkpoint folder", "labels-changed resume data",
         "one-rank start resume"]


class Cell(common.Cell):
    def __init__(self, name, act):
        super().__init__(name)
        self.play_out = act

    def play(self, program, folder):
        play = Play(program, self.place(folder))
        self.play_out(play)
        return play.seconds, play.code, common.best_of(common.sentences(play.said)), play.wrong


def cells():
    return [Cell(name, act) for name, act in CELLS.items()]
