"""Which nodes the simulated Slurm picks: of neighbours that fit, the group with least room.

select/cons_tres (22.05, ``_eval_nodes``) puts usable nodes that follow each other into groups and
takes the group with the fewest usable CPUs that suffices; in it the node with the fewest, or the
first ones if the job wants several. GPUs do not count, and of CPUs no more than a socket's for a
job that fits on one (two sockets are taken for granted), so many groups are equal; then the first
is taken. If no group suffices, the largest are put together.
"""

from __future__ import annotations

import numpy as np

from slurm_ext.engine.pool import Demand
from slurm_ext.model.job import NodeShare

from .cluster import BoolArray, Cluster, Free

_MOST = np.iinfo(np.int64).max


def pick(
    cluster: Cluster, free: Free, demand: Demand, allowed: BoolArray, required: tuple[int, ...] = ()
) -> tuple[NodeShare, ...] | None:
    """Shares for the demand out of ``free``, or None; all ``required`` nodes are among them."""
    if demand.gpu_type:
        allowed = allowed & (cluster.types == demand.gpu_type)
    if demand.exclusive:
        allowed = allowed & (free.jobs == 0)
    if demand.uniform:
        return _uniform(cluster, free, demand, allowed, required)
    return _in_units(cluster, free, demand, allowed, required)


def _uniform(
    cluster: Cluster, free: Free, demand: Demand, allowed: BoolArray, required: tuple[int, ...]
) -> tuple[NodeShare, ...] | None:
    ok = allowed & (free.gpus >= demand.gpus) & (free.cpus >= demand.cpus)
    if demand.mem_mib:
        ok &= free.mem >= demand.mem_mib
    wanted = max(demand.nodes_min, len(required))
    if not all(ok[i] for i in required):
        return None
    if wanted > len(required):
        ok = ok.copy() if ok is allowed else ok
        ok[list(required)] = False
        chosen = _neighbours(cluster, free, demand, ok, wanted - len(required))
        if chosen is None:
            return None
        chosen = sorted([*required, *chosen])
    else:
        chosen = sorted(required)
    return tuple(
        _share(cluster, demand, i, demand.cpus, demand.mem_mib, demand.gpus) for i in chosen
    )


def _neighbours(
    cluster: Cluster, free: Free, demand: Demand, ok: BoolArray, wanted: int
) -> list[int] | None:
    """``wanted`` of the nodes that are ``ok``."""
    fit = np.flatnonzero(ok)
    if len(fit) < wanted:
        return None
    if len(fit) == 1:
        return [int(fit[0])]
    socket = cluster.total.cpus[fit] // 2
    step = max(1, demand.cpus)
    room = free.cpus[fit]
    room = np.where(demand.cpus > socket, room, np.minimum(room, socket)) // step * step
    begins = np.concatenate(([0], np.flatnonzero(np.diff(fit) > 1) + 1))
    sizes = np.diff(np.append(begins, len(fit)))
    rooms = np.add.reduceat(room, begins)
    enough = sizes >= wanted
    if enough.any():
        best = int(np.where(enough, rooms, _MOST).argmin())
        group = slice(begins[best], begins[best] + sizes[best])
        if wanted == 1:
            return [int(fit[group][room[group].argmin()])]
        return [int(i) for i in fit[group][:wanted]]
    chosen: list[int] = []
    for best in np.argsort(-rooms, kind="stable"):
        chosen += [int(i) for i in fit[begins[best] : begins[best] + sizes[best]]]
        if len(chosen) >= wanted:
            break
    return chosen[:wanted]


def _in_units(
    cluster: Cluster, free: Free, demand: Demand, allowed: BoolArray, required: tuple[int, ...]
) -> tuple[NodeShare, ...] | None:
    units = free.gpus // max(1, demand.unit_gpus)
    units = np.minimum(units, free.cpus // max(1, demand.unit_cpus))
    if demand.unit_mem_mib:
        units = np.minimum(units, free.mem // demand.unit_mem_mib)
    units = np.where(allowed & (free.cpus >= demand.cpus), units, 0)
    if not all(units[i] > 0 for i in required):
        return None
    order = [*required, *(i for i in np.argsort(-units, kind="stable") if i not in required)]
    wanted = max(demand.nodes_min, len(required))
    chosen: dict[int, int] = {}
    left = demand.units
    for position, i in enumerate(order):
        if left <= 0 or (demand.nodes_max and len(chosen) >= demand.nodes_max):
            break
        # every node still to come must get a unit
        give = min(int(units[i]), left - max(0, wanted - position - 1))
        if give <= 0:
            break
        chosen[int(i)] = give
        left -= give
    if left > 0 or len(chosen) < wanted:
        return None
    return tuple(
        _share(
            cluster, demand, i,
            max(demand.cpus, n * demand.unit_cpus), n * demand.unit_mem_mib, n * demand.unit_gpus,
        )
        for i, n in sorted(chosen.items())
    )  # fmt: skip


def _share(
    cluster: Cluster, demand: Demand, i: int, cpus: int, mem_mib: int, gpus: int
) -> NodeShare:
    if demand.exclusive:
        cpus = int(cluster.total.cpus[i])
    return NodeShare(
        cluster.names[i], cpus, mem_mib, gpus, 0, str(cluster.types[i]) if gpus else ""
    )
