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
        gpus_free = pool.typed(free, "")[candidates]
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
        return np.stack([wasteful, stranded - before, gpus_left, cpus_left, mem_left])


class CostPart(Protocol):
    """One cost in GPUs lost; see ``parts.costs``."""

    name: ClassVar[str]

    @property
    def weight(self) -> float: ...
    def cost(self, pool: Pool, free: Free, taken: Taken) -> FloatArray: ...
    def joint(self, pool: Pool, free: Free, taken: Taken) -> float: ...


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
        def compute(nodes: IntArray) -> IntArray:
            taken = would_take(pool, free, demand, nodes)
            total = np.zeros(len(nodes))
            for part in self.parts:
                if part.weight:
                    total += part.weight * part.cost(pool, free, taken)
            ties = self.ties.key(pool, free, demand, nodes)
            return np.vstack([np.rint(total * _UNIT).astype(np.int64), ties])

        return remembered(pool, free, demand, candidates, self, compute)

    def rate(self, pool: Pool, free: Free, taken: Taken) -> tuple[float, ...]:
        total = sum(p.weight * p.joint(pool, free, taken) for p in self.parts if p.weight)
        return (round(total, 6),)


@dataclass(frozen=True, slots=True)
class Lexicographic:
    """The first part decides, the next among equals, and so on; weights do not matter."""

    parts: tuple[CostPart, ...] = STANDARD
    ties: BestFit = BestFit()

    def key(self, pool: Pool, free: Free, demand: Demand, candidates: IntArray) -> IntArray:
        def compute(nodes: IntArray) -> IntArray:
            taken = would_take(pool, free, demand, nodes)
            rows = [np.rint(p.cost(pool, free, taken) * _UNIT).astype(np.int64) for p in self.parts]
            return np.vstack([*rows, self.ties.key(pool, free, demand, nodes)])

        return remembered(pool, free, demand, candidates, self, compute)

    def rate(self, pool: Pool, free: Free, taken: Taken) -> tuple[float, ...]:
        return tuple(round(p.joint(pool, free, taken), 6) for p in self.parts)
