"""What a job takes, or would take, on some nodes, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_ext.model.job import NodeShare

from .pool import Demand, Free, IntArray, Pool


@dataclass(frozen=True, slots=True)
class Taken:
    """What a job takes (or would take) on some nodes, arrays of one length.

    ``nodes`` are positions in the pool. ``several``: on more than one node together.
    """

    nodes: IntArray
    gpus: IntArray
    cpus: IntArray
    mem: IntArray
    gpu_type: str = ""
    several: bool = False


def units_at(pool: Pool, free: Free, demand: Demand) -> IntArray:
    """How many units of a demand that is not uniform fit on each node of the pool."""
    units = np.full(len(free.cpus), demand.units, dtype=np.int64)
    if demand.unit_gpus:
        units = np.minimum(units, pool.typed(free, demand.gpu_type) // demand.unit_gpus)
    if demand.unit_cpus:
        units = np.minimum(units, pool.usable_cpus(free) // demand.unit_cpus)
    if demand.unit_mem_mib:
        units = np.minimum(units, free.mem // demand.unit_mem_mib)
    if demand.units_per_node:
        units = np.minimum(units, demand.units_per_node)
    return units


def would_take(pool: Pool, free: Free, demand: Demand, candidates: IntArray) -> Taken:
    """What the demand would take on each candidate alone."""
    several = demand.nodes_min > 1
    if demand.uniform:
        gpus = np.full(len(candidates), demand.gpus, dtype=np.int64)
        cpus = pool.cpus_needed(demand.cpus)[candidates]
        mem = np.full(len(candidates), demand.mem_mib, dtype=np.int64)
    else:
        units = units_at(pool, free, demand)[candidates]
        gpus = units * demand.unit_gpus
        cpus = np.maximum(pool.cpus_needed(demand.cpus)[candidates], units * demand.unit_cpus)
        mem = np.maximum(demand.mem_mib, units * demand.unit_mem_mib)
    if demand.exclusive:
        cpus = pool.capacity.cpus[candidates]
    if demand.whole_mem:
        mem = pool.capacity.mem[candidates]
    return Taken(candidates, gpus, cpus, mem, demand.gpu_type, several)


def taken_by(pool: Pool, demand: Demand, shares: Sequence[NodeShare]) -> Taken:
    """What given shares take."""
    nodes, gpus, cpus, mem = (
        np.array(values, dtype=np.int64)
        for values in zip(
            *((pool.index[s.node], s.gpus, s.cpus, s.mem_mib) for s in shares), strict=True
        )
    )
    return Taken(nodes, gpus, cpus, mem, demand.gpu_type, len(shares) > 1)
