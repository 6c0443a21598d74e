"""Waiting jobs that can all start at once: placed without a whole decision.

With room for everybody there is nothing to order, to promise or to pass: the jobs start where the
engine's own search finds a place. What is free is kept up to date from start to end, so that a
large cluster is not read anew for every job. The search does not know what other jobs ask for, nor
which GPUs of a node are taken; so of several nodes it may take another than ``decide()`` would.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from slurm_ext.engine.policy import NodePreference
from slurm_ext.engine.pool import BoolArray, Demand, Pool, demand_of
from slurm_ext.engine.search import place
from slurm_ext.model.job import Job, JobKey, NodeShare, Request
from slurm_ext.model.observation import Controller

from .cluster import Cluster

MOST = 8
"""Jobs tried together; where more wait, the cluster is full."""


class Shortcut:
    """Places jobs on what is free; told of every start and end."""

    def __init__(
        self, cluster: Cluster, controller: Controller, preference: NodePreference
    ) -> None:
        self._preference = preference
        self._pool = Pool(cluster.records(), (), controller)
        # The pool has its nodes in an order of its own.
        self._allowed = {p.name: self._mask(p.nodes) for p in cluster.partitions}
        self._demands: dict[int, tuple[Request, Demand]] = {}

    def _mask(self, names: tuple[str, ...]) -> BoolArray:
        mask = np.zeros(len(self._pool.nodes), dtype=np.bool_)
        mask[[self._pool.index[n] for n in names]] = True
        return mask

    def find(self, jobs: Collection[Job]) -> dict[JobKey, tuple[NodeShare, ...]]:
        """Where each of the jobs starts now, in their order; empty unless all of them fit."""
        if len(jobs) > MOST:
            return {}
        found: dict[JobKey, tuple[NodeShare, ...]] = {}
        for job in jobs:
            shares = self._one(job)
            if shares is None:
                break
            found[job.key] = shares
            self.change(shares, -1)
        for shares in found.values():
            self.change(shares, +1)
        return found if len(found) == len(jobs) else {}

    def _one(self, job: Job) -> tuple[NodeShare, ...] | None:
        known = self._demands.get(id(job.request))
        if known is None:
            demand = demand_of(job.request, memory_counts=self._pool.memory_counts)
            known = self._demands[id(job.request)] = (job.request, demand)
        allowed = self._allowed[job.partitions[0]]
        found = place(self._pool, self._pool.free, known[1], allowed, self._preference)
        if not found:
            return None
        # Which GPUs of a node are free is the cluster's to know.
        return tuple(replace(share, gpu_mask=0) for share in found[0].shares)

    def change(self, shares: tuple[NodeShare, ...], sign: int) -> None:
        """A job has started (-1) or ended (+1)."""
        for share in shares:
            self._pool.apply(self._pool.free, share, sign)
