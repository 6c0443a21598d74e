"""Finding nodes for one demand in what is free: the one place where "does it fit" is decided."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slurm_ext.model.decision import Placement
from slurm_ext.model.job import NodeShare

from .policy import NodePreference
from .pool import BoolArray, Demand, Free, IntArray, Pool


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
    units = np.full(len(free.cpus), demand.units, dtype=np.int64)
    if demand.unit_gpus:
        units = np.minimum(units, pool.typed(free, demand.gpu_type) // demand.unit_gpus)
    if demand.unit_cpus:
        units = np.minimum(units, pool.usable_cpus(free) // demand.unit_cpus)
    if demand.unit_mem_mib:
        units = np.minimum(units, free.mem // demand.unit_mem_mib)
    if demand.units_per_node:
        units = np.minimum(units, demand.units_per_node)
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

    ``required`` nodes (sbatch(1) --nodelist) must all be part of the placement.
    """
    found = fit(pool, free, demand, allowed)
    candidates = np.flatnonzero(found.ok)
    wanted = max(demand.nodes_min, len(required))
    if not _suffices(demand, found, candidates, wanted, required):
        return []
    ranked = _rank(pool, free, demand, candidates, preference)
    if required:
        chosen = set(required)
        ranked = np.array([*required, *(i for i in ranked if i not in chosen)], dtype=np.int64)
    build = _uniform if demand.uniform else _flexible
    results: list[Placement] = []
    for shift in range(1 + alternatives):
        order = ranked if required else ranked[shift:]
        placement = build(pool, demand, found, order, wanted, required)
        if placement is None:
            break
        results.append(placement)
        if required:
            break
    return results


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
        gpu_mask=pool.pick_gpus(i, demand.gpu_type, gpus) if gpus else 0,
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


def _rank(
    pool: Pool, free: Free, demand: Demand, candidates: IntArray, preference: NodePreference
) -> IntArray:
    if len(candidates) == 1:
        return candidates
    penalties = preference.key(pool, free, demand, candidates)
    # lexsort: the last key is the primary one; node index breaks ties, so the result is stable.
    return candidates[np.lexsort((candidates, *penalties[::-1]))]


def _uniform(
    pool: Pool, demand: Demand, found: Fit, order: IntArray, wanted: int, required: tuple[int, ...]
) -> Placement | None:
    if len(order) < wanted:
        return None
    need = pool.cpus_needed(demand.cpus)
    shares = []
    for i in sorted(int(i) for i in order[:wanted]):
        cpus, mem = int(need[i]), demand.mem_mib
        if demand.exclusive:
            cpus = int(pool.capacity.cpus[i])
        if demand.whole_mem:
            mem = int(pool.capacity.mem[i])
        shares.append(_share(pool, demand, i, cpus, mem, demand.gpus))
    return Placement(tuple(shares))


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
        if demand.exclusive:
            cpus = int(pool.capacity.cpus[i])
        if demand.whole_mem:
            mem = int(pool.capacity.mem[i])
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
    chosen = by_size[: count - 1]
    missing = max(1, demand.units - sum(int(units[i]) for i in chosen))
    taken = set(chosen)
    last = min(
        (i for i in order if i not in taken and units[i] >= missing),
        key=lambda i: int(units[i]),
    )
    return [*chosen, last]


def _share(pool: Pool, demand: Demand, i: int, cpus: int, mem: int, gpus: int) -> NodeShare:
    mask = pool.pick_gpus(i, demand.gpu_type, gpus) if gpus else 0
    gpu_type = demand.gpu_type
    if gpus and not gpu_type and len(pool.nodes[i].gpus) == 1:
        gpu_type = pool.nodes[i].gpus[0].type
    return NodeShare(pool.nodes[i].name, cpus, mem, gpus, mask, gpu_type)
