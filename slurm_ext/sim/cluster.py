"""A simulated cluster: nodes described in groups, and who holds what on them right now."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slurm_ext.model.job import NodeShare
from slurm_ext.model.node import GpuGroup, Node
from slurm_ext.model.observation import Partition
from slurm_ext.model.units import GpuMask, mask_of

from .errors import SimulationError, TraceError

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

MOST_NODES = 100_000
"""Nodes of a cluster, or GPUs of a pool, at most: beyond any real one, and slow."""

MOST_GPUS = 256
"""GPUs of a node at most (MIG slices included)."""

_GROUP = re.compile(r"(\d{1,9})x(\d{1,9})(?::([A-Za-z0-9_.-]+))?(?:/(\d{1,9}))?(?:/(\d{1,9}))?")


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """``count`` equal nodes with ``gpus`` GPUs each; ``cpus`` and ``mem_mib`` are per node."""

    count: int
    gpus: int = 8
    gpu_type: str = "gpu"
    cpus: int = 64
    mem_mib: int = 512_000
    prefix: str = "n"
    partition: str = "gpu"


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The nodes of a cluster, in Slurm's node order."""

    groups: tuple[NodeGroup, ...]

    @classmethod
    def uniform(cls, nodes: int, gpus: int = 8, *, cpus: int = 64) -> ClusterSpec:
        return cls((NodeGroup(nodes, gpus, cpus=cpus),))

    @classmethod
    def count_only(cls, gpus: int) -> ClusterSpec:
        """A pool of GPUs without placement: one node that has them all."""
        return cls((NodeGroup(1, gpus, cpus=gpus, prefix="pool"),))

    @classmethod
    def parse(cls, text: str) -> ClusterSpec:
        """``32x8``, ``16x8:a100,4x4:v100/24/500`` or ``pool:256`` (count only).

        A group is nodes x GPUs, its GPU type after a colon, CPUs and GiB a node after slashes.

        :raises TraceError: anything else.
        """
        head, _, tail = text.partition(":")
        if head == "pool" and tail.isdigit() and 0 < int(tail) <= MOST_NODES:
            return cls.count_only(int(tail))
        groups = []
        for position, part in enumerate(text.split(",")):
            found = _GROUP.fullmatch(part.strip())
            if found is None or not int(found[1]):
                raise TraceError(
                    f"cluster {part!r}: expected NODESxGPUS[:TYPE][/CPUS[/GIB]] or pool:GPUS"
                )
            prefix = "n" if position == 0 else f"n{chr(97 + position)}"
            group = NodeGroup(int(found[1]), int(found[2]), found[3] or "gpu", prefix=prefix)
            if found[4]:
                group = replace(group, cpus=int(found[4]))
            if found[5]:
                group = replace(group, mem_mib=1024 * int(found[5]))
            groups.append(group)
        nodes, gpus = sum(g.count for g in groups), max(g.gpus for g in groups)
        if nodes > MOST_NODES or gpus > MOST_GPUS:
            raise TraceError(
                f"cluster {text!r}: {nodes} nodes, up to {gpus} GPUs each; at most "
                f"{MOST_NODES} and {MOST_GPUS}"
            )
        return cls(tuple(groups))

    @property
    def nodes(self) -> int:
        return sum(g.count for g in self.groups)

    @property
    def cpus(self) -> int:
        return sum(g.count * g.cpus for g in self.groups)

    @property
    def gpus(self) -> int:
        return sum(g.count * g.gpus for g in self.groups)

    def node_size(self, gpu_type: str = "") -> int:
        """GPUs of the largest node (of a type): what decides how few nodes a job can do with."""
        sizes = (g.gpus for g in self.groups if not gpu_type or g.gpu_type == gpu_type)
        return max(sizes, default=0)


class Free:
    """Free counts per node. ``jobs`` counts the jobs on each."""

    __slots__ = ("cpus", "gpus", "jobs", "mem")

    def __init__(self, gpus: IntArray, cpus: IntArray, mem: IntArray, jobs: IntArray) -> None:
        self.gpus, self.cpus, self.mem, self.jobs = gpus, cpus, mem, jobs

    def copy(self) -> Free:
        return Free(self.gpus.copy(), self.cpus.copy(), self.mem.copy(), self.jobs.copy())

    def apply(self, index: dict[str, int], shares: Sequence[NodeShare], sign: int) -> None:
        """Give back (+1) or take (-1)."""
        for share in shares:
            i = index[share.node]
            self.gpus[i] += sign * share.gpus
            self.cpus[i] += sign * share.cpus
            self.mem[i] += sign * share.mem_mib
            self.jobs[i] -= sign


class Cluster:
    """What is free, kept apart from any scheduler: it refuses to hand out anything twice."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self._records: list[Node] = []
        partitions: dict[str, list[str]] = {}
        for group in spec.groups:
            for _ in range(group.count):
                name = f"{group.prefix}{len(self._records) + 1}"
                self._records.append(_node(name, group))
                partitions.setdefault(group.partition, []).append(name)
        self.names = tuple(n.name for n in self._records)
        self.index = {name: i for i, name in enumerate(self.names)}
        self.capacity = [n.gpu_mask for n in self._records]
        self.used: list[GpuMask] = [0] * len(self.names)
        self.types = np.array([n.gpus[0].type if n.gpus else "" for n in self._records])
        self.free = Free(
            np.array([n.gpu_count for n in self._records], dtype=np.int64),
            np.array([n.cpus for n in self._records], dtype=np.int64),
            np.array([n.mem_mib for n in self._records], dtype=np.int64),
            np.zeros(len(self.names), dtype=np.int64),
        )
        self.total = self.free.copy()
        self.partitions = tuple(
            Partition(p, tuple(nodes), is_default=not i)
            for i, (p, nodes) in enumerate(partitions.items())
        )
        self.in_partition: dict[str, BoolArray] = {
            p: np.isin(np.array(self.names), nodes) for p, nodes in partitions.items()
        }
        self._stale: set[int] = set()

    def take(self, shares: Sequence[NodeShare]) -> tuple[NodeShare, ...]:
        """Occupy shares; those without GPU indices get the lowest free ones.

        :raises SimulationError: some of it is not free.
        """
        taken = []
        for share in shares:
            i = self.index[share.node]
            mask = share.gpu_mask or self._lowest(i, share.gpus)
            if mask & self.used[i] or mask & ~self.capacity[i] or mask.bit_count() != share.gpus:
                raise SimulationError(f"{share.node}: GPUs {mask:#x} are not free for {share}")
            self.used[i] |= mask
            self._stale.add(i)
            taken.append(share if share.gpu_mask == mask else replace(share, gpu_mask=mask))
        self.free.apply(self.index, taken, -1)
        for share in taken:
            i = self.index[share.node]
            if self.free.gpus[i] < 0 or self.free.cpus[i] < 0 or self.free.mem[i] < 0:
                raise SimulationError(f"{share.node} is oversubscribed by {share}")
        return tuple(taken)

    def give(self, shares: Sequence[NodeShare]) -> None:
        """Give shares back.

        :raises SimulationError: they were not held.
        """
        for share in shares:
            i = self.index[share.node]
            if share.gpu_mask & ~self.used[i]:
                raise SimulationError(f"{share.node}: gives back GPUs that were free: {share}")
            self.used[i] &= ~share.gpu_mask
            self._stale.add(i)
        self.free.apply(self.index, shares, +1)

    def _lowest(self, i: int, count: int) -> GpuMask:
        free, mask = self.capacity[i] & ~self.used[i], 0
        for _ in range(count):
            bit = free & -free
            mask |= bit
            free ^= bit
        return mask

    def records(self) -> tuple[Node, ...]:
        """The nodes as Slurm would show them; only those that changed are made anew."""
        for i in self._stale:
            old, used = self._records[i], self.used[i]
            self._records[i] = Node(
                name=old.name,
                states=_MIXED if self.free.jobs[i] else _IDLE,
                cpus=old.cpus,
                cpus_alloc=old.cpus - int(self.free.cpus[i]),
                mem_mib=old.mem_mib,
                mem_alloc_mib=old.mem_mib - int(self.free.mem[i]),
                gpus=old.gpus,
                gpu_used=used,
                gpu_used_count=used.bit_count(),
                cores_per_socket=old.cores_per_socket,
                partitions=old.partitions,
            )
        self._stale.clear()
        return tuple(self._records)


_IDLE = frozenset({"IDLE"})
_MIXED = frozenset({"MIXED"})


def _node(name: str, group: NodeGroup) -> Node:
    gpus = (GpuGroup(group.gpu_type, mask_of(range(group.gpus))),) if group.gpus else ()
    return Node(
        name=name,
        states=_IDLE,
        cpus=group.cpus,
        cpus_alloc=0,
        mem_mib=group.mem_mib,
        mem_alloc_mib=0,
        gpus=gpus,
        cores_per_socket=group.cpus,
        partitions=(group.partition,),
    )
