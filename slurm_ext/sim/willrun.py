"""When and where a job could start if nothing but the running jobs were in its way.

select/cons_tres (22.05, ``_will_run_test``) takes running jobs off in the order of their limits and
tries again after each batch of them. A batch reaches to 30 s after the first end, rounded up, the
next ones 60, 120, 240 s … after it; the answer is the last end of its batch, so far-away starts are
told late.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slurm_ext.model.job import NodeShare
from slurm_ext.model.units import EpochS

from .cluster import BoolArray, Free
from .core import SlurmCore
from .fit import pick
from .record import SimJob

_Batches = list[tuple[EpochS, Free]]


class WillRun:
    """What is free after each batch of ends, kept for all jobs that ask about the same nodes."""

    def __init__(self, core: SlurmCore) -> None:
        self._core = core
        self._known: dict[bytes, tuple[_Batches, Iterator[tuple[EpochS, Free]]]] = {}

    def forget(self) -> None:
        """A job has started meanwhile: nothing that was worked out is true any more."""
        self._known.clear()

    def first(
        self, job: SimJob, nodes: BoolArray, *, now_only: bool
    ) -> tuple[EpochS, tuple[NodeShare, ...]] | None:
        """(start, shares) on these nodes, or None; the present comes first."""
        core = self._core
        if int(np.count_nonzero(nodes)) < max(job.demand.nodes_min, len(job.required)):
            return None
        shares = pick(core.cluster, core.cluster.free, job.demand, nodes, job.required)
        if shares is not None:
            return core.events.now_s, shares
        for at_s, free in () if now_only else self._batches(nodes):
            shares = pick(core.cluster, free, job.demand, nodes, job.required)
            if shares is not None:
                return at_s, shares
        return None

    def _batches(self, nodes: BoolArray) -> Iterator[tuple[EpochS, Free]]:
        """Worked out as far as anybody asks."""
        window_s = self._core.settings.end_window_s
        key = nodes.tobytes() if window_s else b""
        if key not in self._known:
            self._known[key] = [], (self._doubling(nodes, window_s) if window_s else self._each())
        batches, more = self._known[key]
        position = 0
        while True:
            if position == len(batches):
                batch = next(more, None)
                if batch is None:
                    return
                batches.append(batch)
            yield batches[position]
            position += 1

    def _each(self) -> Iterator[tuple[EpochS, Free]]:
        """One for each moment at which jobs end."""
        core, position = self._core, 0
        ends, free = core.ends, core.cluster.free
        while position < len(ends):
            free, end_s = free.copy(), ends[position][0]
            while position < len(ends) and ends[position][0] == end_s:
                free.apply(core.cluster.index, ends[position][2].shares, +1)
                position += 1
            yield max(end_s, core.events.now_s + 1), free

    def _doubling(self, nodes: BoolArray, window_s: int) -> Iterator[tuple[EpochS, Free]]:
        core = self._core
        index = core.cluster.index
        ends = [
            (end_s, job)
            for end_s, _, job in core.ends
            if any(nodes[index[share.node]] for share in job.shares)
        ]
        if not ends:
            return
        base_s, position = ends[0][0] + window_s - ends[0][0] % window_s, 0
        free = core.cluster.free
        while position < len(ends):
            free = free.copy()
            first = position
            while position < len(ends) and (
                position == first or ends[position][0] <= base_s + window_s
            ):
                free.apply(index, ends[position][1].shares, +1)
                position += 1
            yield max(ends[position - 1][0], core.events.now_s + 1), free
            window_s *= 2
            while position < len(ends) and ends[position][0] > base_s + window_s:
                window_s *= 2
