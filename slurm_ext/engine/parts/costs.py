"""Costs of a placement, each in GPUs lost, so that they can be weighed against each other.

Each part is a frozen dataclass with its ``weight``; ``cost`` gives one number a node, ``joint``
one for all nodes of a job. Negative: the placement makes things better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from slurm_ext.engine.mix import TaskClass
from slurm_ext.engine.pool import Free, IntArray, Pool
from slurm_ext.engine.taken import Taken
from slurm_ext.engine.topology import UNKNOWN, FloatArray

PLAIN_MIX = (TaskClass(1, 1, 0, "", 1.0),)
"""Stands in where no job with GPUs is known: one GPU, one CPU."""


@dataclass(frozen=True, slots=True)
class Room:
    """Free GPUs (all types; and by type, shape (types, nodes)), CPUs and memory of some nodes."""

    gpus: IntArray
    by_type: IntArray
    cpus: IntArray
    mem: IntArray

    @classmethod
    def before(cls, free: Free, taken: Taken) -> Room:
        by_type = free.gpus[:, taken.nodes]
        gpus: IntArray = by_type[0] if len(by_type) == 1 else by_type.sum(axis=0)
        return cls(gpus, by_type, free.cpus[taken.nodes], free.mem[taken.nodes])

    def after(self, pool: Pool, taken: Taken) -> Room:
        """What is left; an untyped job takes of the types in row order."""
        by_type = self.by_type.copy()
        row = pool.row.get(taken.gpu_type) if taken.gpu_type else None
        if row is not None or len(by_type) == 1:
            by_type[row or 0] -= taken.gpus
        else:
            left = taken.gpus
            for free in by_type:
                here = np.minimum(left, free)
                free -= here
                left = left - here
        return Room(self.gpus - taken.gpus, by_type, self.cpus - taken.cpus, self.mem - taken.mem)

    def then(self, other: Room) -> Room:
        """These nodes, then the other's, as one."""
        return Room(
            np.concatenate([self.gpus, other.gpus]),
            np.concatenate([self.by_type, other.by_type], axis=1),
            np.concatenate([self.cpus, other.cpus]),
            np.concatenate([self.mem, other.mem]),
        )

    def rows(self) -> IntArray:
        """By type, then all types together, then none (a type that no node has)."""
        return np.vstack([self.by_type, self.gpus, np.zeros_like(self.gpus)])


class _Tasks(NamedTuple):
    """The classes of a mix as columns (classes, 1); ``row``: of Room.rows. ``share`` in ppm.

    ``cpus_each``, ``mem_each``: what comes with one GPU, at least 1.
    """

    gpus: IntArray
    cpus: IntArray
    mem: IntArray
    row: IntArray
    share: IntArray
    cpus_each: IntArray
    mem_each: IntArray

    def summed(self, gpus: IntArray) -> FloatArray:
        """GPUs (classes, nodes) weighed by share; whole numbers add up the same everywhere."""
        total: FloatArray = (self.share * gpus).sum(axis=0) / 1e6
        return total


@lru_cache(maxsize=16)
def _tasks(mix: tuple[TaskClass, ...], types: tuple[str, ...]) -> _Tasks:
    rows = {**{t: i for i, t in enumerate(types)}, "": len(types)}
    nowhere = len(types) + 1
    table = [
        (
            t.gpus, t.cpus, t.mem_mib, rows.get(t.gpu_type, nowhere), round(t.share * 1e6),
            max(1, -(-t.cpus // t.gpus)), max(1, -(-t.mem_mib // t.gpus)),
        )
        for t in mix or PLAIN_MIX
    ]  # fmt: skip
    columns = np.array(table, dtype=np.int64).T[:, :, None]
    return _Tasks(*columns)


def _unusable(room: Room, tasks: _Tasks) -> IntArray:
    """Free GPUs that each class cannot use on each node: all, or none if it fits."""
    fits = room.rows()[tasks.row[:, 0]] >= tasks.gpus
    fits &= room.cpus >= tasks.cpus
    fits &= room.mem >= tasks.mem
    unusable: IntArray = room.gpus * ~fits
    return unusable


def _stranded(room: Room, tasks: _Tasks) -> IntArray:
    """Free GPUs beyond those that have CPUs and memory in each class's own proportion."""
    served = room.cpus // tasks.cpus_each
    with_mem = np.flatnonzero(tasks.mem[:, 0])
    if len(with_mem):
        by_mem = room.mem // tasks.mem_each[with_mem]
        served[with_mem] = np.minimum(served[with_mem], by_mem)
    stranded: IntArray = np.maximum(room.gpus - served, 0)
    return stranded


class _Rooms(NamedTuple):
    """What is left on the nodes of ``taken``, then what there is now."""

    free: Free
    taken: Taken
    room: Room


def _rooms(pool: Pool, free: Free, taken: Taken) -> Room:
    """The same for every measure that asks in turn: a ``Taken`` is made for one question."""
    last = pool.memo.get(_Rooms)
    if isinstance(last, _Rooms) and last.taken is taken and last.free is free:
        return last.room
    before = Room.before(free, taken)
    room = before.after(pool, taken).then(before)
    pool.memo[_Rooms] = _Rooms(free, taken, room)
    return room


def _change(
    pool: Pool, free: Free, taken: Taken, measure: Callable[[Room, _Tasks], IntArray]
) -> FloatArray:
    """What a measure of the mix grows by, averaged over its classes."""
    tasks = _tasks(pool.mix, pool.types)
    count = len(taken.nodes)
    found = measure(_rooms(pool, free, taken), tasks)
    return tasks.summed(found[:, :count] - found[:, count:])


class _PerNode:
    """Parts whose cost over several nodes is the sum."""

    __slots__ = ()
    additive: ClassVar[bool] = True

    def cost(self, pool: Pool, free: Free, taken: Taken) -> FloatArray:
        raise NotImplementedError

    def joint(self, pool: Pool, free: Free, taken: Taken) -> float:
        return float(self.cost(pool, free, taken).sum())


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
        return _change(pool, free, taken, _unusable)


@dataclass(frozen=True, slots=True)
class Stranding(_PerNode):
    """GPUs left without the CPUs or the memory that a GPU of the mix comes with.

    For each class: free GPUs less those for which the node has CPUs and memory in the class's own
    proportion, after the placement less before, weighed with the class's share.
    """

    name: ClassVar[str] = "stranding"
    weight: float = 1.0

    def cost(self, pool: Pool, free: Free, taken: Taken) -> FloatArray:
        return _change(pool, free, taken, _stranded)


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

    def joint(self, pool: Pool, free: Free, taken: Taken) -> float:
        if not taken.several:
            return float(self.cost(pool, free, taken).sum())
        inside = pool.topology.predicted(taken.nodes, _masks(pool, free, taken), taken.gpus)
        ring = pool.topology.ring(taken.nodes, inside, taken.gpus, pool.slots.crossing)
        return ring.lost * float(taken.gpus.sum()) if ring is not None else 0.0


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

    def joint(self, pool: Pool, free: Free, taken: Taken) -> float:
        if taken.gpu_type or len(pool.types) == 1 or not taken.gpus.sum():
            return 0.0
        used = taken.gpus > 0
        speeds, gpus = self._speed(pool, free, taken)[used], taken.gpus[used]
        slowest, top = float(speeds.min()), float(pool.speeds.max())
        held_back = float(((speeds - slowest) * gpus).sum())
        return (1.0 - slowest / top) * float(gpus.sum()) + held_back / top

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

    def joint(self, pool: Pool, free: Free, taken: Taken) -> float:
        return float(pool.topology.spread(taken.nodes))


def _masks(pool: Pool, free: Free, taken: Taken) -> IntArray:
    """Free GPU masks; -1 where they do not agree with the counts (a moment ahead, or hidden)."""
    masks = pool.slots.free(taken.nodes, taken.gpu_type)
    counts = pool.typed(free, taken.gpu_type)[taken.nodes]
    return np.where(np.bitwise_count(masks) == counts, masks, -1)
