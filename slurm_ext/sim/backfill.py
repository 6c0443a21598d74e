"""Slurm's backfill scheduler: jobs start out of order if no planned start is put off by limits.

Every tested job that cannot start gets a planned start, and a plan takes whole nodes from its
start to its end (sched/backfill keeps node bitmaps); ``plans = 1`` is EASY (Lifka 1995) with whole
nodes. Not modelled: the pass takes no time, and is not cut short by ``bf_max_time``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slurm_ext.model.job import NodeShare
from slurm_ext.model.units import FOREVER_S

from .cluster import BoolArray, Free
from .core import SlurmCore
from .fit import pick
from .record import SimJob


def backfill_pass(core: SlurmCore) -> int:
    """Test the queue in priority order; returns the number of jobs started."""
    now_s, settings = core.events.now_s, core.settings
    plans = _Plans(len(core.cluster.names), int(settings.bf_resolution_s > 1))
    future = _Future(core)
    failed: dict[int, int] = {}  # shape -> shortest limit that did not fit: no longer one will
    limit = settings.plans or settings.bf_max_job_test
    started, more = 0, True
    for job in core.waiting.first(settings.bf_max_job_test):
        if job.limit_s >= failed.get(job.shape, FOREVER_S):
            if more:
                _plan(core, job, plans, future)
                more = len(plans) < limit
            continue
        crossing = plans.crossing(now_s, now_s + job.limit_s)
        allowed = core.allowed(job, now_s) & ~plans.reserved(crossing)
        shares = pick(core.cluster, core.cluster.free, job.demand, allowed, job.required)
        if shares is not None:
            core.start(job, shares)
            future.forget()
            started += 1
            continue
        if not core.reservations:  # their edges are not part of the memo
            failed[job.shape] = job.limit_s
        if more:
            _plan(core, job, plans, future)
            more = len(plans) < limit
    return started


def _plan(core: SlurmCore, job: SimJob, plans: _Plans, future: _Future) -> None:
    """Reserve the earliest start inside the window."""
    for start_s, free in future.moments(plans.ends()):
        if start_s > core.events.now_s + core.settings.bf_window_s:
            return
        crossing = plans.crossing(start_s, start_s + job.limit_s)
        allowed = core.allowed(job, start_s) & ~plans.reserved(crossing)
        shares = pick(core.cluster, free, job.demand, allowed, job.required)
        if shares is not None:
            step_s = core.settings.bf_resolution_s  # both ends are rounded down (22.05)
            from_s = start_s // step_s * step_s
            to_s = (start_s + job.limit_s) // step_s * step_s
            plans.add(from_s, to_s, core, shares)
            return


class _Plans:
    """Planned starts: (start, end, nodes). A job ends ``apart_s`` before a plan begins; 1 as in
    sched/backfill (22.05), where both ends belong to a plan.
    """

    def __init__(self, nodes: int, apart_s: int) -> None:
        self._apart_s = apart_s
        self._none = np.zeros(nodes, dtype=np.bool_)
        self._windows: list[tuple[int, int]] = []
        self._nodes: list[BoolArray] = []

    def __len__(self) -> int:
        return len(self._windows)

    def ends(self) -> list[int]:
        return [end_s for _, end_s in self._windows]

    def add(self, start_s: int, end_s: int, core: SlurmCore, shares: tuple[NodeShare, ...]) -> None:
        mask = self._none.copy()
        mask[[core.cluster.index[s.node] for s in shares]] = True
        self._windows.append((start_s, end_s))
        self._nodes.append(mask)

    def crossing(self, start_s: int, end_s: int) -> tuple[int, ...]:
        """Plans that overlap this time."""
        if not self._windows:
            return ()
        return tuple(
            i
            for i, (from_s, to_s) in enumerate(self._windows)
            if from_s < end_s + self._apart_s and to_s > start_s
        )

    def reserved(self, plans: tuple[int, ...]) -> BoolArray:
        if not plans:
            return self._none
        mask: BoolArray = np.logical_or.reduce([self._nodes[i] for i in plans])
        return mask


class _Future:
    """What is free at the expected ends of running jobs; worked out as far as anybody asks."""

    def __init__(self, core: SlurmCore) -> None:
        self._core = core
        self._known: list[tuple[int, Free]] = []
        self._next = 0

    def forget(self) -> None:
        """A job has started meanwhile: nothing that was worked out is true any more."""
        self._known, self._next = [], 0

    def moments(self, extra: list[int]) -> Iterator[tuple[int, Free]]:
        """(time, free then) in order of time; at ``extra`` times too, where only plans end."""
        more = sorted(extra)
        position = 0
        last = self._core.cluster.free
        while True:
            known = self._at(position)
            while more and (known is None or more[0] < known[0]):
                yield more.pop(0), last
            if known is None:
                return
            yield known
            last = known[1]
            position += 1

    def _at(self, position: int) -> tuple[int, Free] | None:
        while position >= len(self._known):
            if not self._extend():
                return None
        return self._known[position]

    def _extend(self) -> bool:
        """One more moment: all jobs that end in the same step."""
        core = self._core
        ends = core.ends
        if self._next >= len(ends):
            return False
        now_s, step_s = core.events.now_s, core.settings.bf_resolution_s
        free = (self._known[-1][1] if self._known else core.cluster.free).copy()
        at_s = _rounded(ends[self._next][0], now_s, step_s)
        while self._next < len(ends) and _rounded(ends[self._next][0], now_s, step_s) == at_s:
            free.apply(core.cluster.index, ends[self._next][2].shares, +1)
            self._next += 1
        self._known.append((at_s, free))
        return True


def _rounded(end_s: int, now_s: int, step_s: int) -> int:
    """Up to the resolution; what is over its limit is taken to end within one step."""
    return max(now_s + step_s, -(-end_s // step_s) * step_s)
