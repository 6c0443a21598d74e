"""The node whose free resources are most like what the job asks for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_ext.engine.pool import Demand, Free, IntArray, Pool
from slurm_ext.engine.taken import would_take


@dataclass(frozen=True, slots=True)
class Alignment:
    """The greatest scalar product of demand and free resources (Grandl et al., Tetris, 2014).

    GPUs, CPUs and memory, each as a share of the largest node of the cluster.
    """

    def key(self, pool: Pool, free: Free, demand: Demand, candidates: IntArray) -> IntArray:
        taken = would_take(pool, free, demand, candidates)
        score = np.zeros(len(candidates))
        for wanted, left, most in (
            (taken.gpus, free.gpus[:, candidates].sum(axis=0), pool.gpus_whole.max(initial=1)),
            (taken.cpus, free.cpus[candidates], pool.capacity.cpus.max(initial=1)),
            (taken.mem, free.mem[candidates], pool.capacity.mem.max(initial=1)),
        ):
            score += (wanted / max(1, int(most))) * (left / max(1, int(most)))
        penalty: IntArray = -np.rint(score * 1e6).astype(np.int64)
        return penalty[None, :]
