"""The only waiting job on a cluster that is otherwise idle enough: placed without a whole decision.

With nobody else waiting there is nothing to order, to promise or to pass: the job starts if the
engine's own search finds a place, which is all that ``decide()`` would do. What is free is kept up
to date from start to end, so that a large cluster is not read anew for every job.
"""

from __future__ import annotations

from dataclasses import replace

from slurm_ext.engine.policy import NodePreference
from slurm_ext.engine.pool import Demand, Pool, demand_of
from slurm_ext.engine.search import place
from slurm_ext.model.job import Job, NodeShare, Request
from slurm_ext.model.observation import Controller

from .cluster import Cluster


class Shortcut:
    """Places single jobs on what is free; told of every start and end."""

    def __init__(
        self, cluster: Cluster, controller: Controller, preference: NodePreference
    ) -> None:
        self._cluster = cluster
        self._preference = preference
        self._pool = Pool(cluster.records(), (), controller)
        self._demands: dict[int, tuple[Request, Demand]] = {}

    def find(self, job: Job) -> tuple[NodeShare, ...] | None:
        """Where the job would start now; None if it does not fit."""
        known = self._demands.get(id(job.request))
        if known is None:
            demand = demand_of(job.request, memory_counts=self._pool.memory_counts)
            known = self._demands[id(job.request)] = (job.request, demand)
        allowed = self._cluster.in_partition[job.partitions[0]]
        found = place(self._pool, self._pool.free, known[1], allowed, self._preference)
        if not found:
            return None
        return tuple(replace(share, gpu_mask=0) for share in found[0].shares)

    def change(self, shares: tuple[NodeShare, ...], sign: int) -> None:
        """A job has started (-1) or ended (+1)."""
        for share in shares:
            self._pool.apply(self._pool.free, share, sign)
