"""What the engine asks about links and switches; whoever builds the context answers.

The engine must not know how links are read or scored. It sees bandwidths of GPU sets, and node
sets that lie close together, through these protocols (``slurm_ext.topology`` implements them).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from slurm_ext.model.node import Node
from slurm_ext.model.units import GpuMask, indices_of

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ring:
    """Predicted ring all-reduce bus bandwidth of a placement, GB/s per direction.

    ``best_gbps``: the best that as many GPUs on as many nodes could have on this cluster when it
    is idle. ``bottleneck`` names what limits the placement.
    """

    gbps: float
    best_gbps: float
    bottleneck: str = ""

    @property
    def lost(self) -> float:
        """Share of the best bandwidth that is lost, 0 to 1."""
        return share_lost(self.gbps, self.best_gbps)


def share_lost(gbps: float, best_gbps: float) -> float:
    """Share of the best bandwidth that is lost, 0 to 1; nothing where the best is not known."""
    return max(0.0, 1.0 - gbps / best_gbps) if best_gbps > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Ask:
    """GPUs of one job on one node: ``per`` is how they were asked for (node, task or job)."""

    count: int
    cores: int
    type: str = ""
    per: str = "node"


class TopologyView(Protocol):
    """Answers for the nodes of one pool, by their position there.

    Masks of free GPUs are int64 arrays beside ``nodes``; a node whose shape is not known never
    loses anything.
    """

    def loss(self, nodes: IntArray, free: IntArray, gpus: IntArray, *, several: bool) -> FloatArray:
        """Share of bandwidth (0 to 1) that ``gpus`` of the ``free`` GPUs probably lose.

        Measured against the best set of that size on any of the nodes. ``several``: the job
        spans nodes, so that links faster than a node's uplink count no more than that.
        """
        ...

    def broken(self, nodes: IntArray, free: IntArray, gpus: IntArray) -> IntArray:
        """GPUs left over in link islands that are whole now and would not be any more."""
        ...

    def predicted(self, nodes: IntArray, free: IntArray, gpus: IntArray) -> FloatArray:
        """GB/s inside each node of the GPUs Slurm will probably take; inf where unknown."""
        ...

    def ring(
        self, nodes: IntArray, inside: FloatArray, gpus: IntArray, crossing: Mapping[str, int]
    ) -> Ring | None:
        """The score of a placement from the bandwidth ``inside`` each node; None: unknown."""
        ...

    def ring_within(self, node: int, mask: GpuMask) -> Ring | None:
        """The same of exactly these GPUs of one node."""
        ...

    def lost(
        self, nodes: IntArray, inside: FloatArray, gpus: IntArray, crossing: Mapping[str, int]
    ) -> float:
        """``Ring.lost`` of that ring, 0 where unknown: asked of many placements."""
        ...

    def score(self, node: int, mask: GpuMask) -> float:
        """GB/s of exactly these GPUs; inf for one GPU or an unknown shape."""
        ...

    def uplinks(self, nodes: IntArray) -> tuple[str, ...]:
        """Names of the uplinks a job on these nodes sends through (none for one node)."""
        ...

    def spread(self, nodes: IntArray) -> int:
        """Switches or blocks, on all levels, that a job on these nodes has to leave."""
        ...

    def regions(self, ranked: IntArray, count: int) -> list[IntArray]:
        """Parts of a ranking, each close together and with at least ``count`` nodes."""
        ...

    def cores(
        self, node: int, free: GpuMask, ask: Ask, free_cores: Mapping[int, int] | None
    ) -> Mapping[int, int]:
        """Cores that Slurm will probably give on each socket; empty: unknown."""
        ...

    def pick(
        self, node: int, free: GpuMask, ask: Ask, free_cores: Mapping[int, int] | None
    ) -> GpuMask:
        """The GPUs Slurm will probably take; 0 if there are too few."""
        ...


class Topology(Protocol):
    """A site's links and switches, a frozen value; may be asked about any set of nodes."""

    def on(self, nodes: Sequence[Node]) -> TopologyView:
        """Answers for these nodes, in this order."""
        ...


class Unknown:
    """Nothing is known: no loss, no regions, the lowest free GPUs."""

    def on(self, nodes: Sequence[Node]) -> TopologyView:
        return self

    def loss(self, nodes: IntArray, free: IntArray, gpus: IntArray, *, several: bool) -> FloatArray:
        return np.zeros(len(nodes))

    def broken(self, nodes: IntArray, free: IntArray, gpus: IntArray) -> IntArray:
        return np.zeros(len(nodes), dtype=np.int64)

    def predicted(self, nodes: IntArray, free: IntArray, gpus: IntArray) -> FloatArray:
        return np.full(len(nodes), np.inf)

    def ring(
        self, nodes: IntArray, inside: FloatArray, gpus: IntArray, crossing: Mapping[str, int]
    ) -> Ring | None:
        return None

    def ring_within(self, node: int, mask: GpuMask) -> Ring | None:
        return None

    def lost(
        self, nodes: IntArray, inside: FloatArray, gpus: IntArray, crossing: Mapping[str, int]
    ) -> float:
        return 0.0

    def score(self, node: int, mask: GpuMask) -> float:
        return np.inf

    def uplinks(self, nodes: IntArray) -> tuple[str, ...]:
        return ()

    def spread(self, nodes: IntArray) -> int:
        return 0

    def regions(self, ranked: IntArray, count: int) -> list[IntArray]:
        return []

    def cores(
        self, node: int, free: GpuMask, ask: Ask, free_cores: Mapping[int, int] | None
    ) -> Mapping[int, int]:
        return {}

    def pick(
        self, node: int, free: GpuMask, ask: Ask, free_cores: Mapping[int, int] | None
    ) -> GpuMask:
        return lowest(free, ask.count)


def lowest(free: GpuMask, count: int) -> GpuMask:
    """The lowest ``count`` GPUs of a mask; 0 if there are fewer."""
    indices = indices_of(free)
    return sum(1 << i for i in indices[:count]) if 0 < count <= len(indices) else 0


UNKNOWN = Unknown()
