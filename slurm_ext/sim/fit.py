"""Which nodes the simulated Slurm picks: the first that fit, in node order.

Real Slurm prefers the smallest group of neighbouring nodes, then node order (slurm.conf(5),
SelectTypeParameters); on a cluster without topology the lowest nodes are what it mostly takes.
"""

from __future__ import annotations

import numpy as np

from slurm_ext.engine.pool import Demand
from slurm_ext.model.job import NodeShare

from .cluster import BoolArray, Cluster, Free


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
    if wanted == 1 and not required:
        first = int(ok.argmax())
        if not ok[first]:
            return None
        chosen = [first]
    else:
        if not all(ok[i] for i in required):
            return None
        rest = [int(i) for i in np.flatnonzero(ok) if i not in required]
        chosen = sorted([*required, *rest[: wanted - len(required)]])
        if len(chosen) < wanted:
            return None
    return tuple(
        _share(cluster, demand, i, demand.cpus, demand.mem_mib, demand.gpus) for i in chosen
    )


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
