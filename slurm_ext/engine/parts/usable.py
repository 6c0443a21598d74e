"""What is left on nodes, and how many of its GPUs the tasks of the job mix can not use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from slurm_ext.engine.mix import TaskClass
from slurm_ext.engine.pool import Free, IntArray, Pool
from slurm_ext.engine.taken import Taken
from slurm_ext.engine.topology import FloatArray

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
        rows = np.zeros((len(self.by_type) + 2, len(self.gpus)), dtype=np.int64)
        rows[:-2], rows[-2] = self.by_type, self.gpus
        return rows


class Tasks(NamedTuple):
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
def _tasks(mix: tuple[TaskClass, ...], types: tuple[str, ...]) -> Tasks:
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
    return Tasks(*columns)


def unusable(room: Room, tasks: Tasks) -> IntArray:
    """Free GPUs that each class cannot use on each node: all, or none if it fits."""
    fits = room.rows()[tasks.row[:, 0]] >= tasks.gpus
    fits &= room.cpus >= tasks.cpus
    fits &= room.mem >= tasks.mem
    wasted: IntArray = room.gpus * ~fits
    return wasted


def stranded(room: Room, tasks: Tasks) -> IntArray:
    """Free GPUs beyond those that have CPUs and memory in each class's own proportion."""
    served = room.cpus // tasks.cpus_each
    with_mem = np.flatnonzero(tasks.mem[:, 0])
    if len(with_mem):
        by_mem = room.mem // tasks.mem_each[with_mem]
        served[with_mem] = np.minimum(served[with_mem], by_mem)
    beyond: IntArray = np.maximum(room.gpus - served, 0)
    return beyond


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


def change(
    pool: Pool, free: Free, taken: Taken, measure: Callable[[Room, Tasks], IntArray]
) -> FloatArray:
    """What a measure of the mix grows by, averaged over its classes."""
    tasks = _tasks(pool.mix, pool.types)
    count = len(taken.nodes)
    found = measure(_rooms(pool, free, taken), tasks)
    return tasks.summed(found[:, :count] - found[:, count:])
