"""Finding nodes for one demand in what is free: the one place where "does it fit" is decided."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slurm_ext.model.decision import Placement
from slurm_ext.model.job import NodeShare
from slurm_ext.model.units import GpuMask

from .policy import NodePreference, SetPreference
from .pool import BoolArray, Demand, Free, IntArray, Pool
from .rank import by_rank_alone, rank
from .taken import taken_by, units_at
from .topology import Ask, Ring


@dataclass(frozen=True, slots=True)
class Fit:
    """Per node: whether the demand's share fits (``ok``) and how many units do (flexible)."""

    ok: BoolArray
    units: IntArray | None = None


def fit(pool: Pool, free: Free, demand: Demand, allowed: BoolArray) -> Fit:
    """Which nodes can give one share of the demand."""
    ok = allowed.copy()
    if demand.exclusive:
        ok &= free.jobs == 0
    if demand.whole_mem:
        ok &= free.mem >= pool.capacity.mem
    if demand.uniform:
        if demand.gpus:
            ok &= pool.typed(free, demand.gpu_type) >= demand.gpus
        ok &= free.cpus >= pool.cpus_needed(demand.cpus)
        ok &= free.mem >= demand.mem_mib
        return Fit(ok)
    return _fit_units(pool, free, demand, ok)


def _fit_units(pool: Pool, free: Free, demand: Demand, ok: BoolArray) -> Fit:
    units = units_at(pool, free, demand)
    ok &= (units > 0) & (free.cpus >= pool.cpus_needed(demand.cpus)) & (free.mem >= demand.mem_mib)
    return Fit(ok, np.where(ok, units, 0))


def place(
    pool: Pool,
    free: Free,
    demand: Demand,
    allowed: BoolArray,
    preference: NodePreference,
    *,
    required: tuple[int, ...] = (),
    alternatives: int = 0,
) -> list[Placement]:
    """Best placement first, then up to ``alternatives`` others; empty if it does not fit now.

    Only the best one says which GPU indices Slurm will probably take.

    ``required`` nodes (sbatch(1) --nodelist) must all be part of the placement.
    """
    found = fit(pool, free, demand, allowed)
    candidates = np.flatnonzero(found.ok)
    wanted = max(demand.nodes_min, len(required))
    if not _suffices(demand, found, candidates, wanted, required):
        return []
    count = wanted + alternatives if by_rank_alone(pool, demand, wanted) else len(candidates)
    ranked = rank(pool, free, demand, candidates, preference, count)
    if required:
        chosen = set(required)
        ranked = np.array([*required, *(i for i in ranked if i not in chosen)], dtype=np.int64)
    build = _uniform if demand.uniform else _flexible
    best = build(pool, demand, found, ranked, wanted, required)
    if best is None:
        return []
    if required:
        return [_with_picks(pool, demand, best)]
    results = [best]
    if len(best.shares) > 1 and isinstance(preference, SetPreference):
        results = _rated(pool, free, demand, found, ranked, best, preference)
    for shift in range(1, 1 + alternatives):
        if len(results) > alternatives:
            break
        other = build(pool, demand, found, ranked[shift:], wanted, required)
        if other is None:
            break
        if all(other.nodes != placement.nodes for placement in results):
            results.append(other)
    return [_with_picks(pool, demand, results[0]), *results[1 : 1 + alternatives]]


def _rated(
    pool: Pool,
    free: Free,
    demand: Demand,
    found: Fit,
    ranked: IntArray,
    best: Placement,
    preference: SetPreference,
) -> list[Placement]:
    """Placements on several nodes, the best as a whole first.

    Nodes that are good one by one may lie far apart: the first of the ranking are compared with
    the first of each region that could hold the job (and of each GPU type, where none is asked).
    """
    count = len(best.shares)
    build = _uniform if demand.uniform else _flexible
    by_nodes = {best.nodes: best}
    orders = pool.topology.regions(_largest_first(demand, found, ranked), count)
    if demand.total_gpus and not demand.gpu_type and len(pool.types) > 1:
        orders += [ranked[free.gpus[row, ranked] > 0] for row in range(len(pool.types))]
    for order in orders:
        placement = build(pool, demand, found, order, max(demand.nodes_min, 1), ())
        if placement is not None and len(placement.shares) <= count:
            by_nodes.setdefault(placement.nodes, placement)
    rated = [
        replace(p, score=preference.rate(pool, free, demand, taken_by(pool, demand, p.shares)))
        for p in by_nodes.values()
    ]
    return sorted(rated, key=lambda p: (len(p.shares), p.score))  # stable: the ranking's own first


def _largest_first(demand: Demand, found: Fit, ranked: IntArray) -> IntArray:
    """The order in which nodes are gathered: by units, then by rank."""
    if demand.uniform or found.units is None:
        return ranked
    return ranked[np.argsort(-found.units[ranked], kind="stable")]


def ring_of(pool: Pool, placement: Placement, *, own: bool) -> Ring | None:
    """Predicted ring bandwidth of a placement; ``own``: it is already counted on its uplinks."""
    nodes = np.array([pool.index[s.node] for s in placement.shares], dtype=np.int64)
    gpus = np.array([s.gpus for s in placement.shares], dtype=np.int64)
    if int(gpus.sum()) < 2:
        return None
    inside = np.array(
        [
            pool.topology.score(int(i), s.gpu_mask)
            for i, s in zip(nodes, placement.shares, strict=True)
        ]
    )
    crossing = pool.slots.crossing
    if own and len(nodes) > 1:
        mine = pool.topology.uplinks(nodes)
        crossing = {**crossing, **{name: crossing.get(name, 1) - 1 for name in mine}}
    return pool.topology.ring(nodes, inside, gpus, crossing)


def possible(
    pool: Pool, free: Free, demand: Demand, allowed: BoolArray, required: tuple[int, ...] = ()
) -> bool:
    """Whether :func:`place` would find anything, without ranking and building it."""
    found = fit(pool, free, demand, allowed)
    wanted = max(demand.nodes_min, len(required))
    return _suffices(demand, found, np.flatnonzero(found.ok), wanted, required)


def repeated(
    pool: Pool, free: Free, demand: Demand, one: Placement, left: int
) -> tuple[int, Placement]:
    """As many of ``left`` equal tasks as the chosen node holds, at once: (how many, together).

    An array may have thousands; placing them one by one would fill the same node anyway.
    """
    if left == 1 or len(one.shares) != 1 or demand.exclusive or demand.whole_mem:
        return 1, one
    share = one.shares[0]
    i = pool.index[share.node]
    room = (
        (share.cpus, free.cpus[i]),
        (share.mem_mib, free.mem[i]),
        (share.gpus, pool.typed(free, demand.gpu_type)[i]),
    )
    count = max(1, min(left, *(int(have) // need for need, have in room if need)))
    gpus = share.gpus * count
    many = replace(
        share,
        cpus=share.cpus * count,
        mem_mib=share.mem_mib * count,
        gpus=gpus,
        gpu_mask=_picked(pool, demand, i, share.cpus * count, gpus) if gpus else 0,
    )
    return count, Placement((many,))


def _suffices(
    demand: Demand, found: Fit, candidates: IntArray, wanted: int, required: tuple[int, ...]
) -> bool:
    if len(candidates) < wanted or not all(found.ok[i] for i in required):
        return False
    if demand.uniform or found.units is None:
        return True
    if required:
        chosen = _fewest_nodes(demand, found.units, [int(i) for i in candidates], wanted, required)
        return chosen is not None
    units = found.units[candidates]
    if demand.nodes_max and len(units) > demand.nodes_max:
        units = np.sort(units)[-demand.nodes_max :]
    return int(units.sum()) >= demand.units


def _uniform(
    pool: Pool, demand: Demand, found: Fit, order: IntArray, wanted: int, required: tuple[int, ...]
) -> Placement | None:
    if len(order) < wanted:
        return None
    need = pool.cpus_needed(demand.cpus)
    return Placement(
        tuple(
            _share(pool, demand, i, int(need[i]), demand.mem_mib, demand.gpus)
            for i in sorted(int(i) for i in order[:wanted])
        )
    )


def _flexible(
    pool: Pool, demand: Demand, found: Fit, order: IntArray, wanted: int, required: tuple[int, ...]
) -> Placement | None:
    assert found.units is not None
    chosen = _fewest_nodes(demand, found.units, [int(i) for i in order], wanted, required)
    if chosen is None:
        return None
    left = demand.units - len(chosen)
    counts = dict.fromkeys(chosen, 1)  # every node gets at least one unit
    for i in chosen:
        more = min(left, int(found.units[i]) - 1)
        counts[i] += more
        left -= more
    if left > 0:
        return None
    shares = []
    for i in sorted(chosen):
        units = counts[i]
        cpus = int(pool.cpus_needed(max(demand.cpus, units * demand.unit_cpus))[i])
        mem = max(demand.mem_mib, units * demand.unit_mem_mib)
        shares.append(_share(pool, demand, i, cpus, mem, units * demand.unit_gpus))
    return Placement(tuple(shares))


def _fewest_nodes(
    demand: Demand,
    units: IntArray,
    order: list[int],
    wanted: int,
    required: tuple[int, ...] = (),
) -> list[int] | None:
    """The smallest number of nodes that gives all units, the last of them as tight as possible.

    The required nodes come first and are always part of it.
    """
    named = set(required)
    by_size = sorted(order, key=lambda i: (i not in named, -int(units[i])))  # stable in rank
    count, total = 0, 0
    while count < len(by_size) and (total < demand.units or count < wanted):
        total += int(units[by_size[count]])
        count += 1
    if total < demand.units or count < wanted or count > demand.units:
        return None
    if demand.nodes_max and count > demand.nodes_max:
        return None
    if count <= len(named):
        return by_size[:count]
    if count == 1:  # the rank was worked out for just this: all units on one node
        return [next(i for i in order if units[i] >= demand.units)]
    chosen = by_size[: count - 1]
    missing = max(1, demand.units - sum(int(units[i]) for i in chosen))
    taken = set(chosen)
    last = min(
        (i for i in order if i not in taken and units[i] >= missing),
        key=lambda i: int(units[i]),
    )
    return [*chosen, last]


def _share(pool: Pool, demand: Demand, i: int, cpus: int, mem: int, gpus: int) -> NodeShare:
    if demand.exclusive:
        cpus = int(pool.capacity.cpus[i])
    if demand.whole_mem:
        mem = int(pool.capacity.mem[i])
    gpu_type = demand.gpu_type
    if gpus and not gpu_type and len(pool.nodes[i].gpus) == 1:
        gpu_type = pool.nodes[i].gpus[0].type
    return NodeShare(pool.nodes[i].name, cpus, mem, gpus, 0, gpu_type)


def _with_picks(pool: Pool, demand: Demand, placement: Placement) -> Placement:
    if not demand.total_gpus:
        return placement
    shares = []
    for s in placement.shares:
        mask = _picked(pool, demand, pool.index[s.node], s.cpus, s.gpus)
        shares.append(NodeShare(s.node, s.cpus, s.mem_mib, s.gpus, mask, s.gpu_type))
    return Placement(tuple(shares), placement.score)


def _picked(pool: Pool, demand: Demand, i: int, cpus: int, gpus: int) -> GpuMask:
    cores = -(-cpus // int(pool.threads[i]))
    return pool.slots.pick(i, Ask(gpus, cores, demand.gpu_type, demand.per))
