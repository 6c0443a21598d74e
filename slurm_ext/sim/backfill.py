"""Slurm's backfill scheduler: jobs start out of order if no planned start is put off by limits.

Follows sched/backfill (22.05): the time ahead is cut into spans, each with the nodes that no plan
has taken; a tested job that cannot start now gets a plan, which takes whole nodes. ``plans = 1`` is
EASY (Lifka 1995) with whole nodes. Not modelled: the pass takes no time, and is not cut short by
``bf_max_time``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from enum import Enum, auto

import numpy as np

from slurm_ext.model.job import NodeShare
from slurm_ext.model.units import FOREVER_S

from .cluster import BoolArray
from .core import SlurmCore
from .record import SimJob
from .willrun import WillRun


class _Result(Enum):
    STARTED = auto()
    PLANNED = auto()
    LATER = auto()
    """Not now, and no plan was made."""


def backfill_pass(core: SlurmCore) -> int:
    """Test the queue in priority order; returns the number of jobs started."""
    settings = core.settings
    spans = _Spans(core)
    future = WillRun(core)
    failed: dict[int, int] = {}  # shape -> shortest limit that did not fit: no longer one will
    limit = settings.plans or settings.bf_max_job_test
    started = planned = 0
    for job in core.waiting.first(settings.bf_max_job_test):
        plans_left = planned < limit
        hopeless = job.limit_s >= failed.get(job.shape, FOREVER_S)
        if hopeless and not plans_left:
            continue
        result = _test(core, job, spans, future, plan=plans_left)
        if result is _Result.STARTED:
            future.forget()
            started += 1
            continue
        planned += result is _Result.PLANNED
        if not core.reservations:  # their edges are not part of the memo
            failed[job.shape] = min(job.limit_s, failed.get(job.shape, FOREVER_S))
    return started


def _test(core: SlurmCore, job: SimJob, spans: _Spans, future: WillRun, *, plan: bool) -> _Result:
    """Try from now on, then from the end of each plan that is in the way."""
    now_s, last_s = core.events.now_s, core.events.now_s + core.settings.bf_window_s
    from_s: int = now_s
    while True:
        nodes, later_s = spans.open(core.allowed(job, from_s), from_s, from_s + job.limit_s)
        later_s = _sooner(later_s, _reservation_end(core, from_s))
        found = future.first(job, nodes, now_only=not plan)
        if found is None:
            if later_s is None or not plan or later_s > last_s:
                return _Result.LATER
            from_s = later_s
            continue
        at_s, shares = max(found[0], from_s), found[1]
        if at_s <= now_s:
            core.start(job, shares)
            return _Result.STARTED
        if later_s is not None and at_s > later_s:
            from_s = later_s
            continue
        if at_s > last_s:
            return _Result.LATER
        taken = spans.mask(shares)
        if at_s > from_s and spans.overlap(taken, at_s, at_s + job.limit_s):
            from_s = at_s
            continue
        spans.take(taken, at_s, at_s + job.limit_s)
        return _Result.PLANNED


def _sooner(one_s: int | None, other_s: int | None) -> int | None:
    return min((s for s in (one_s, other_s) if s is not None), default=None)


def _reservation_end(core: SlurmCore, from_s: int) -> int | None:
    """The second after the first reservation that is over later than ``from_s``."""
    return min((r.end_s + 1 for r in core.reservations.values() if r.end_s > from_s), default=None)


class _Spans:
    """The time ahead, cut where plans begin and end, with the nodes that are free of plans.

    Nodes are bits. A span at whose begin a job ends is in its way too, as in sched/backfill,
    unless the resolution is a second; both ends of a plan are rounded down to the resolution.
    """

    def __init__(self, core: SlurmCore) -> None:
        self._now_s = core.events.now_s
        self._step_s = core.settings.bf_resolution_s
        self._cluster = core.cluster
        self._count = len(core.cluster.names)
        self._begins = [self._now_s]  # each up to the next, the last for ever
        self._free = [(1 << self._count) - 1]

    def open(self, allowed: BoolArray, from_s: int, to_s: int) -> tuple[BoolArray, int | None]:
        """Nodes no plan takes in this time; and when to look again, as others will be free."""
        begins, frees = self._begins, self._free
        if len(begins) == 1:
            return allowed, None
        every = found = _bits(allowed)
        later_s: int | None = None
        last_s = to_s if self._step_s > 1 else to_s - 1
        for i in range(bisect_right(begins, from_s) - 1, len(begins)):
            if later_s is None and i + 1 < len(begins):
                others = every & frees[i + 1]
                if others & ~(found & frees[i]):
                    later_s = begins[i + 1]
            if begins[i] > last_s:
                break
            found &= frees[i]
        return self._array(found), later_s

    def mask(self, shares: tuple[NodeShare, ...]) -> int:
        index = self._cluster.index
        return sum(1 << index[share.node] for share in shares)

    def overlap(self, nodes: int, from_s: int, to_s: int) -> bool:
        """Whether a plan has one of these nodes in this time, rounded."""
        from_s, to_s = self._rounded(from_s, to_s)
        return any(
            nodes & ~free
            for begin_s, end_s, free in zip(
                self._begins, [*self._begins[1:], FOREVER_S], self._free, strict=True
            )
            if end_s > from_s and begin_s < to_s
        )

    def take(self, nodes: int, from_s: int, to_s: int) -> None:
        """Enter a plan."""
        from_s, to_s = self._rounded(from_s, to_s)
        from_s = max(from_s, self._now_s)
        first = self._cut(from_s)
        last = self._cut(max(to_s, from_s + self._step_s))
        for i in range(first, last):
            self._free[i] &= ~nodes

    def _cut(self, at_s: int) -> int:
        """The span that begins then, made if need be."""
        i = bisect_left(self._begins, at_s)
        if i == len(self._begins) or self._begins[i] != at_s:
            self._begins.insert(i, at_s)
            self._free.insert(i, self._free[i - 1])
        return i

    def _rounded(self, from_s: int, to_s: int) -> tuple[int, int]:
        return from_s // self._step_s * self._step_s, to_s // self._step_s * self._step_s

    def _array(self, bits: int) -> BoolArray:
        raw = np.frombuffer(bits.to_bytes((self._count + 7) // 8, "little"), dtype=np.uint8)
        return np.unpackbits(raw, count=self._count, bitorder="little").astype(np.bool_)


def _bits(nodes: BoolArray) -> int:
    return int.from_bytes(np.packbits(nodes, bitorder="little").tobytes(), "little")
