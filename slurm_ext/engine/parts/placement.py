"""Preferences among nodes on which a job fits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_ext.engine.pool import Demand, Free, IntArray, Pool


@dataclass(frozen=True, slots=True)
class BestFit:
    """Tightest node first, whole nodes left whole, no GPU left without CPUs.

    A GPU is *stranded* when its node has fewer than ``cpus_per_gpu`` free CPUs for it; what a
    placement would strand weighs most, then the free GPUs it leaves on the node, then CPUs.
    """

    cpus_per_gpu: int = 1

    def key(self, pool: Pool, free: Free, demand: Demand, candidates: IntArray) -> IntArray:
        gpus_free = pool.typed(free, "")[candidates]
        cpus_free = free.cpus[candidates]
        gpus = demand.gpus if demand.uniform else 0
        cpus = pool.cpus_needed(demand.cpus)[candidates]
        gpus_left = gpus_free - gpus
        cpus_left = cpus_free - cpus
        per_gpu = max(1, self.cpus_per_gpu)
        stranded = np.maximum(gpus_left - cpus_left // per_gpu, 0)
        before = np.maximum(gpus_free - cpus_free // per_gpu, 0)
        has_gpus = pool.capacity.gpus.sum(axis=0)[candidates] > 0
        # A job without GPUs goes to nodes without GPUs first.
        wasteful = np.zeros_like(gpus_left) if demand.total_gpus else has_gpus.astype(np.int64)
        if not demand.uniform:
            gpus_left = -gpus_left  # units are gathered from the emptiest nodes: fewest nodes
        mem_left = free.mem[candidates] - demand.mem_mib
        return np.stack([wasteful, stranded - before, gpus_left, cpus_left, mem_left])
