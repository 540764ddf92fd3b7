# SPDX-License-Identifier: Apache-2.0
"""Cells of matrix.py outside of steps: starts, ends, and the environment of a job.

Each runs a whole job and checks it: the time after the fault, the exit code, the output, and that no process
is left.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import cells as common
from cells import CONFIG, LIMIT, ROOT, Job

LONG = ["--set", "train.steps=100000", "--set", "train.epochs=100000"]


class Cell(common.Cell):
    """`starts` starts the job and waits for the fault; `check` returns what is wrong afterwards."""

    def __init__(self, act, phase, algorithm, codes, said, starts, check=None, limit=LIMIT):
        super().__init__(f"{act} {phase} {algorithm}")
        self.codes, self.said, self.starts, self.check, self.limit = codes, said, starts, check, limit

    def play(self, program, folder):
        os.makedirs(self.place(folder))
        os.chmod(folder, 0o755)
        job = Job(program, self.place(folder))
        ended = self.starts(job)  # some end the job themselves, to clean up
        seconds, code, said, wrong = ended or job.end(self.limit)
        lines = common.sentences(said)
        named = [line for line in lines if re.search(self.said, line)]
        wrong += common.wrong_code(code, self.codes)
        if self.said and not named:
            wrong.append(f"nothing says \"{self.said}\"")
        if self.check:
            wrong += self.check(job)
        return seconds, code, common.best_of(named, lines, [said.strip()[:160]]), wrong


def finished(job):
    return [] if os.path.exists(os.path.join(job.out, "summary.json")) else ["no summary"]


def saved(job):
    found = [name for _, _, names in os.walk(os.path.join(job.out, "checkpoints")) for name in names]
    return [] if found else ["no checkpoint"]


def pipe(job, name="config.pipe"):
    path = os.path.join(job.place, name)
    os.mkfifo(path)
    return path


# Before training: a signal ends the job at once, even while it waits.

def stopped_while_reading(number):
    def play(job):
        job.start(job.train(config=pipe(job)))
        job.until_ranks()
        job.signal(number)
    return play


def stopped_alone(job):
    job.start([job.program, *job.arguments(config=pipe(job))])
    job.until_ranks(1)
    job.signal(signal.SIGTERM)


def stopped_in(fault, number, rank):
    def play(job):
        job.start(job.train(), EQT_FAULT=fault)
        job.until_fault()
        job.signal(number, rank)
    return play


def interrupted_script(job):
    job.start(job.script("run_local.sh", "--ranks", "2", "--", *job.arguments()),
              EQT_FAULT="stall:rank=1,step=0,phase=start")
    job.until_fault()
    job.signal(signal.SIGTERM)


# Inputs that can be read only once, and outputs that cannot be written.

def config_from_pipe(job):
    path = pipe(job)
    job.start(job.train(config=path))
    with open(path, "w", encoding="utf-8") as file:
        json.dump(CONFIG, file)


def config_from_input(job):
    with open(job.config, "rb") as file:
        job.start(job.train(config="/dev/stdin"), stdin=file)


def config_from_substitution(job):
    line = 'exec "$1" --ranks 2 <(cat "$2") --out "$3"'
    job.start(["bash", "-c", line, "bash", *job.script("run_local.sh"), job.config, job.out])


def records_are_a_pipe(*more):
    def play(job):
        os.makedirs(job.out)
        os.mkfifo(os.path.join(job.out, "metrics.jsonl"))
        job.start(job.train(*more))
    return play


# Limits of the system.

def limited(limit, *more):
    def play(job):
        line = f'{limit} && exec "$@"'
        job.start(job.mpirun("bash", "-c", line, "bash", job.program, *job.arguments(*more)))
    return play


def full_folder(*start):
    """A folder for temporary files with less room than MPI needs."""
    def play(job):
        full = os.path.join(job.place, "full")
        os.makedirs(full)
        line = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'
        job.start(["unshare", "--mount", "bash", "-c", line, full, *[word or job.program for word in start],
                   *job.arguments()], TMPDIR=full,
                  OMPI_MCA_orte_tmpdir_base=full, PRTE_MCA_prte_tmpdir_base=full)
    return play


def alone_with(**variables):
    """Without mpirun, as another launcher starts it."""
    return lambda job: job.start([job.program, *job.arguments()], **variables)


def script(name, *arguments):
    """A script that does not come to a run; AGENT is a remote shell whose every answer has a command in it."""
    def play(job):
        agent = os.path.join(job.place, "agent")
        with open(agent, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\ncase "$*" in *mpirun*--version*) exec mpirun --version ;; esac\n'
                       f"echo 'hosts[$(touch {job.place}/pwned)]'\n")
        os.chmod(agent, 0o755)
        words = {"AGENT": agent, "PIPE": pipe(job, "hosts.pipe")}
        job.start(job.script(name, *[words.get(word, word) for word in arguments], job.config))
    return play


def nothing_ran(job):
    return ["this host ran another's words"] if os.path.exists(os.path.join(job.place, "pwned")) else []


def few_processes(job):
    """A limit that root does not have."""
    os.chmod(job.place, 0o777)
    command = ["setpriv", "--reuid=61234", "--regid=61234", "--clear-groups", "prlimit", "--nproc=3",
               job.program, *job.arguments()]
    job.start(command, OPENBLAS_NUM_THREADS="1")


def many_threads(job):
    job.start(job.train("--set", "threads_per_rank=1024"))


def hidden_processes(mount):
    def play(job):
        line = f'{mount} && exec "$@"'
        job.start(job.mpirun("unshare", "--mount", "bash", "-c", line, "bash", job.program,
                             *job.arguments()))
    return play


# The end.

def killed_at_end(job):
    job.start(job.train(), EQT_FAULT="kill:rank=0,step=0,phase=end")
    job.until_fault()
    job.mark_fault()


def stalled_at_end(job):
    job.start(job.train(), EQT_FAULT="stall:rank=0,step=0,phase=end")
    job.until_fault()
    job.mark_fault()


def frozen(ranks, when):
    """The run folder's file system freezes when rank 0 is at the start or the end."""
    def play(job):
        image, disk = os.path.join(job.place, "image"), os.path.join(job.place, "disk")
        os.makedirs(disk)
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with open(image, "wb") as file:
            file.truncate(32 << 20)
        subprocess.run(["mkfs.ext4", "-q", image], **quiet)
        subprocess.run(["mount", "-o", "loop", image, disk], **quiet)
        thawed = True
        try:
            job.out = os.path.join(disk, "run")
            job.start(job.train(ranks=ranks), EQT_FAULT=f"stop:rank=0,step=0,phase={when}")
            if job.until_fault():
                time.sleep(0.2)
                subprocess.run(["fsfreeze", "--freeze", disk], **quiet)
                thawed = False
                job.signal(signal.SIGCONT, 0)
            while job.process.poll() is None and time.time() < job.fault_time + 2 * LIMIT:
                time.sleep(0.05)
            ended = time.time()
            # A process that waits for a frozen disk cannot die.
            subprocess.run(["fsfreeze", "--unfreeze", disk], **quiet)
            thawed = True
            seconds, code, said, wrong = job.end(3 * LIMIT)
            if ended - job.fault_time > LIMIT:
                wrong.append(f"took {ended - job.fault_time:.1f} s")
            return min(seconds, ended - job.fault_time), code, said, wrong
        finally:
            if not thawed:
                subprocess.run(["fsfreeze", "--unfreeze", disk], check=False)
            subprocess.run(["umount", "-l", disk], check=False)
    return play


# Signals and pauses while it trains.

def stopped_by(number):
    def play(job):
        job.start(job.train(*LONG))
        job.until_steps()
        job.signal(number)
    return play


def out_of_time(job):
    """The system sends SIGXCPU each second from the limit on."""
    line = 'ulimit -St 8 && exec "$@"'
    job.start(job.mpirun("bash", "-c", line, "bash", job.program, *job.arguments(*LONG)))
    job.until(lambda: cpu_seconds(job.process_of(0)) >= 8)
    job.mark_fault()


def cpu_seconds(process):
    """Of a process; 0 if there is none."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(") ", 1)[1].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def paused(job):
    """A rank sleeps for 3.5 of 5 seconds and continues: run_hosts.sh --elastic must not end the job."""
    job.start(job.script("run_hosts.sh", "--elastic", "--hosts", "localhost:2", "--shell", "sh -c true", "--patience",
                         "1", "--mca", "rmaps_base_oversubscribe", "1", job.config, "--out", job.out,
                         "--set", "train.steps=60", "--set", "train.epochs=60"),
              EQT_FAULT="stop:rank=1,step=3")
    if job.until_fault():
        time.sleep(3.5)
        job.signal(signal.SIGCONT, 1)


def one_start(job):
    with open(job.errors + ".out", encoding="utf-8") as file:
        starts = file.read().count("== Start")
    return finished(job) + ([] if starts == 1 else [f"{starts} starts"])


def cut_off(job):
    """A host is cut off under a plain mpirun."""
    job.start(job.script("netlab.sh", "--ranks", "3", "--rate", "100mbit", "--cut", "2=8", "--",
                         job.program, *job.arguments(*LONG)))
    job.until(lambda: time.time() - job.fault_time > 8)
    job.mark_fault()


def has_root_disks():
    tools = all(shutil.which(tool) or os.path.exists(f"/usr/sbin/{tool}")
                for tool in ("mkfs.ext4", "fsfreeze", "mount"))
    return os.geteuid() == 0 and tools and os.path.exists("/dev/loop-control")


def has_netlab():
    return subprocess.run([os.path.join(ROOT, "scripts/netlab.sh"), "--check"], check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def cells():
    """([cells], {why: [names that cannot run here]})"""
    stop = r"interrupted: .*told to stop"
    found = [
        Cell("sigterm", "reading", "alone", {75}, stop, stopped_alone),
        Cell("sigusr1", "reading", "mpirun", {75}, stop + " by SIGUSR1", stopped_while_reading(signal.SIGUSR1)),
        Cell("sigusr2", "reading", "mpirun", {75}, stop + " by SIGUSR2", stopped_while_reading(signal.SIGUSR2)),
        Cell("sigterm", "start", "rank-0", {75}, r"rank 0/2.*told to stop by SIGTERM",
             stopped_in("stall:rank=0,step=0,phase=start", signal.SIGTERM, 0)),
        Cell("sigint", "start", "rank-1", {75}, r"rank 1/2.*told to stop by SIGINT",
             stopped_in("stall:rank=0,step=0,phase=start", signal.SIGINT, 1)),
        Cell("sigterm", "start", "run_local", {75}, stop, interrupted_script),
        Cell("pipe", "reading", "config", {0}, "", config_from_pipe, finished, 20),
        Cell("stdin", "reading", "config", {0}, "", config_from_input, finished, 20),
        Cell("substitution", "reading", "config", {0}, "", config_from_substitution, finished, 20),
        Cell("pipe", "start", "records", {2}, "another run's metrics.jsonl", records_are_a_pipe()),
        Cell("pipe", "start", "resumed-records", {74}, "metrics.jsonl: expected a regular file",
             records_are_a_pipe("--resume")),
        Cell("addresses-650", "launch", "limit", {2}, "expected room", limited("ulimit -v 650000")),
        Cell("addresses-850", "launch", "limit", {2}, "expected room", limited("ulimit -v 850000")),
        Cell("addresses-1000", "launch", "limit", {2}, "expected room", limited("ulimit -v 1000000")),
        Cell("addresses-1250", "launch", "limit", {0, 2}, "", limited("ulimit -v 1250000")),
        Cell("data-500", "launch", "limit", {2}, "expected room", limited("ulimit -d 500000")),
        Cell("files-24", "launch", "limit", {6}, "room for 32 more open files", limited("ulimit -n 24")),
        Cell("full", "launch", "alone", {6}, "12 MiB for MPI's temporary files", full_folder(None)),
        Cell("full", "launch", "run_local", {6}, "12 MiB for MPI's temporary files", full_folder(
            os.path.join(ROOT, "scripts/run_local.sh"), "--")),
        Cell("mpich", "launch", "alone", {6}, "expected 4 ranks, as the launcher of MPICH",
             alone_with(PMI_RANK="0", PMI_SIZE="4")),
        Cell("srun", "launch", "alone", {6}, "expected 4 ranks, as Slurm's srun",
             alone_with(SLURM_PROCID="0", SLURM_STEP_NUM_TASKS="4")),
        Cell("allocation", "launch", "alone", {0}, "", alone_with(SLURM_PROCID="0", SLURM_NTASKS="4"), finished, 20),
        Cell("ranks-99999", "launch", "run_local", {2}, "at most [0-9]+ on this machine",
             script("run_local.sh", "--ranks", "99999")),
        Cell("pipe", "reading", "hosts", {2}, "ends within 10 s", script("run_hosts.sh", "--hostfile", "PIPE"), None, 15),
        Cell("words", "reading", "hosts", {6}, "whole number for its cores", script(
            "run_hosts.sh", "--hosts", "pi0", "--shell", "AGENT", "--bind", "core", "--threads", "1"), nothing_ran),
        Cell("underscore", "reading", "hosts", {2}, "daemon crashes", script("run_hosts.sh", "--hosts", "pi_0,pi_1")),
        Cell("stack-64", "launch", "limit", {2}, "expected room for a stack", limited("ulimit -s 64")),
        Cell("threads-1024", "start", "limit", {2}, "threads_per_rank: expected at most", many_threads),
        Cell("no-proc", "start", "hidden", {0}, "", hidden_processes("mount -t tmpfs none /proc"), finished, 20),
        Cell("hidepid", "start", "hidden", {0}, "", hidden_processes(
            "mount -t proc -o hidepid=2 none /proc"), finished, 20),
        Cell("kill", "end", "rank-0", {137, 7}, "rank 1/2.*step 3", killed_at_end),
        Cell("stall", "end", "rank-0", {7}, r"rank 0/2.*writing of the results has been stuck", stalled_at_end),
        Cell("sigterm", "end", "rank-0", {75}, r"rank 0/2.*writing of the results is not done.*SIGTERM",
             stopped_in("stall:rank=0,step=0,phase=end", signal.SIGTERM, 0)),
        Cell("sigusr2", "step", "mpirun", {75}, stop + ".* its state is saved", stopped_by(signal.SIGUSR2), saved),
        Cell("sigxcpu", "step", "limit", {75}, stop + ".* its state is saved", out_of_time, saved),
        Cell("pause", "step", "run_hosts", {0}, "continues now", paused, one_start, 30),
    ]
    left_out = {}
    disks = [Cell("freeze", when, f"{ranks}-ranks", {7}, "has been stuck|made no progress", frozen(ranks, when))
             for when in ("start", "end") for ranks in (1, 2)]
    network = [Cell("cut", "step", "mpirun", {7, 205}, "made no progress|was ended|lost the host", cut_off, None, 15)]
    threads = [Cell("processes-3", "launch", "limit", {2}, "expected the system to grant", few_processes)]
    for some, can, why in (
            (disks, has_root_disks(), "a disk to freeze needs root, loop devices and fsfreeze"),
            (threads, os.geteuid() == 0, "a limit of processes is tried as another user, by root"),
            (network, has_netlab(), "this machine has no rights for scripts/netlab.sh")):
        if can:
            found += some
        else:
            left_out[why] = [cell.name for cell in some]
    return found, left_out
