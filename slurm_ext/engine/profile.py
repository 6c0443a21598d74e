"""What is free on each node over time: a step function per node and resource.

Incremental: a reservation of any time is taken in and out again. All nodes are searched at once
with numpy; the cost of a question grows with nodes times steps per node, not with jobs.
Sources: the availability profile of conservative backfilling (Feitelson, Weil 1998), per node.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from slurm_ext.model.job import NodeShare
from slurm_ext.model.units import FOREVER_S, EpochS

from .pool import BoolArray, Free, IntArray, Pool
from .steps import SPARE, Release, build

CLOSED = 1 << 40
"""Taken from every resource of a node that is reserved for others."""


@dataclass(frozen=True, slots=True)
class Token:
    """What :meth:`Profile.add` took, so that it can be given back: amounts (resources, nodes).

    ``started``: the pool knows of it, too.
    """

    start_s: EpochS
    end_s: EpochS
    nodes: IntArray
    amounts: IntArray
    started: bool = False


@dataclass(slots=True)
class _Window:
    free: Free
    seen: int


class Profile:
    """Free GPUs by type, CPUs, memory and vacancy per node from ``now_s`` to the end of time.

    ``steps``: (nodes, width + 1) start of each step, the first ``now_s``, padded with FOREVER_S.
    ``values``: (resources, nodes, width), resources being the GPU types in the rows of the pool,
    CPUs, memory (MiB) and minus the number of jobs.
    """

    def __init__(self, pool: Pool, now_s: EpochS, releases: Sequence[Release]) -> None:
        self.pool = pool
        self.now_s = now_s
        self.types = len(pool.types)
        self.steps, self.values = build(pool, now_s, releases)
        self._drops: list[EpochS] = []
        self._windows: dict[EpochS, _Window] = {}
        self._begins: dict[EpochS, list[IntArray]] = {}  # nodes with a drop then, or once planned
        self._log: list[IntArray] = []

    @property
    def width(self) -> int:
        return int(self.values.shape[2])

    # -- changing ------------------------------------------------------------------------

    def add(
        self, start_s: EpochS, end_s: EpochS, shares: Iterable[NodeShare], *, started: bool = False
    ) -> Token:
        """Take shares out of [start_s, end_s); a start in the past counts as now.

        ``started``: of a job that starts now, which is taken out of the pool as well.
        """
        token = self.planned(start_s, end_s, shares, started=started)
        self.again(token)
        return token

    def planned(
        self, start_s: EpochS, end_s: EpochS, shares: Iterable[NodeShare], *, started: bool = False
    ) -> Token:
        """The token :meth:`add` would take, without taking it."""
        start_s = max(start_s, self.now_s)
        end_s = min(end_s, FOREVER_S - 1)  # so that the last step stays free for ever
        nodes, amounts = self._amounts(shares, start_s, end_s)
        return Token(start_s, max(end_s, start_s), nodes, amounts, started)

    def remove(self, token: Token) -> None:
        """Give back what :meth:`add` took."""
        self._change(token, +1)
        if not token.started:
            del self._drops[bisect_left(self._drops, token.start_s)]

    def again(self, token: Token) -> None:
        """Take a removed token in once more."""
        self._change(token, -1)
        if not token.started:
            insort(self._drops, token.start_s)
            self._begins.setdefault(token.start_s, []).append(token.nodes)

    def close(self, nodes: IntArray, start_s: EpochS, end_s: EpochS) -> None:
        """Nobody may use these nodes in [start_s, end_s)."""
        amounts = np.full((len(self.values), len(nodes)), CLOSED, dtype=np.int64)
        token = Token(max(start_s, self.now_s), min(end_s, FOREVER_S - 1), nodes, amounts)
        if len(nodes) and token.end_s > token.start_s:
            self.again(token)

    def without(self, tokens: Iterable[Token]) -> Profile:
        """A copy without these."""
        other = copy(self)
        other.steps, other.values = self.steps.copy(), self.values.copy()
        other._drops, other._log = self._drops.copy(), []
        other._windows = {}
        for token in tokens:
            other.remove(token)
        return other

    def holds(self, token: Token) -> bool:
        """Whether the token fits into what is free at its time."""
        mask = self._within(token)
        least = np.where(mask, self.values[:, token.nodes], CLOSED).min(axis=2)
        return bool((least >= np.maximum(token.amounts, 0))[:-1].all())

    def _amounts(
        self, shares: Iterable[NodeShare], start_s: EpochS, end_s: EpochS
    ) -> tuple[IntArray, IntArray]:
        pool, types = self.pool, self.types
        where, columns = [], []
        for share in shares:
            i = pool.index.get(share.node)
            if i is None:
                continue
            column = [0] * types + [share.cpus, share.mem_mib, 1]
            for row, count in self._rows(i, share, start_s, end_s):
                column[row] += count
            where.append(i)
            columns.append(column)
        amounts = np.array(columns, dtype=np.int64).reshape(len(where), types + 3)
        return np.array(where, dtype=np.int64), amounts.T

    def _rows(
        self, i: int, share: NodeShare, start_s: EpochS, end_s: EpochS
    ) -> list[tuple[int, int]]:
        """(row, count) of the GPU types; without a type from what is free all the time."""
        if not share.gpus:
            return []
        row = self.pool.row.get(share.gpu_type)
        if row is not None and self.pool.capacity_rows[i] >> row & 1:
            return [(row, share.gpus)]
        rows = [r for r in range(self.types) if self.pool.capacity_rows[i] >> r & 1]
        if len(rows) == 1:
            return [(rows[0], share.gpus)]
        inside = (self.steps[i, :-1] < end_s) & (self.steps[i, 1:] > start_s)
        found, left = [], share.gpus
        for r in rows:
            room = int(self.values[r, i, inside].min(initial=share.gpus))
            count = min(left, max(0, room))
            if count:
                found.append((r, count))
                left -= count
        return found

    def _within(self, token: Token) -> BoolArray:
        steps = self.steps[token.nodes]
        found: BoolArray = (steps[:, :-1] < token.end_s) & (steps[:, 1:] > token.start_s)
        return found

    def _change(self, token: Token, sign: int) -> None:
        if not len(token.nodes) or token.end_s <= token.start_s:
            return
        self._log.append(token.nodes)
        if len(token.nodes) == 1:
            i = int(token.nodes[0])
            first = self._cut_one(i, token.start_s)
            last = self._cut_one(i, token.end_s)
            self.values[:, i, first:last] += sign * token.amounts
            return
        if token.start_s > self.now_s:
            self._cut(token.nodes, token.start_s)
        self._cut(token.nodes, token.end_s)
        mask = self._within(token)
        self.values[:, token.nodes] += sign * token.amounts[:, :, None] * mask

    def _cut_one(self, i: int, at_s: EpochS) -> int:
        """Have a step begin at ``at_s`` on one node; its number. The short way of :meth:`_cut`."""
        k = int(self.steps[i].searchsorted(at_s))
        if self.steps[i, k] == at_s:
            return k
        if self.steps[i, -2] != FOREVER_S:
            self._grow()
        steps, values = self.steps[i], self.values[:, i]
        steps[k + 1 :] = steps[k:-1].copy()
        steps[k] = at_s
        values[:, k:] = values[:, k - 1 : -1].copy()
        return k

    def _cut(self, nodes: IntArray, at_s: EpochS) -> None:
        """Have a step begin at ``at_s`` on each of these nodes."""
        steps = self.steps[nodes]
        k = (steps <= at_s).sum(axis=1)
        new = steps[np.arange(len(nodes)), k - 1] != at_s
        if not new.any():
            return
        nodes, k = nodes[new], k[new]
        if (self.steps[nodes, -2] != FOREVER_S).any():
            self._grow()
        columns = np.arange(self.width + 1)
        source = columns - (columns >= k[:, None])
        steps = np.take_along_axis(self.steps[nodes], source, axis=1)
        steps[np.arange(len(nodes)), k] = at_s
        self.steps[nodes] = steps
        self.values[:, nodes] = np.take_along_axis(
            self.values[:, nodes], source[None, :, :-1], axis=2
        )

    def _grow(self) -> None:
        more = max(SPARE, self.width // 2)
        pad = np.full((len(self.steps), more), FOREVER_S, dtype=np.int64)
        self.steps = np.concatenate([self.steps, pad], axis=1)
        last = np.repeat(self.values[:, :, -1:], more, axis=2)
        self.values = np.concatenate([self.values, last], axis=2)

    # -- reading -------------------------------------------------------------------------

    def window(self, end_s: EpochS) -> Free:
        """What stays free on each node from now until ``end_s``; shared, not to be changed."""
        place = bisect_left(self._drops, end_s)
        if not place:
            return self.pool.free
        last_s = self._drops[place - 1]
        found = self._windows.get(last_s)
        if found is None:
            found = self._windows[last_s] = self._opened(last_s)
        elif found.seen < len(self._log):
            self._refresh(found.free, self._log[found.seen :], last_s + 1)
            found.seen = len(self._log)
        return found.free

    def _opened(self, last_s: EpochS) -> _Window:
        """A new window: that of an earlier end, where nothing more begins in between."""
        before_s = max((s for s in self._windows if s < last_s), default=None)
        if before_s is None:
            free, seen = self.pool.free.copy(), len(self._log)
        else:
            free, seen = self._windows[before_s].free.copy(), self._windows[before_s].seen
        touched = [*self._log[seen:]]
        for start_s, nodes in self._begins.items():
            if start_s <= last_s and (before_s is None or start_s > before_s):
                touched += nodes
        if touched:
            self._refresh(free, touched, last_s + 1)
        return _Window(free, len(self._log))

    def drops(self, end_s: EpochS) -> list[EpochS]:
        """Moments before ``end_s`` at which something reserved begins, ascending."""
        return self._drops[: bisect_left(self._drops, end_s)]

    def between(self, start_s: EpochS, end_s: EpochS, nodes: IntArray) -> Free:
        """What stays free on ``nodes`` throughout [start_s, end_s); nothing on all others."""
        part = self._least(nodes, start_s, end_s)
        n = len(self.steps)
        free = Free(
            np.zeros((self.types, n), dtype=np.int64),
            *(np.zeros(n, dtype=np.int64) for _ in range(3)),
        )
        free.gpus[:, nodes], free.cpus[nodes] = part.gpus, part.cpus
        free.mem[nodes], free.jobs[nodes] = part.mem, part.jobs
        return free

    def _least(self, nodes: IntArray, start_s: EpochS, end_s: EpochS) -> Free:
        steps = self.steps[nodes]
        inside = (steps[:, :-1] < end_s) & (steps[:, 1:] > start_s)
        least = np.where(inside, self.values[:, nodes], CLOSED).min(axis=2)
        np.maximum(least[:-1], 0, out=least[:-1])
        types = self.types
        return Free(least[:types], least[types], least[types + 1], -least[types + 2])

    def _refresh(self, free: Free, touched: Sequence[IntArray], end_s: EpochS) -> None:
        nodes = touched[0]
        if len(touched) > 1:
            mask = np.zeros(len(self.steps), dtype=np.bool_)
            mask[np.concatenate(touched)] = True
            nodes = np.flatnonzero(mask)
        part = self._least(nodes, self.now_s, end_s)
        free.gpus[:, nodes], free.cpus[nodes] = part.gpus, part.cpus
        free.mem[nodes], free.jobs[nodes] = part.mem, part.jobs
