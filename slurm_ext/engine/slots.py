"""GPUs by index and cores by socket: what is in use on each node, and what Slurm will pick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slurm_ext.model.job import NodeShare
from slurm_ext.model.node import Node
from slurm_ext.model.units import GpuMask

from .topology import UNKNOWN, Ask, IntArray, TopologyView, lowest

_WIDEST = 62
"""GPUs of a node at most whose mask fits a signed 64-bit integer (MIG may have more slices)."""


class Slots:
    """Indices in use, by the position of the node in the pool.

    ``crossing``: uplink -> number of jobs that send through it. ``free`` as an int64 array, -1
    for nodes with too many GPUs: those count as unknown. ``busy``: ``used`` as an array.
    """

    def __init__(self, nodes: Sequence[Node], view: TopologyView) -> None:
        self.view = view
        self._nodes = nodes
        self._index = {node.name: i for i, node in enumerate(nodes)}
        self.used: list[GpuMask] = [n.gpu_used | n.gpu_shared for n in nodes]
        self.crossing: dict[str, int] = {}
        self._opaque: set[int] = set()  # nodes where jobs hold CPUs, but it is not known which
        self._shares: dict[int, tuple[NodeShare, ...]] = {}
        self._of_type: dict[str, list[GpuMask]] = {}
        self._arrays: dict[str, IntArray] = {}
        self.busy = self._array(self.used)

    def _array(self, masks: Sequence[GpuMask]) -> IntArray:
        return np.array([m if m >> _WIDEST == 0 else 0 for m in masks], dtype=np.int64)

    def take(self, shares: Sequence[NodeShare], *, running: bool = False) -> None:
        """One job's shares are in use from now on; ``running``: Slurm has given them already."""
        where = []
        for share in shares:
            i = self._index.get(share.node)
            if i is None:
                continue
            where.append(i)
            if running and share.cpus and not share.cpu_ids:
                self._opaque.add(i)
            self._shares[i] = (*self._shares.get(i, ()), share)
            if share.gpu_mask:
                self.used[i] |= share.gpu_mask
                if self.used[i] >> _WIDEST == 0:
                    self.busy[i] = self.used[i]
        if len(where) > 1:
            for name in self.view.uplinks(np.array(where, dtype=np.int64)):
                self.crossing[name] = self.crossing.get(name, 0) + 1

    def checkpoint(self) -> tuple[object, ...]:
        """State for :meth:`rollback`."""
        return list(self.used), self.busy.copy(), dict(self.crossing), dict(self._shares)

    def rollback(self, state: tuple[object, ...]) -> None:
        self.used, self.busy, self.crossing, self._shares = state  # type: ignore[assignment]

    # -- reading -----------------------------------------------------------------------

    def _masks(self, gpu_type: str) -> list[GpuMask]:
        """GPUs of a type on each node, all of them for an untyped request."""
        found = self._of_type.get(gpu_type)
        if found is None:
            found = [
                sum(g.mask for g in n.gpus if not gpu_type or g.type == gpu_type)
                for n in self._nodes
            ]
            self._of_type[gpu_type] = found
            wide = [-1 if m >> _WIDEST else m for m in found]
            self._arrays[gpu_type] = np.array(wide, dtype=np.int64)
        return found

    def free(self, nodes: IntArray, gpu_type: str) -> IntArray:
        """Masks of the free GPUs of a type on some nodes; -1 for a node with too many."""
        self._masks(gpu_type)
        whole = self._arrays[gpu_type][nodes]
        return np.where(whole < 0, -1, whole & ~self.busy[nodes])

    def pick(self, i: int, ask: Ask) -> GpuMask:
        """The GPU indices Slurm probably takes on node ``i``; 0 if there are too few.

        A prediction only: no option of Slurm names indices.
        """
        free = self._masks(ask.type)[i] & ~self.used[i]
        if self.view is UNKNOWN:
            return lowest(free, ask.count)
        return self.view.pick(i, free, ask, self._free_cores(i))

    def _free_cores(self, i: int) -> Mapping[int, int] | None:
        """Free cores by socket; None if jobs hold CPUs there and it is not known which."""
        if i in self._opaque:
            return None
        node = self._nodes[i]
        per_socket = node.cores_per_socket
        left = dict.fromkeys(range(node.sockets), per_socket)
        threads = max(1, node.threads_per_core)
        busy = 0
        for share in self._shares.get(i, ()):
            if share.cpu_ids:
                for first, last in share.cpu_ids:
                    for core in range(first // threads, last // threads + 1):
                        socket = core // per_socket
                        if socket not in left:
                            return None
                        left[socket] -= 1
                        busy += 1
                continue
            ask = Ask(share.gpus, -(-share.cpus // threads), share.gpu_type)
            taken = self.view.cores(i, share.gpu_mask, ask, left) if share.gpu_mask else {}
            if not taken and share.cpus:
                return None
            for socket, count in taken.items():
                left[socket] = max(0, left.get(socket, 0) - count)
            busy += ask.cores
        # A node whose record shows more than its jobs explain is not understood.
        return left if busy * threads >= node.cpus_alloc else None
