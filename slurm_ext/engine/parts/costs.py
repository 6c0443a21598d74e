"""Costs of a placement, each in GPUs lost, so that they can be weighed against each other.

Each part is a frozen dataclass with its ``weight``; ``cost`` gives one number a node, ``joint``
one for all nodes of a job, for each of ``sets`` placements that follow one another in ``taken``,
on equally many nodes each. Negative: the placement makes things better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slurm_ext.engine.pool import Free, IntArray, Pool
from slurm_ext.engine.taken import Taken
from slurm_ext.engine.topology import UNKNOWN, FloatArray

from .usable import change, stranded, unusable


class _PerNode:
    """Parts whose cost over several nodes is the sum."""

    __slots__ = ()
    additive: ClassVar[bool] = True

    def cost(self, pool: Pool, free: Free, taken: Taken) -> FloatArray:
        raise NotImplementedError

    def joint(self, pool: Pool, free: Free, taken: Taken, sets: int = 1) -> FloatArray:
        summed: FloatArray = self.cost(pool, free, taken).reshape(sets, -1).sum(axis=1)
        return summed


@dataclass(frozen=True, slots=True)
class Fragmentation(_PerNode):
    """Fragmentation gradient: free GPUs that tasks of the mix could not use any more.

    F_n = sum over task classes m of share(m) times the GPUs of node n that m cannot use: all free
    ones if m does not fit there, else none (whole GPUs have no residue). The cost is F_n after
    the placement less F_n before. Source: Weng et al., Beware of Fragmentation: Scheduling
    GPU-Sharing Workloads with Fragmentation Gradient Descent, USENIX ATC 2023. Differs: tasks
    without GPUs are left out, they add the same to every node.
    """

    name: ClassVar[str] = "fragmentation"
    weight: float = 0.5

    def cost(self, pool: Pool, free: Free, taken: Taken) -> FloatArray:
        return change(pool, free, taken, unusable)


@dataclass(frozen=True, slots=True)
class Stranding(_PerNode):
    """GPUs left without the CPUs or the memory that a GPU of the mix comes with.

    For each class: free GPUs less those for which the node has CPUs and memory in the class's own
    proportion, after the placement less before, weighed with the class's share.
    """

    name: ClassVar[str] = "stranding"
    weight: float = 1.0

    def cost(self, pool: Pool, free: Free, taken: Taken) -> FloatArray:
        return change(pool, free, taken, stranded)


@dataclass(frozen=True, slots=True)
class WholeNodes(_PerNode):
    """GPUs left over on nodes that are wholly free now and would not be any more."""

    name: ClassVar[str] = "whole_nodes"
    weight: float = 0.5

    def cost(self, pool: Pool, free: Free, taken: Taken) -> FloatArray:
        gpus = free.gpus[:, taken.nodes].sum(axis=0)
        left = gpus - taken.gpus
        whole = gpus == pool.gpus_whole[taken.nodes]
        return np.where(whole, left, 0).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Islands(_PerNode):
    """GPUs left over in groups joined by fast links that are whole now.

    Nodes whose GPUs are all in one such group are left to :class:`WholeNodes`.
    """

    name: ClassVar[str] = "islands"
    weight: float = 0.25

    def cost(self, pool: Pool, free: Free, taken: Taken) -> FloatArray:
        if pool.topology is UNKNOWN:
            return np.zeros(len(taken.nodes))
        masks = _masks(pool, free, taken)
        return pool.topology.broken(taken.nodes, masks, taken.gpus).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Links:
    """GPUs' worth of bandwidth lost: the job's GPUs times the share of ring bandwidth lost.

    The share is that of the predicted ring all-reduce bandwidth against the best GPU set of the
    same size; over several nodes the slowest node or shared uplink counts.
    """

    name: ClassVar[str] = "links"
    additive: ClassVar[bool] = False
    weight: float = 1.0

    def cost(self, pool: Pool, free: Free, taken: Taken) -> FloatArray:
        single = not taken.several and int(taken.gpus.max(initial=0)) < 2
        if single or pool.topology is UNKNOWN:
            return np.zeros(len(taken.nodes))
        masks = _masks(pool, free, taken)
        loss = pool.topology.loss(taken.nodes, masks, taken.gpus, several=taken.several)
        lost: FloatArray = loss * taken.gpus
        return lost

    def joint(self, pool: Pool, free: Free, taken: Taken, sets: int = 1) -> FloatArray:
        if not taken.several:
            return self.cost(pool, free, taken).reshape(sets, -1).sum(axis=1)  # type: ignore[no-any-return]
        if pool.topology is UNKNOWN or not taken.gpus.any():
            return np.zeros(sets)
        inside = pool.topology.predicted(taken.nodes, _masks(pool, free, taken), taken.gpus)
        rows = (a.reshape(sets, -1) for a in (taken.nodes, inside, taken.gpus))
        lost = [
            pool.topology.lost(nodes, gbps, gpus, pool.slots.crossing) * float(gpus.sum())
            for nodes, gbps, gpus in zip(*rows, strict=True)
        ]
        return np.array(lost)


@dataclass(frozen=True, slots=True)
class GpuTypes:
    """GPUs' worth of speed lost on slower types than the fastest there is (untyped requests).

    Relative speeds come from the configuration. A job on several nodes goes at the pace of its
    slowest GPUs; what faster ones are held back by is lost for others.
    """

    name: ClassVar[str] = "gpu_types"
    additive: ClassVar[bool] = False
    weight: float = 1.0

    def cost(self, pool: Pool, free: Free, taken: Taken) -> FloatArray:
        if taken.gpu_type or len(pool.types) == 1:
            return np.zeros(len(taken.nodes))
        lost: FloatArray = (1.0 - self._speed(pool, free, taken) / pool.speeds.max()) * taken.gpus
        return lost

    def joint(self, pool: Pool, free: Free, taken: Taken, sets: int = 1) -> FloatArray:
        if taken.gpu_type or len(pool.types) == 1 or not taken.gpus.any():
            return np.zeros(sets)
        gpus = taken.gpus.reshape(sets, -1)
        speeds = self._speed(pool, free, taken).reshape(sets, -1)
        top = float(pool.speeds.max())
        slowest = np.where(gpus > 0, speeds, top).min(axis=1)
        held_back = (np.maximum(speeds - slowest[:, None], 0.0) * gpus).sum(axis=1)
        lost: FloatArray = (1.0 - slowest / top) * gpus.sum(axis=1) + held_back / top
        return lost

    def _speed(self, pool: Pool, free: Free, taken: Taken) -> FloatArray:
        """Of the slowest free type on each node: any of them may be taken."""
        here = free.gpus[:, taken.nodes] > 0
        speeds = np.where(here, pool.speeds[:, None], np.inf).min(axis=0)
        known: FloatArray = np.where(np.isinf(speeds), pool.speeds.max(), speeds)
        return known


@dataclass(frozen=True, slots=True)
class Spread:
    """Switches or blocks a job on several nodes has to leave: fewest leaves, lowest level.

    Counted on all levels; a second leaf under the same switch costs two, its own and the first.
    """

    name: ClassVar[str] = "spread"
    additive: ClassVar[bool] = False
    weight: float = 0.5

    def cost(self, pool: Pool, free: Free, taken: Taken) -> FloatArray:
        return np.zeros(len(taken.nodes))

    def joint(self, pool: Pool, free: Free, taken: Taken, sets: int = 1) -> FloatArray:
        if pool.topology is UNKNOWN:
            return np.zeros(sets)
        return np.array([float(pool.topology.spread(n)) for n in taken.nodes.reshape(sets, -1)])


def _masks(pool: Pool, free: Free, taken: Taken) -> IntArray:
    """Free GPU masks; -1 where they do not agree with the counts (a moment ahead, or hidden)."""
    masks = pool.slots.free(taken.nodes, taken.gpu_type)
    counts = pool.typed(free, taken.gpu_type)[taken.nodes]
    return np.where(np.bitwise_count(masks) == counts, masks, -1)
