# SPDX-License-Identifier: Apache-2.0
"""Cells of matrix.py for states in the hosts' memory: runs that are killed at random moments, files that are
damaged, of another run, or lost with a host, and a memory that is full.
"""

import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import cells as common
import files
from cells import START

LONG = ["--set", "train.epochs=1000000", "--set", "train.evaluate_every=0", "--set", "checkpoint.every_steps=0",
        "--set", "compressor.name=topk"]
MEMORY = ["--set", "checkpoint.memory_seconds=0.1"]
ENDLESS = ["--set", "train.steps=1000000"]


class Play(files.Play):
    """A cell whose jobs keep states in a memory of their own."""

    def __init__(self, program, place, settings, ranks):
        super().__init__(program, place)
        self.memory, self.ranks = os.path.join(place, "memory"), ranks
        self.settings = LONG + [word for setting in settings for word in ("--set", setting)]
        os.makedirs(self.memory)
        self.variables["EQT_MEMORY_FOLDER"] = self.memory

    def begin(self, *arguments, ranks=None, out=None):
        """A job that is under way."""
        return self.start(*[[*self.settings, *arguments]] * (ranks or self.ranks), out=out)

    def finish(self, *arguments, ranks=None, out=None):
        """A job until its end."""
        return self.end(self.begin(*arguments, ranks=ranks, out=out))

    def sets(self):
        """The folders of sets in memory, the newest first."""
        return sorted(glob.glob(os.path.join(self.memory, "*", "*", "step-*")), key=os.path.basename, reverse=True)

    def keep_only(self, newest):
        """Removes all other sets."""
        for path in self.sets():
            if path != newest:
                shutil.rmtree(path)

    def known(self):
        """The newest set that all ranks knew to be complete; None: there is none."""
        return next((path for path in self.sets() if os.path.exists(os.path.join(path, "manifest.json"))), None)

    def number(self, out=None):
        return self.read(os.path.join(out or self.out, "checkpoints", "memory")).strip()

    def kill(self, job, ranks=None):
        """Kills some ranks, or all."""
        found = subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True, check=False)
        for entry in found.stdout.split():
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    rank = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", file.read())
                if rank and (ranks is None or int(rank[1]) in ranks):
                    os.kill(int(entry), signal.SIGKILL)
            except OSError:
                pass  # it has just ended

    def killed(self, *arguments, after=0.0, whom=None, ranks=None, out=None):
        """A job that is killed some seconds after a set that is newer than those before is known to be complete."""
        before = self.known()
        job = self.begin(*ENDLESS, *MEMORY, *arguments, ranks=ranks, out=out)
        deadline = time.time() + START
        while job.poll() is None and time.time() < deadline and self.known() in (None, before):
            time.sleep(0.02)
        time.sleep(after)
        self.kill(job, whom)
        self.end(job)
        self.check(self.code != 0, "a killed job ended well")
        self.check(self.known() is not None, f"no state in memory: {self.said[:200]}")
        return self.known()

    def last_step(self):
        steps = re.findall(r'"type":"step","step":(\d+)', self.read(self.inside("metrics.jsonl")))
        return int(steps[-1])

    def noted(self, sentence):
        self.check(re.search(sentence, self.read(self.inside("metrics.jsonl"))), f"no note like \"{sentence}\"")

    def ends_like_whole(self, steps, *arguments):
        """Continues to the end, which has to be that of a run without a failure."""
        end = ["--set", f"train.steps={steps}"]
        self.finish(*end, "--resume", *arguments)
        self.must(0)
        self.check(self.sets() == [], "a finished run left states in memory")
        whole = os.path.join(self.place, "whole")
        self.check(self.finish(*end, out=whole) == 0, "the run without a failure failed")
        self.check(self.hash() == self.hash(whole), "it ended with other parameters")


# Killed at random moments.

def killed_again(seed, whom):
    """One rank, each time another, or all: also while a state is written."""
    def cell(play):
        draw = random.Random(seed)
        for _ in range(3):
            ranks = None if whom == "all" else {draw.randrange(play.ranks)}
            play.killed("--resume", after=draw.uniform(0, 1), whom=ranks)
        play.noted("continues from the state in memory of step [1-9]")
        play.ends_like_whole(play.last_step() + 7)
    return cell


# Files that are no state.

def half_written(play):
    """A rank died while it wrote: what it began with is no file."""
    newest = play.killed()
    step = int(newest[-8:])
    half = os.path.join(os.path.dirname(newest), f"step-{step + 1:08}")
    os.makedirs(half, exist_ok=True)
    with open(os.path.join(newest, "rank-1-of-2.eqt"), "rb") as file:
        begun = file.read()[:1000]
    with open(os.path.join(half, "rank-1-of-2.eqt.tmp4242"), "wb") as file:
        file.write(begun)
    play.ends_like_whole(play.last_step() + 7)
    play.noted("continues from the state in memory of step")


def damaged(change, sentence):
    """Rank 1's file is damaged: it counts as lost, in the newest set that was complete."""
    def cell(play):
        newest = play.killed()
        play.keep_only(newest)
        change(os.path.join(newest, "rank-1-of-2.eqt"))
        play.finish("--set", f"train.steps={play.last_step() + 7}", "--resume")
        play.must(0, sentence)
        play.must(0, "rank 1's file of step [0-9]+ is nowhere")
        play.noted(f"continues from the state in memory of step {int(newest[-8:])}")
        play.check('"replicas_identical":true' in play.read(play.inside("summary.json")).replace(" ", ""),
                   "replicas differ")
    return cell


def cut(path):
    os.truncate(path, os.path.getsize(path) // 2)


def flip(path):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 4]))


def all_damaged(play):
    """With nothing else to go on from the run says so, and changes nothing."""
    newest = play.killed()
    play.keep_only(newest)
    for path in glob.glob(os.path.join(newest, "*.eqt")):
        flip(path)
    os.remove(play.inside(".lock"))
    before = play.state()
    play.finish(*ENDLESS, "--resume")
    play.must(3, "expected a complete checkpoint, found only damaged ones .*rank-[01]-of-2.eqt")
    play.check(play.state() == before, "the refused run changed the folder")
    play.check(os.path.exists(newest), "the refused run removed the states in memory")


# Sets of other runs.

def neighbour(play):
    """Another run's states lie beside: they are neither taken nor removed."""
    other = os.path.join(play.place, "other")
    play.killed("--set", "seed=2", out=other)
    theirs = {path: os.listdir(path) for path in play.sets()}
    play.finish("--set", "train.steps=20", *MEMORY, "--resume")
    play.must(0)
    play.noted("the run starts from the beginning")
    play.check({path: os.listdir(path) for path in play.sets()} == theirs, "another run's states were changed")
    play.check(play.number(other) in str(theirs), "the other run lost its number")


def exchanged(play):
    """Another run's file lies in this run's set: it is not the one that the manifest names."""
    other = os.path.join(play.place, "other")
    play.killed(out=other)
    mine, theirs = play.sets(), os.path.join(play.place, "theirs.eqt")
    shutil.copy(os.path.join(play.known(), "rank-1-of-2.eqt"), theirs)
    for path in mine:
        shutil.rmtree(path)
    newest = play.killed()
    play.keep_only(newest)
    shutil.copy(theirs, os.path.join(newest, "rank-1-of-2.eqt"))
    play.finish("--set", f"train.steps={play.last_step() + 7}", "--resume")
    play.must(0, r"rank-1-of-2\.eqt: expected ")
    play.must(0, "rank 1's file of step [0-9]+ is nowhere")


def lost(play):
    """A host is lost with its memory: the others go on, also after they have been killed."""
    newest = play.killed()
    for path in play.sets():
        if os.path.exists(os.path.join(path, "rank-2-of-3.eqt")):
            os.remove(os.path.join(path, "rank-2-of-3.eqt"))
    play.killed("--resume", ranks=2)
    play.noted(f"continues from the state in memory of step {int(newest[-8:])}, which 3 ranks saved, on 2")
    play.noted(f"rank 2's file of step {int(newest[-8:])} is nowhere")
    play.finish("--set", f"train.steps={play.last_step() + 7}", "--resume", ranks=2)
    play.must(0)
    play.check(json.loads(play.read(play.inside("summary.json")))["replicas_identical"], "replicas differ")


def full(play):
    """A memory without room for a state: the run trains on, and says so once."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", play.memory], check=True)
    try:
        play.finish("--set", "train.steps=100", *MEMORY)
        play.must(0, r"the state in memory of step \d+ was not written on rank [01]: .*No space left on device")
        play.check(play.said.count("No space left") == 1, "it was said more than once")
        whole = os.path.join(play.place, "whole")
        play.check(play.finish("--set", "train.steps=100", out=whole) == 0, "the run without states failed")
        play.check(play.hash() == play.hash(whole), "it ended with other parameters")
    finally:
        subprocess.run(["umount", "-l", play.memory], check=False)


S = "synchronization."
EF14 = [S + "error_feedback=ef14"]
CHOCO = [S + "algorithm=choco-sgd"]
LOCAL = [S + "algorithm=local-sgd", S + "local_steps=4", S + "delay=2"]

# name: (settings, ranks, what happens)
CELLS = {
    "kill-one memory allreduce": (EF14, 2, killed_again(1, "one")),
    "kill-all memory sparse": (EF14 + [S + "collective=sparse"], 3, killed_again(2, "all")),
    "kill-one memory choco-sgd": (CHOCO, 3, killed_again(3, "one")),
    "kill-all memory local-sgd": (LOCAL, 2, killed_again(4, "all")),
    "half-written memory file": (EF14, 2, half_written),
    "cut memory file": (EF14, 2, damaged(cut, r"rank-1-of-2\.eqt: expected [0-9]+ bytes, found")),
    "flipped memory file": (EF14, 2, damaged(flip, r"rank-1-of-2\.eqt: expected .*hash")),
    "flipped memory set": (EF14, 2, all_damaged),
    "neighbour memory run": (EF14, 2, neighbour),
    "exchanged memory file": (EF14, 2, exchanged),
    "lost memory host": (EF14, 3, lost),
}
FULL = {"full memory run": (EF14, 2, full)}
SMALL = ["kill-one memory choco-sgd", "flipped memory set"]


class Cell(common.Cell):
    def __init__(self, name, settings, ranks, act):
        super().__init__(name)
        self.settings, self.ranks, self.play_out = settings, ranks, act

    def play(self, program, folder):
        play = Play(program, self.place(folder), self.settings, self.ranks)
        self.play_out(play)
        return play.seconds, play.code, common.best_of(common.sentences(play.said)), play.wrong


def cells():
    """([cells], {why: [names that cannot run here]})"""
    rows = CELLS | (FULL if os.geteuid() == 0 else {})
    left_out = {} if os.geteuid() == 0 else {"only root can make a memory that is full": list(FULL)}
    return [Cell(name, *row) for name, row in rows.items()], left_out
