"""Free resources of all nodes as arrays, with checkpoint and rollback.

Placement works on counts (GPUs per type, CPUs, memory); the GPU indices that Slurm will
probably pick are worked out for the chosen nodes only (``slots``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from slurm_ext.model.job import Job, NodeShare
from slurm_ext.model.node import Node, natural
from slurm_ext.model.observation import Controller

from .demand import Demand as Demand
from .demand import demand_of as demand_of
from .gputypes import speed_of
from .slots import Slots
from .topology import UNKNOWN, FloatArray, Topology

if TYPE_CHECKING:
    from .mix import TaskClass

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Free:
    """Free counts: ``gpus`` (types, nodes), ``cpus``, ``mem`` and ``idle`` (nodes)."""

    gpus: IntArray
    cpus: IntArray
    mem: IntArray
    jobs: IntArray

    def copy(self) -> Free:
        return Free(self.gpus.copy(), self.cpus.copy(), self.mem.copy(), self.jobs.copy())

    def minimum(self, other: Free) -> Free:
        """What is free in both (a job that spans two moments needs it in each)."""
        return Free(
            np.minimum(self.gpus, other.gpus),
            np.minimum(self.cpus, other.cpus),
            np.minimum(self.mem, other.mem),
            np.maximum(self.jobs, other.jobs),
        )


class Pool:
    """Nodes, in the order of their names whatever order they come in, with what is free on them.

    ``index`` maps names; ``types`` are the GPU types in row order of ``Free.gpus``.
    Free values come from the node records, lowered to what the occupying jobs leave where the two
    disagree (a completing job still holds its GPUs although the node may not say so). A GPU of
    which shards are in use is not free.

    ``topology`` answers for links and switches, ``mix`` is what jobs ask for, ``speeds`` the
    relative speed of each type: what a placement looks at beyond counts. ``memo`` belongs to the
    placement parts.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        jobs: Iterable[Job],
        controller: Controller,
        *,
        topology: Topology = UNKNOWN,
        mix: tuple[TaskClass, ...] = (),
        speeds: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.nodes = nodes = tuple(sorted(nodes, key=lambda n: natural(n.name)))
        self.index = {node.name: i for i, node in enumerate(nodes)}
        self.types = tuple(sorted({g.type for n in nodes for g in n.gpus})) or ("",)
        self.row = {t: i for i, t in enumerate(self.types)}
        select = controller.value("SelectTypeParameters", "CR_CORE_MEMORY").upper()
        self.memory_counts = "MEMORY" in select
        self._round_to_core = "CR_CPU" not in select
        self.threads = np.array([max(1, n.threads_per_core) for n in nodes], dtype=np.int64)
        self.capacity = self._capacity()
        self.capacity_rows = [sum(1 << self.row[g.type] for g in n.gpus) for n in nodes]
        self.free = self.capacity.copy()
        self._needed: dict[int, IntArray] = {}
        self.memo: dict[object, object] = {}
        self.topology = topology.on(self.nodes)
        self.slots = Slots(self.nodes, self.topology)
        self.mix = mix
        self.speeds: FloatArray = np.array([speed_of(t, speeds) for t in self.types])
        self.gpus_whole: IntArray = self.capacity.gpus.sum(axis=0)
        self._occupy(jobs)

    def _capacity(self) -> Free:
        n = len(self.nodes)
        gpus = np.zeros((len(self.types), n), dtype=np.int64)
        for i, node in enumerate(self.nodes):
            for group in node.gpus:
                gpus[self.row[group.type], i] += group.count
        cpus = np.array([node.cpus for node in self.nodes], dtype=np.int64)
        mem = np.array([node.mem_mib for node in self.nodes], dtype=np.int64)
        return Free(gpus, cpus, mem, np.zeros(n, dtype=np.int64))

    def _occupy(self, jobs: Iterable[Job]) -> None:
        by_jobs = self.capacity.copy()
        cpus, mem, count = ([0] * len(self.nodes) for _ in range(3))
        gpus = [[0] * len(self.nodes) for _ in self.types]
        index, row = self.index, self.row
        mixed = []  # shares whose GPU type is not known: worked out at the end
        for job in jobs:
            self.slots.take(job.alloc, running=True)
            for share in job.alloc:
                i = index.get(share.node)
                if i is None:
                    continue
                if share.gpus:
                    r = row.get(share.gpu_type)
                    if r is None or not self.capacity_rows[i] >> r & 1:
                        mixed.append(share)
                        continue
                    gpus[r][i] += share.gpus
                cpus[i] += share.cpus
                mem[i] += share.mem_mib
                count[i] += 1
        by_jobs.cpus -= np.array(cpus, dtype=np.int64)
        by_jobs.mem -= np.array(mem, dtype=np.int64)
        by_jobs.jobs += np.array(count, dtype=np.int64)
        by_jobs.gpus -= np.array(gpus, dtype=np.int64)
        for share in mixed:
            self.apply(by_jobs, share, -1)
        self.free.jobs = by_jobs.jobs
        for i, node in enumerate(self.nodes):
            self.free.cpus[i] = min(node.cpus - node.cpus_alloc, int(by_jobs.cpus[i]))
            self.free.mem[i] = min(node.mem_mib - node.mem_alloc_mib, int(by_jobs.mem[i]))
            self._gpus_left(i, node, by_jobs)
        np.maximum(self.free.cpus, 0, out=self.free.cpus)
        np.maximum(self.free.mem, 0, out=self.free.mem)

    def _gpus_left(self, i: int, node: Node, by_jobs: Free) -> None:
        hidden = node.gpu_used_count - node.gpu_used.bit_count()
        used = node.gpu_used | node.gpu_shared
        for group in node.gpus:
            row = self.row[group.type]
            left = group.count - (group.mask & used).bit_count()
            if hidden > 0:  # a used GPU without a known index: taken from whatever is left
                take = min(hidden, left)
                left -= take
                hidden -= take
            self.free.gpus[row, i] = max(0, min(left, int(by_jobs.gpus[row, i])))

    # -- changing what is free ---------------------------------------------------------

    def apply(self, free: Free, share: NodeShare, sign: int) -> None:
        """Give back (+1) or take (-1) one share on any Free of this pool."""
        i = self.index.get(share.node)
        if i is None:
            return
        free.cpus[i] += sign * share.cpus
        free.mem[i] += sign * share.mem_mib
        free.jobs[i] -= sign
        if share.gpus:
            for row, count in self._rows_for(i, free, share, sign):
                free.gpus[row, i] += sign * count

    def _rows_for(self, i: int, free: Free, share: NodeShare, sign: int) -> list[tuple[int, int]]:
        """(row, count) of the GPU types a share touches; a share without type may touch several."""
        on_node = [self.row[g.type] for g in self.nodes[i].gpus]
        named = self.row.get(share.gpu_type)
        if named in on_node:
            return [(named, share.gpus)]
        split: list[tuple[int, int]] = []
        left = share.gpus
        for row in on_node:
            room = int(free.gpus[row, i]) if sign < 0 else int(
                self.capacity.gpus[row, i] - free.gpus[row, i])  # fmt: skip
            count = min(left, max(0, room))
            if count:
                split.append((row, count))
                left -= count
        return split

    def take(self, shares: Sequence[NodeShare]) -> None:
        """Occupy the shares of one job now, with their GPU indices."""
        for share in shares:
            self.apply(self.free, share, -1)
        self.slots.take(shares)

    def give(self, shares: Sequence[NodeShare]) -> None:
        """One job that was counted as running holds its shares no more (what-if questions)."""
        for share in shares:
            self.apply(self.free, share, +1)
        self.slots.give(shares)

    def checkpoint(self) -> tuple[Free, tuple[object, ...]]:
        """State to come back to with :meth:`rollback` (what-if questions)."""
        return self.free.copy(), self.slots.checkpoint()

    def rollback(self, state: tuple[Free, tuple[object, ...]]) -> None:
        self.free = state[0]
        self.slots.rollback(state[1])

    # -- reading -----------------------------------------------------------------------

    def typed(self, free: Free, gpu_type: str) -> IntArray:
        """Free GPUs per node of one type, or of all for an untyped request; not to be changed."""
        if gpu_type:
            row = self.row.get(gpu_type)
            return free.gpus[row] if row is not None else np.zeros_like(free.cpus)
        total: IntArray = free.gpus[0] if len(self.types) == 1 else free.gpus.sum(axis=0)
        return total

    def cpus_needed(self, cpus: int) -> IntArray:
        """CPUs taken on each node for a demand: whole cores unless CR_CPU is configured."""
        found = self._needed.get(cpus)
        if found is None:
            found = np.full(len(self.nodes), cpus, dtype=np.int64)
            if self._round_to_core:
                found = -(-cpus // self.threads) * self.threads
            self._needed[cpus] = found
        return found

    def usable_cpus(self, free: Free) -> IntArray:
        """Free CPUs per node as far as they are whole cores."""
        if not self._round_to_core:
            return free.cpus
        return free.cpus // self.threads * self.threads
