"""When each waiting job will probably start: counts only, in order, with holes filled.

Cheaper by far than planning every job: the nodes that jobs compete for are taken as one heap of
GPUs, CPUs and memory. A job that does not fit lets those behind it use the hole it leaves, if they
end in time. What a job needs per node counts in so far as it cannot start before enough nodes are
ready for it. Not modelled: jobs that are yet to come, and fragmentation by jobs yet to start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

import numpy as np

from slurm_ext.model.decision import Forecast, Verdict
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.units import EpochS

from .allow import Allowed
from .durations import planned_s
from .planner import Planner
from .pool import BoolArray, Demand, IntArray
from .profile import Profile
from .steps import Release
from .timeline import releases
from .view import JobView

HOLES = 6
"""Holes remembered at a time; the oldest is forgotten."""

PARTS = 32
"""The tasks of an array count as so many jobs at most."""

Amounts = tuple[int, int, int]
"""GPUs, CPUs, memory (MiB)."""


@dataclass(slots=True)
class _Hole:
    start_s: EpochS
    end_s: EpochS
    gpus: int
    cpus: int
    mem: int


@dataclass(slots=True)
class _Heap:
    """One set of nodes: what is free at ``at_s``, and what comes back later."""

    at_s: EpochS
    gpus: int
    cpus: int
    mem: int
    ends: list[tuple[EpochS, int, int, int]] = field(default_factory=list)
    holes: list[_Hole] = field(default_factory=list)

    def start(self, wants: Amounts, duration_s: int, ready_s: EpochS) -> EpochS | None:
        """Take the next job in; when it starts, or None if it never fits."""
        gpus, cpus, mem = wants
        for hole in self.holes:
            from_s = hole.start_s if hole.start_s > ready_s else ready_s
            if (
                hole.gpus >= gpus
                and hole.cpus >= cpus
                and hole.mem >= mem
                and from_s + duration_s <= hole.end_s
            ):
                hole.gpus -= gpus
                hole.cpus -= cpus
                hole.mem -= mem
                return from_s
        while self.gpus < gpus or self.cpus < cpus or self.mem < mem:
            if not self.ends:
                return None
            self._advance()
        start_s = self.at_s if self.at_s > ready_s else ready_s
        self.gpus -= gpus
        self.cpus -= cpus
        self.mem -= mem
        heappush(self.ends, (start_s + duration_s, gpus, cpus, mem))
        return start_s

    def rest(self, wants: Amounts, duration_s: int, ready_s: EpochS, tasks: int) -> None:
        """Take the other tasks of an array in, in a few parts of many tasks."""
        each = -(-tasks // PARTS)
        gpus, cpus, mem = wants
        fit = [have // need for have, need in zip(self.whole, wants, strict=True) if need]
        at_once = max(1, min([each, *fit]))
        part_s = duration_s * -(-each // at_once)
        for _ in range(-(-tasks // each)):
            self.start((gpus * at_once, cpus * at_once, mem * at_once), part_s, ready_s)

    @property
    def whole(self) -> Amounts:
        """All there is: what is free, and what comes back."""
        _, gpus, cpus, mem = (sum(column) for column in zip((0, 0, 0, 0), *self.ends, strict=True))
        return self.gpus + gpus, self.cpus + cpus, self.mem + mem

    def _advance(self) -> None:
        end_s, gpus, cpus, mem = heappop(self.ends)
        if end_s > self.at_s:
            if self.gpus or self.cpus:
                self.holes.append(_Hole(self.at_s, end_s, self.gpus, self.cpus, self.mem))
                if len(self.holes) > HOLES:
                    del self.holes[0]
            self.at_s = end_s
        self.gpus += gpus
        self.cpus += cpus
        self.mem += mem


def forecasts(
    planner: Planner,
    ordered: Sequence[JobView],
    occupying: Sequence[Job],
    estimates: Mapping[JobKey, Estimate],
) -> dict[JobKey, Forecast]:
    """Start of every job that waits or starts, as quantiles.

    Without estimates both are by limits. A promise held by limits bounds them from above.
    """
    durations = planner.settings.durations
    planned = planner.profile.without((*planner.promises.taken, *planner.promises.tokens.values()))
    starts = {}
    for quantile in ("p50", "p90") if estimates else (durations,):
        profile = planned
        if quantile != durations:
            settings = replace(planner.settings, durations=quantile)
            ends = releases(occupying, planner.obs.now_s, settings, estimates)
            started = _started(planner, quantile)
            profile = Profile(planner.pool, planner.obs.now_s, [*ends, *started])
        starts[quantile] = _starts(planner, profile, ordered, quantile)
    low, high = starts[min(starts)], starts[max(starts)]
    bounds = {f.key: f.held_s for f in planner.fences} if durations == "limit" else {}
    found = {}
    for key, start_s in low.items():
        late_s = max(start_s, high.get(key, start_s))
        most_s = bounds.get(key, late_s)
        found[key] = Forecast(min(start_s, most_s), min(late_s, most_s))
    return found


def _starts(
    planner: Planner, profile: Profile, ordered: Sequence[JobView], quantile: str
) -> dict[JobKey, EpochS]:
    decisions, default_s = planner.decisions, planner.settings.default_limit_s
    heaps = _Heaps(planner, profile)
    found: dict[JobKey, EpochS] = {}
    for view in ordered:
        verdict = decisions[view.key].verdict
        if verdict is not Verdict.WAIT:
            if verdict is not Verdict.NEVER:
                found[view.key] = view.eligible_s
            continue
        duration_s = planned_s(view.job.limit_s, view.estimate, quantile, default_s)
        start_s = heaps.start(view, duration_s)
        if start_s is not None:
            found[view.key] = max(start_s, view.eligible_s)
    return found


def _started(planner: Planner, quantile: str) -> Iterable[Release]:
    """What was told to start in this cycle comes back, too."""
    default_s = planner.settings.default_limit_s
    for view, shares in planner.started:
        duration_s = planned_s(view.job.limit_s, view.estimate, quantile, default_s)
        yield Release(view.eligible_s + duration_s, shares)


class _Heaps:
    """The heaps of all sets of nodes that share no node."""

    def __init__(self, planner: Planner, profile: Profile) -> None:
        self._planner = planner
        self._profile = profile
        self._known: dict[tuple[int, int], tuple[_Heap, Amounts, EpochS | None]] = {}
        self._ready: dict[tuple[int, str, int, int], EpochS | None] = {}
        self._heap_of: dict[tuple[str, ...], _Heap] = {}
        self._heaps: list[tuple[BoolArray, _Heap]] = []

    def start(self, view: JobView, duration_s: int) -> EpochS | None:
        shape, allowed = self._planner.asked(view)
        key = shape.number, allowed.number
        known = self._known.get(key)
        if known is None:
            ready = self._ready_s(shape.demand, allowed)
            known = self._known[key] = self._of(view), _amounts(shape.demand), ready
        heap, wants, ready = known
        if ready is None:
            return None
        first_s = heap.start(wants, duration_s, ready)
        if view.job.array_count > 1 and first_s is not None:
            heap.rest(wants, duration_s, ready, view.job.array_count - 1)
        return first_s

    def _ready_s(self, demand: Demand, allowed: Allowed) -> EpochS | None:
        """Many shapes differ in CPUs and memory only, which do not count."""
        key = gpus_of_share(demand), demand.gpu_type, demand.nodes_min, allowed.number
        if key not in self._ready:
            self._ready[key] = ready_s(self._profile, demand, allowed.nodes)
        return self._ready[key]

    def _of(self, view: JobView) -> _Heap:
        names = view.job.partitions
        if names not in self._heap_of:
            self._heap_of[names] = self._join(self._planner.allowance.ever(view.job).static)
        return self._heap_of[names]

    def _join(self, mask: BoolArray) -> _Heap:
        """The heap that shares nodes with these, or a new one."""
        for nodes, heap in self._heaps:
            if (nodes & mask).any():
                self._add(heap, mask & ~nodes)
                nodes |= mask
                return heap
        heap = _Heap(self._profile.now_s, 0, 0, 0)
        self._add(heap, mask)
        self._heaps.append((mask.copy(), heap))
        return heap

    def _add(self, heap: _Heap, mask: BoolArray) -> None:
        profile = self._profile
        nodes = np.flatnonzero(mask & self._planner.allowance.usable)
        if not len(nodes):
            return
        types = profile.types
        values = profile.values[:, nodes]
        sums = np.stack([values[:types].sum(axis=0), values[types], values[types + 1]])
        np.maximum(sums, 0, out=sums)  # below nothing where nodes are reserved for others
        heap.gpus += int(sums[0, :, 0].sum())
        heap.cpus += int(sums[1, :, 0].sum())
        heap.mem += int(sums[2, :, 0].sum())
        gains = np.diff(sums, axis=2).reshape(3, -1)
        at = profile.steps[nodes, 1:-1].reshape(-1)
        some = gains.any(axis=0)
        rows: IntArray = np.concatenate([at[None, some], gains[:, some]]).T
        heap.ends.extend(map(tuple, rows.tolist()))
        heapify(heap.ends)


def _amounts(demand: Demand) -> Amounts:
    if demand.uniform:
        n = demand.nodes_min
        return demand.gpus * n, demand.cpus * n, demand.mem_mib * n
    n, units = demand.nodes_min, demand.units
    cpus = max(demand.cpus * n, demand.unit_cpus * units)
    mem = max(demand.mem_mib * n, demand.unit_mem_mib * units)
    return demand.unit_gpus * units, cpus, mem


def gpus_of_share(demand: Demand) -> int:
    """GPUs that every node has to give at least."""
    return demand.gpus if demand.uniform else min(1, demand.units) * demand.unit_gpus


def ready_s(profile: Profile, demand: Demand, nodes: BoolArray) -> EpochS | None:
    """The first moment at which enough nodes have the GPUs of one share; None for never.

    GPUs alone decide, by a sum over what runs; nothing that is planned counts.
    """
    gpus = gpus_of_share(demand)
    if not gpus:
        return profile.now_s if np.count_nonzero(nodes) >= demand.nodes_min else None
    pool, types = profile.pool, profile.types
    row = pool.row.get(demand.gpu_type)
    if demand.gpu_type and row is None:
        return None
    values = profile.values[:types].sum(axis=0) if row is None else profile.values[row]
    enough = values >= gpus
    some = nodes & enough[:, -1]
    count = int(np.count_nonzero(some))
    if count < demand.nodes_min:
        return None
    at = profile.steps[some, enough[some].argmax(axis=1)]
    return int(np.partition(at, demand.nodes_min - 1)[demand.nodes_min - 1])
