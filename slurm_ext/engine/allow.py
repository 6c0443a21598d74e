"""Where a job may run at all: partition, features, named nodes, node state, reservations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_ext.model.job import Job
from slurm_ext.model.observation import Observation, Reservation
from slurm_ext.model.units import FOREVER_S, EpochS

from . import features
from .pool import BoolArray, IntArray, Pool
from .reserve import job_id_of


@dataclass(frozen=True, slots=True)
class Allowed:
    """``nodes``: usable for the whole window. ``static``: the same ignoring node state and
    reservations (for "never" against "not now"). Objects are shared: one per ``number``."""

    number: int
    nodes: BoolArray
    static: BoolArray
    required: tuple[int, ...]
    missing_required: bool = False


class Allowance:
    """Answers :meth:`of` for many jobs; arrays are shared between jobs that ask the same."""

    def __init__(self, pool: Pool, obs: Observation) -> None:
        self._pool = pool
        self.usable = np.array([n.usable for n in pool.nodes], dtype=np.bool_)
        self._partition = {
            p.name: self._named(p.nodes) if p.up else np.zeros_like(self.usable)
            for p in obs.partitions
        }
        self._reservations = [(r, self._named(r.nodes)) for r in obs.reservations if r.nodes]
        self._static: dict[tuple[object, ...], tuple[BoolArray, tuple[int, ...], bool]] = {}
        self._found: dict[tuple[object, ...], Allowed] = {}
        self._feature: dict[str, BoolArray] = {}

    def _named(self, names: tuple[str, ...]) -> BoolArray:
        mask = np.zeros(len(self._pool.nodes), dtype=np.bool_)
        for name in names:
            i = self._pool.index.get(name)
            if i is not None:
                mask[i] = True
        return mask

    def of(self, job: Job, start_s: EpochS, duration_s: int) -> Allowed:
        """Nodes for a job that would run from ``start_s`` for ``duration_s``."""
        request = job.request
        static_key = (
            job.partitions, request.features, request.required_nodes, request.excluded_nodes,
        )  # fmt: skip
        crossing = self._crossing(job, start_s, duration_s) if self._reservations else ()
        key = (static_key, crossing)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._make(key, job)
        return found

    def _make(self, key: tuple[tuple[object, ...], tuple[int, ...]], job: Job) -> Allowed:
        static_key, crossing = key
        if static_key not in self._static:
            self._static[static_key] = self._static_mask(job)
        static, required, missing = self._static[static_key]
        nodes = static & self.usable
        for position in crossing:
            nodes &= ~self._reservations[position][1]
        return Allowed(len(self._found), nodes, static, required, missing)

    def _crossing(self, job: Job, start_s: EpochS, duration_s: int) -> tuple[int, ...]:
        end_s = start_s + duration_s
        return tuple(
            i
            for i, (r, _) in enumerate(self._reservations)
            if r.start_s < end_s and r.end_s > start_s and job_id_of(r.name) != job.job_id
        )

    def ever(self, job: Job) -> Allowed:
        """Nodes for the job at a time without reservations."""
        return self.of(job, FOREVER_S, 0)

    def closures(self, now_s: EpochS) -> list[tuple[IntArray, EpochS, EpochS]]:
        """(nodes, start, end) of every reservation of others that is not over."""
        return [
            (np.flatnonzero(mask), r.start_s, r.end_s)
            for r, mask in self._reservations
            if r.end_s > now_s and job_id_of(r.name) is None
        ]

    def next_window(self, job: Job, start_s: EpochS, duration_s: int) -> Reservation | None:
        """The earliest reservation that keeps the job off nodes it could otherwise use."""
        allowed = self.of(job, start_s, duration_s)
        concerned = allowed.static
        if allowed.required:  # only the nodes it names decide
            concerned = np.zeros_like(allowed.static)
            concerned[list(allowed.required)] = True
        hits = [
            self._reservations[i][0]
            for i in self._crossing(job, start_s, duration_s)
            if bool((self._reservations[i][1] & concerned).any())
        ]
        return min(hits, key=lambda r: r.start_s, default=None)

    def _static_mask(self, job: Job) -> tuple[BoolArray, tuple[int, ...], bool]:
        request = job.request
        mask = np.zeros(len(self._pool.nodes), dtype=np.bool_)
        for name in job.partitions:
            mask |= self._partition.get(name, np.zeros_like(mask))
        alternatives = features.parse(request.features)
        if request.features and alternatives is not None:
            mask &= self._with_features(alternatives)
        if request.excluded_nodes:
            mask &= ~self._named(request.excluded_nodes)
        required: tuple[int, ...] = ()
        missing = False
        if request.required_nodes:
            found = [self._pool.index.get(n) for n in request.required_nodes]
            required = tuple(i for i in found if i is not None)
            missing = len(required) < len(found)
            if missing:
                mask[:] = False
            if request.nodes_max is not None and len(required) >= request.nodes_max:
                mask &= self._named(request.required_nodes)
        return mask, required, missing

    def _with_features(self, alternatives: tuple[tuple[str, ...], ...]) -> BoolArray:
        """Nodes that meet one of the alternatives; one array per feature, however many ask."""
        result = np.zeros(len(self._pool.nodes), dtype=np.bool_)
        for names in alternatives:
            here = np.ones_like(result)
            for name in names:
                here &= ~self._having(name[1:]) if name[0] == "!" else self._having(name)
            result |= here
        return result

    def _having(self, name: str) -> BoolArray:
        found = self._feature.get(name)
        if found is None:
            have = [name in n.features for n in self._pool.nodes]
            found = self._feature[name] = np.array(have, dtype=np.bool_)
        return found
