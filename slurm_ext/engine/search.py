"""Finding nodes for one demand in what is free: the one place where "does it fit" is decided."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slurm_ext.model.decision import Placement
from slurm_ext.model.job import NodeShare
from slurm_ext.model.units import GpuMask

from .gather import fewest_nodes, gathered
from .policy import NodePreference, SetPreference
from .pool import BoolArray, Demand, Free, IntArray, Pool
from .rank import by_rank_alone, rank
from .taken import units_at
from .together import rated
from .topology import Ask


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
    best = gathered(pool, demand, found.units, ranked, wanted, required)
    if best is None:
        return []
    if required:
        return [_with_picks(pool, demand, best)]
    results = [best]
    if len(best.shares) > 1 and isinstance(preference, SetPreference):
        results = rated(pool, free, demand, found.units, ranked, best, preference, 1 + alternatives)
    for shift in range(1, 1 + alternatives):
        if len(results) > alternatives:
            break
        other = gathered(pool, demand, found.units, ranked[shift:], wanted, required)
        if other is None:
            break
        if all(other.nodes != placement.nodes for placement in results):
            results.append(other)
    return [_with_picks(pool, demand, results[0]), *results[1 : 1 + alternatives]]


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
        chosen = fewest_nodes(demand, found.units, [int(i) for i in candidates], wanted, required)
        return chosen is not None
    units = found.units[candidates]
    if demand.nodes_max and len(units) > demand.nodes_max:
        units = np.sort(units)[-demand.nodes_max :]
    return int(units.sum()) >= demand.units


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
