"""The inside of one node: GPUs by Slurm index, the links between them, where they are bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from slurm_ext.model.units import GpuMask

from .findings import Finding

_T = TypeVar("_T")

MAX_GPUS = 63
"""GPUs of one node at most: masks must fit a signed 64-bit integer."""


class LinkClass(StrEnum):
    """How two GPUs reach each other, best first (legend of ``nvidia-smi topo -m``)."""

    NVLINK = "NV"  # direct NVLinks, the number is in ``lanes``
    NVSWITCH = "NVS"  # NVLinks through a switch: each GPU's port is shared by all its peers
    PIX = "PIX"  # at most one PCIe bridge
    PXB = "PXB"  # several PCIe bridges, no host bridge
    PHB = "PHB"  # a PCIe host bridge
    NODE = "NODE"  # between host bridges of one NUMA node
    SYS = "SYS"  # between NUMA nodes
    UNKNOWN = "?"


class IndexOrder(StrEnum):
    """Whose numbering the indices of a shape follow.

    Slurm's index is *not* nvidia-smi's by itself: with ``AutoDetect`` it follows the PCI bus
    order, which is nvidia-smi's order too; with hand-written ``File=`` lines it follows the
    lines, and the N of /dev/nvidiaN is a Linux minor number that may differ from both.
    """

    SLURM = "slurm"
    PCI = "pci"

    @property
    def explained(self) -> str:
        if self is IndexOrder.SLURM:
            return "indices are Slurm's (order of the gres.conf lines)"
        return (
            "indices are nvidia-smi's (PCI order): the same as Slurm's with AutoDetect, not "
            "necessarily with File= lines; compare PCI bus ids (slurm-ext topology collect)"
        )


@dataclass(frozen=True, slots=True)
class Speeds:
    """Effective bandwidth per direction in GB/s of each link class, ``lane`` per NVLink.

    NVLink lanes, PCIe x16 (12 for generation 3, doubling with each) and the socket link are the
    constants NCCL plans its rings with (src/graph/topo.h, NCCL 2.29: SM70/SM80_NVLINK_BW 20,
    SM90 20.6, SM100 40.1, PCI_BW 12, SKL_QPI_BW 10, SRP_QPI_BW 22), not peak figures. The steps
    between PIX and SYS are ours: only their order is known, the sizes are assumptions.
    """

    lane: float = 20.0
    pix: float = 24.0
    pxb: float = 22.0
    phb: float = 18.0
    node: float = 14.0
    sys: float = 10.0

    def of(self, kind: LinkClass, lanes: int = 0) -> float:
        match kind:
            case LinkClass.NVLINK | LinkClass.NVSWITCH:
                return max(self.lane * max(1, lanes), self.pix)
            case LinkClass.PIX:
                return self.pix
            case LinkClass.PXB:
                return self.pxb
            case LinkClass.PHB:
                return self.phb
            case LinkClass.NODE:
                return self.node
            case _:
                return self.sys


PCIE3 = Speeds(pix=12.0, pxb=11.0, phb=10.0, node=9.0, sys=8.0)
PCIE4 = Speeds()
PCIE5 = Speeds(lane=20.6, pix=48.0, pxb=44.0, phb=36.0, node=28.0, sys=22.0)
BLACKWELL = replace(PCIE5, lane=40.1)
SPEEDS = MappingProxyType({"pcie3": PCIE3, "pcie4": PCIE4, "pcie5": PCIE5, "blackwell": BLACKWELL})
"""By the names used in options and in the configuration."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link class with its number of NVLinks (0 for the others)."""

    kind: LinkClass
    lanes: int = 0

    def __str__(self) -> str:
        return f"NV{self.lanes}" if self.lanes else str(self.kind)


Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class NodeShape:
    """GPUs 0..n-1 of one node; all matrices are symmetric, n by n.

    ``links[i][j]``: class (the diagonal is UNKNOWN and never read). ``gbps``: bandwidth per
    direction in GB/s, 0 on the diagonal. ``locality[i]``: NUMA node or socket group the GPU is
    bound to, -1 for unknown or any. ``affinity[i]``: CPU list as found, for people.
    ``slurm_links``: the ``Links=`` counts Slurm itself knows, None when it knows none for all
    GPUs (it then ignores links). ``source`` says where this comes from.
    """

    links: tuple[tuple[Link, ...], ...]
    gbps: Matrix
    locality: tuple[int, ...]
    types: tuple[str, ...] = ()
    affinity: tuple[str, ...] = ()
    slurm_links: tuple[tuple[int, ...], ...] | None = None
    order: IndexOrder = IndexOrder.PCI
    source: str = ""
    findings: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.gbps)
        if n > MAX_GPUS or len(self.links) != n or len(self.locality) != n:
            raise ValueError(f"a shape of {n} GPUs with matrices of other sizes")

    @property
    def count(self) -> int:
        return len(self.gbps)

    @property
    def all_mask(self) -> GpuMask:
        return (1 << self.count) - 1

    def of_type(self, gpu_type: str) -> GpuMask:
        """GPUs of a type; all of them for an untyped request or a shape without types."""
        if not gpu_type or not self.types:
            return self.all_mask
        return sum(1 << i for i, t in enumerate(self.types) if t == gpu_type)

    def islands(self) -> tuple[GpuMask, ...]:
        """Sets of at least two GPUs joined by NVLink (directly or over each other)."""
        joined = (LinkClass.NVLINK, LinkClass.NVSWITCH)
        seen, found = 0, list[GpuMask]()
        for start in range(self.count):
            if seen >> start & 1:
                continue
            group, frontier = 1 << start, [start]
            while frontier:
                i = frontier.pop()
                for j in range(self.count):
                    if not group >> j & 1 and self.links[i][j].kind in joined:
                        group |= 1 << j
                        frontier.append(j)
            seen |= group
            if group.bit_count() > 1:
                found.append(group)
        return tuple(found)


def build(
    links: Sequence[Sequence[Link]],
    locality: Sequence[int],
    speeds: Speeds = PCIE4,
    *,
    types: Sequence[str] = (),
    affinity: Sequence[str] = (),
    slurm_links: tuple[tuple[int, ...], ...] | None = None,
    order: IndexOrder = IndexOrder.PCI,
    source: str = "",
    findings: Sequence[Finding] = (),
) -> NodeShape:
    """A shape from its link classes; of two that disagree about a pair the slower one counts."""
    n = len(links)
    gbps = [[0.0] * n for _ in range(n)]
    kinds = [list(row) for row in links]
    for i in range(n):
        for j in range(i):
            a, b = kinds[i][j], kinds[j][i]
            link = min((a, b), key=lambda x: (speeds.of(x.kind, x.lanes), str(x)))
            kinds[i][j] = kinds[j][i] = link
            gbps[i][j] = gbps[j][i] = speeds.of(link.kind, link.lanes)
    return NodeShape(
        links=tuple(map(tuple, kinds)),
        gbps=tuple(map(tuple, gbps)),
        locality=tuple(locality),
        types=tuple(types),
        affinity=tuple(affinity),
        slurm_links=slurm_links,
        order=order,
        source=source,
        findings=tuple(findings),
    )


def permuted(shape: NodeShape, order: Sequence[int]) -> NodeShape:
    """The same node with GPU ``order[i]`` of the old numbering as the new GPU i.

    Use it to bring a shape in nvidia-smi order into Slurm's once the mapping is known.

    :raises ValueError: ``order`` is not a permutation.
    """
    if sorted(order) != list(range(shape.count)):
        raise ValueError(f"not a permutation of {shape.count} GPUs: {order}")

    def square(rows: tuple[tuple[_T, ...], ...]) -> tuple[tuple[_T, ...], ...]:
        return tuple(tuple(rows[i][j] for j in order) for i in order)

    return replace(
        shape,
        links=square(shape.links),
        gbps=square(shape.gbps),
        locality=tuple(shape.locality[i] for i in order),
        types=tuple(shape.types[i] for i in order) if shape.types else (),
        affinity=tuple(shape.affinity[i] for i in order) if shape.affinity else (),
        slurm_links=square(shape.slurm_links) if shape.slurm_links else None,
    )


def twins(shape: NodeShape) -> tuple[int, ...]:
    """Class per GPU; GPUs of one class can be swapped without changing anything.

    A swap of two twins is an automorphism, so sets with the same number of GPUs of each class
    have the same score: this is what keeps searches over subsets small.
    """
    n, cls = shape.count, [-1] * shape.count
    for i in range(n):
        if cls[i] >= 0:
            continue
        cls[i] = i
        for j in range(i + 1, n):
            if cls[j] < 0 and _swappable(shape, i, j):
                cls[j] = i
    return tuple(cls)


def _swappable(shape: NodeShape, i: int, j: int) -> bool:
    if shape.locality[i] != shape.locality[j]:
        return False
    if shape.types and shape.types[i] != shape.types[j]:
        return False
    known = shape.slurm_links
    return all(
        k in (i, j)
        or (
            math.isclose(shape.gbps[i][k], shape.gbps[j][k])
            and shape.links[i][k] == shape.links[j][k]
            and (known is None or (known[i][k] == known[j][k] and known[k][i] == known[k][j]))
        )
        for k in range(shape.count)
    )
