"""When a job fits for its whole duration, and where: searched on all nodes at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_ext.model.decision import Placement
from slurm_ext.model.units import FOREVER_S, EpochS

from .allow import Allowance
from .policy import NodePreference
from .pool import BoolArray, Demand, IntArray
from .profile import Profile
from .search import place
from .view import JobView

TRIES = 16
"""Moments tried for a demand of units, whose search is optimistic, before it is given up."""

LEVELS = 8
"""Different numbers of units a node is tested for; between them the answer is optimistic."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Times at which nodes are free for the whole duration: first and last possible start."""

    nodes: IntArray
    first: IntArray
    last: IntArray

    def at(self, start_s: EpochS) -> IntArray:
        """The nodes that are free from then on."""
        return self.nodes[(self.first <= start_s) & (self.last >= start_s)]

    def count(self, starts: IntArray) -> IntArray:
        """How many nodes are free from each of these moments on."""
        begun = np.searchsorted(np.sort(self.first), starts, side="right")
        over = np.searchsorted(np.sort(self.last), starts, side="left")
        return np.asarray(begun - over, dtype=np.int64)


def earliest(
    profile: Profile,
    allowance: Allowance,
    preference: NodePreference,
    view: JobView,
    demand: Demand,
    planned_s: int,
    limit_s: int,
    after_s: EpochS,
) -> tuple[EpochS, Placement] | None:
    """The first moment at which the job could run to its end, and where."""
    static = allowance.ever(view.job)
    # Where a reservation is ahead Slurm goes by the limit: that is tried last.
    for duration_s in dict.fromkeys((planned_s, limit_s)):
        found, spans = moments(profile, demand, static.nodes, static.required, duration_s, after_s)
        for start_s in found[:TRIES].tolist():
            allowed = allowance.of(view.job, start_s, limit_s)
            nodes = spans.at(start_s)
            nodes = nodes[allowed.nodes[nodes]]
            free = profile.between(start_s, start_s + planned_s, nodes)
            placed = place(profile.pool, free, demand, allowed.nodes, preference,
                           required=allowed.required)  # fmt: skip
            if placed:
                return start_s, placed[0]
    return None


def moments(
    profile: Profile,
    demand: Demand,
    allowed: BoolArray,
    required: tuple[int, ...],
    duration_s: int,
    after_s: EpochS,
) -> tuple[IntArray, Spans]:
    """Starts from ``after_s`` on at which enough nodes give enough, ascending, and the nodes.

    Only moments at which something becomes free (and ``after_s`` itself) are looked at: at any
    other nothing fits that did not fit before. For demands of units the condition is necessary,
    for uniform ones on nodes of one GPU type sufficient, too.
    """
    nodes = np.flatnonzero(allowed)
    wanted = max(demand.nodes_min, len(required))
    levels = [(1, demand.units)] if demand.uniform else _levels(profile, demand, nodes)
    counted: list[tuple[Spans, int]] = []
    for number, weight in levels:
        ok = _enough(profile, demand, nodes, number)
        counted.append((_spans(profile, nodes, ok, duration_s, after_s), weight))
    spans = counted[0][0]
    starts = np.sort(np.concatenate([s.first for s, _ in counted]))
    starts = starts[np.diff(starts, prepend=-1) > 0]  # np.unique is five times slower
    fits = spans.count(starts) >= wanted
    if not demand.uniform:
        fits &= sum(weight * s.count(starts) for s, weight in counted) >= demand.units
    if required:
        named = np.isin(spans.nodes, required)
        of_named = Spans(spans.nodes[named], spans.first[named], spans.last[named])
        fits &= of_named.count(starts) == len(required)
    return starts[fits], spans


def _levels(profile: Profile, demand: Demand, nodes: IntArray) -> list[tuple[int, int]]:
    """(units, weight): a node with at least so many units counts so many more."""
    pool = profile.pool
    most = demand.units_per_node or demand.units
    if demand.unit_gpus:
        whole = pool.typed(pool.capacity, demand.gpu_type)[nodes]
        most = min(most, int(whole.max(initial=0)) // demand.unit_gpus)
    if demand.unit_cpus:
        most = min(most, int(pool.capacity.cpus[nodes].max(initial=0)) // demand.unit_cpus)
    most = max(1, min(most, demand.units))
    numbers = sorted({int(n) for n in np.geomspace(1, most, LEVELS)} if most > LEVELS
                     else set(range(1, most + 1)))  # fmt: skip
    above = [*numbers[1:], most + 1]
    return [(n, (up - 1) if n == 1 else up - n) for n, up in zip(numbers, above, strict=True)]


def _enough(profile: Profile, demand: Demand, nodes: IntArray, units: int) -> BoolArray:
    """Shape (nodes, width): whether a step gives one share, or so many units."""
    pool, types = profile.pool, profile.types
    every = len(nodes) == len(profile.steps)
    values = profile.values if every else profile.values[:, nodes]
    cpus, mem = values[types], values[types + 1]
    ok: BoolArray = cpus >= pool.cpus_needed(demand.cpus)[nodes][:, None]
    if demand.mem_mib:
        ok &= mem >= demand.mem_mib
    gpus = demand.gpus if demand.uniform else units * demand.unit_gpus
    if gpus:
        row = pool.row.get(demand.gpu_type)
        if demand.gpu_type and row is None:
            return np.zeros_like(ok)
        ok &= (values[:types].sum(axis=0) if row is None else values[row]) >= gpus
    if demand.exclusive:
        ok &= values[types + 2] >= 0
    if demand.whole_mem:
        ok &= mem >= pool.capacity.mem[nodes][:, None]
    if not demand.uniform:
        if demand.unit_cpus:
            ok &= cpus >= pool.cpus_needed(units * demand.unit_cpus)[nodes][:, None]
        if demand.unit_mem_mib:
            ok &= mem >= units * demand.unit_mem_mib
    return ok


def _spans(
    profile: Profile, nodes: IntArray, ok: BoolArray, duration_s: int, after_s: EpochS
) -> Spans:
    """First and last possible start of every time a node is free for the whole duration."""
    every = len(nodes) == len(profile.steps)
    steps = profile.steps if every else profile.steps[nodes]
    edge = np.zeros((len(nodes), ok.shape[1] + 2), dtype=np.int8)
    edge[:, 1:-1] = ok
    change = np.diff(edge, axis=1)
    row, column = np.nonzero(change == 1)
    begin = np.maximum(steps[row, column], after_s)
    end = steps[change == -1]
    # From the last step on a node is free for ever, whatever the duration.
    last = np.where(end >= FOREVER_S, FOREVER_S, end - duration_s)
    long_enough = (last >= begin) & (begin < FOREVER_S)
    return Spans(nodes[row[long_enough]], begin[long_enough], last[long_enough])
