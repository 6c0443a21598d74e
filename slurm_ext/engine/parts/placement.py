"""Preferences among nodes on which a job fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from slurm_ext.engine.pool import Demand, Free, IntArray, Pool
from slurm_ext.engine.taken import Taken, would_take
from slurm_ext.engine.topology import FloatArray

from .costs import Fragmentation, GpuTypes, Islands, Links, Spread, Stranding, WholeNodes
from .memo import remembered

_UNIT = 1e6
"""Costs are compared in millionths of a GPU: finer differences are rounding."""


@dataclass(frozen=True, slots=True)
class BestFit:
    """Tightest node first, whole nodes left whole, no GPU left without CPUs.

    A GPU is *stranded* when its node has fewer than ``cpus_per_gpu`` free CPUs for it; what a
    placement would strand weighs most, then the free GPUs it leaves on the node, then CPUs.
    """

    cpus_per_gpu: int = 1

    def key(self, pool: Pool, free: Free, demand: Demand, candidates: IntArray) -> IntArray:
        taken = would_take(pool, free, demand, candidates)
        gpus_free = free.gpus[:, candidates].sum(axis=0)
        cpus_free = free.cpus[candidates]
        gpus_left = gpus_free - taken.gpus
        cpus_left = cpus_free - taken.cpus
        per_gpu = max(1, self.cpus_per_gpu)
        stranded = np.maximum(gpus_left - cpus_left // per_gpu, 0)
        before = np.maximum(gpus_free - cpus_free // per_gpu, 0)
        has_gpus = pool.gpus_whole[candidates] > 0
        # A job without GPUs goes to nodes without GPUs first.
        wasteful = np.zeros_like(gpus_left) if demand.total_gpus else has_gpus.astype(np.int64)
        mem_left = free.mem[candidates] - taken.mem
        rows = (wasteful, stranded - before, gpus_left, cpus_left, mem_left)
        return np.concatenate(rows).reshape(len(rows), len(candidates))  # np.stack is slow


class CostPart(Protocol):
    """One cost in GPUs lost; see ``parts.costs``."""

    name: ClassVar[str]
    additive: ClassVar[bool]
    """Whether ``joint`` is the sum of ``cost`` over the nodes."""

    @property
    def weight(self) -> float: ...
    def cost(self, pool: Pool, free: Free, taken: Taken) -> FloatArray: ...
    def joint(self, pool: Pool, free: Free, taken: Taken, sets: int = 1) -> FloatArray: ...


STANDARD: tuple[CostPart, ...] = (
    Stranding(), WholeNodes(), Fragmentation(), Links(), Spread(), Islands(),
    GpuTypes(),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Weighted:
    """The least sum of weighted costs; equal sums as :class:`BestFit` says.

    A part of weight 0 is not computed.
    """

    parts: tuple[CostPart, ...] = STANDARD
    ties: BestFit = BestFit()

    def key(self, pool: Pool, free: Free, demand: Demand, candidates: IntArray) -> IntArray:
        return self._rows(pool, free, demand, candidates)[:-1]

    def rate(
        self, pool: Pool, free: Free, demand: Demand, taken: Taken, sets: int = 1
    ) -> list[tuple[float, ...]]:
        parts = [p for p in self.parts if p.weight]
        total = np.zeros(sets)
        if demand.uniform:  # what each node takes is known, and so its own cost
            additive = self._rows(pool, free, demand, taken.nodes)[-1]
            total = additive.reshape(sets, -1).sum(axis=1) / _UNIT
            parts = [p for p in parts if not p.additive]
        for part in parts:
            total = total + part.weight * part.joint(pool, free, taken, sets)
        return [(round(x, 6),) for x in total.tolist()]

    def _rows(self, pool: Pool, free: Free, demand: Demand, candidates: IntArray) -> IntArray:
        """The key's rows, then the sum of the additive parts alone."""

        def compute(nodes: IntArray) -> IntArray:
            taken = would_take(pool, free, demand, nodes)
            additive, other = np.zeros(len(nodes)), np.zeros(len(nodes))
            for part in self.parts:
                if part.weight:
                    into = additive if part.additive else other
                    into += part.weight * part.cost(pool, free, taken)
            ties = self.ties.key(pool, free, demand, nodes)
            rows = np.empty((len(ties) + 2, len(nodes)), dtype=np.int64)
            rows[0], rows[1:-1], rows[-1] = _units(additive + other), ties, _units(additive)
            return rows

        return remembered(pool, free, demand, candidates, self, compute)


@dataclass(frozen=True, slots=True)
class Lexicographic:
    """The first part decides, the next among equals, and so on; weights do not matter."""

    parts: tuple[CostPart, ...] = STANDARD
    ties: BestFit = BestFit()

    def key(self, pool: Pool, free: Free, demand: Demand, candidates: IntArray) -> IntArray:
        def compute(nodes: IntArray) -> IntArray:
            taken = would_take(pool, free, demand, nodes)
            rows = [_units(p.cost(pool, free, taken)) for p in self.parts]
            return np.vstack([*rows, self.ties.key(pool, free, demand, nodes)])

        return remembered(pool, free, demand, candidates, self, compute)

    def rate(
        self, pool: Pool, free: Free, demand: Demand, taken: Taken, sets: int = 1
    ) -> list[tuple[float, ...]]:
        columns = [p.joint(pool, free, taken, sets).tolist() for p in self.parts]
        return [tuple(round(x, 6) for x in row) for row in zip(*columns, strict=True)]


def _units(costs: FloatArray) -> IntArray:
    return np.rint(costs * _UNIT).astype(np.int64)
