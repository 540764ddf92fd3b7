# SPDX-License-Identifier: Apache-2.0
"""Runs of a sweep, several at the same time, until they are done or the time is up."""

import time

PATIENCE = 300  # seconds in which a run that was asked to stop must save its state
POLL = 0.1  # seconds


class Jobs:
    """Executes runs in their order, `options.jobs` at the same time."""

    def __init__(self, options):
        self.options = options
        self.active = {}  # run: seconds of its start
        self.time_is_up = False
        self.deadline = None if options.hours is None else time.monotonic() + options.hours * 3600

    def execute(self, runs, ended):
        """Calls ended(run, seconds) after each run; stops early if it returns False.

        After the deadline, or when something is raised here, the runs under way are stopped with their
        state saved.
        """
        waiting = list(runs)
        try:
            while waiting or self.active:
                if self.deadline is not None and time.monotonic() >= self.deadline:
                    self.time_is_up = True
                    break
                while waiting and len(self.active) < self.options.jobs:
                    run = waiting.pop(0)
                    run.start(self.options)
                    self.active[run] = time.monotonic()
                if not self._collect(ended):
                    break
                time.sleep(POLL)
        finally:
            self._stop(ended)

    def _collect(self, ended):
        """False if a run that ended is a reason to stop."""
        goes_on = True
        for run in [run for run in self.active if run.has_ended()]:
            goes_on = ended(run, time.monotonic() - self.active.pop(run)) and goes_on
        return goes_on

    def _stop(self, ended):
        for run in self.active:
            run.stop()
        limit = time.monotonic() + PATIENCE
        while self.active:
            if time.monotonic() >= limit:
                for run in self.active:
                    run.kill()
            self._collect(ended)
            time.sleep(POLL)
