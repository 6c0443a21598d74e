"""Common servers as data, for nodes from which nothing has been gathered yet.

Link layouts are as ``nvidia-smi topo -m`` shows them on such machines (NCCL issues 671, 1505 and
nccl-tests issue 78 show DGX-1, DGX A100 and DGX-2); speeds are those of :class:`shape.Speeds`.
``unknown`` says what the preset cannot know; a gathered shape is always better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .shape import BLACKWELL, PCIE3, PCIE4, PCIE5, Link, LinkClass, NodeShape, Speeds, build

_DGX1_DOUBLE = ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7))
_DGX1_SINGLE = ((0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7))
_PORTS = "NICs and their PCIe switches are not modelled"


@dataclass(frozen=True, slots=True)
class Preset:
    """A server model; ``unknown`` names what is assumed."""

    name: str
    title: str
    shape: NodeShape
    source: str
    unknown: str


def _matrix(
    n: int, link: Callable[[int, int], Link], locality: list[int], speeds: Speeds, name: str
) -> NodeShape:
    links = [
        [Link(LinkClass.UNKNOWN) if i == j else link(min(i, j), max(i, j)) for j in range(n)]
        for i in range(n)
    ]
    direct = tuple(
        tuple(-1 if i == j else (x.lanes if x.kind is LinkClass.NVLINK else 0)
              for j, x in enumerate(row))
        for i, row in enumerate(links)
    )  # fmt: skip
    return build(links, locality, speeds, slurm_links=direct, source=f"preset {name}")


def _switch(n: int, lanes: int, locality: list[int], speeds: Speeds, name: str) -> NodeShape:
    return _matrix(n, lambda i, j: Link(LinkClass.NVSWITCH, lanes), locality, speeds, name)


def _halves(n: int) -> list[int]:
    return [0] * (n // 2) + [1] * (n - n // 2)


def _dgx1(i: int, j: int) -> Link:
    if (i, j) in _DGX1_DOUBLE:
        return Link(LinkClass.NVLINK, 2)
    if (i, j) in _DGX1_SINGLE:
        return Link(LinkClass.NVLINK, 1)
    return Link(LinkClass.NODE if i // 4 == j // 4 else LinkClass.SYS)


def _pcie(n: int, inner: LinkClass) -> Callable[[int, int], Link]:
    """Two sockets; GPUs 2k and 2k+1 under one PCIe switch if ``inner`` says so."""

    def link(i: int, j: int) -> Link:
        if i * 2 // n != j * 2 // n:
            return Link(LinkClass.SYS)
        return Link(inner if i // 2 == j // 2 else LinkClass.NODE)

    return link


def _pairs(n: int, lanes: int) -> Callable[[int, int], Link]:
    def link(i: int, j: int) -> Link:
        if i // 2 == j // 2:
            return Link(LinkClass.NVLINK, lanes)
        return Link(LinkClass.NODE if i * 2 // n == j * 2 // n else LinkClass.SYS)

    return link


_NVL = "which slots are bridged differs from server to server: look at topo -m"
_ALL = (
    Preset(
        "dgx1-v100", "DGX-1, 8 x V100, hybrid cube mesh",
        _matrix(8, _dgx1, _halves(8), PCIE3, "dgx1-v100"),
        "6 NVLink 2 lanes a GPU; layout from NCCL issue 671", _PORTS,
    ),
    Preset(
        "dgx2-v100", "DGX-2, 16 x V100, NVSwitch",
        _switch(16, 6, _halves(16), PCIE3, "dgx2-v100"),
        "NV6 between all GPUs, nccl-tests issue 78", _PORTS,
    ),
    Preset(
        "dgx-a100", "DGX A100 and HGX A100 8-GPU, NVSwitch",
        _switch(8, 12, [3, 3, 1, 1, 7, 7, 5, 5], PCIE4, "dgx-a100"),
        "NV12 between all GPUs, NUMA nodes with NPS=4, NCCL issue 1505 (those of 6, 7 assumed)",
        "HGX boards in other servers have other NUMA nodes; " + _PORTS,
    ),
    Preset(
        "hgx-a100-4", "HGX A100 4-GPU, direct NVLinks",
        _matrix(4, lambda i, j: Link(LinkClass.NVLINK, 4), _halves(4), PCIE4, "hgx-a100-4"),
        "12 NVLink 3 lanes a GPU, four to each of three peers",
        "NUMA nodes differ from server to server; " + _PORTS,
    ),
    Preset(
        "dgx-h100", "DGX H100/H200 and HGX 8-GPU, NVSwitch",
        _switch(8, 18, _halves(8), PCIE5, "dgx-h100"),
        "NV18 between all GPUs",
        "in-switch reduction (NVLS) can exceed a ring and is not modelled; " + _PORTS,
    ),
    Preset(
        "dgx-b200", "DGX B200 and HGX 8-GPU, NVSwitch",
        _switch(8, 18, _halves(8), BLACKWELL, "dgx-b200"),
        "NV18 between all GPUs, NVLink 5",
        "in-switch reduction (NVLS) can exceed a ring and is not modelled; " + _PORTS,
    ),
    Preset(
        "pcie-4", "4 PCIe 4 GPUs on two sockets",
        _matrix(4, _pcie(4, LinkClass.NODE), _halves(4), PCIE4, "pcie-4"),
        "assumption: two GPUs a socket, each at its own host bridge",
        "bridges and the socket link are not known",
    ),
    Preset(
        "pcie-8", "8 PCIe 4 GPUs on two sockets",
        _matrix(8, _pcie(8, LinkClass.PIX), _halves(8), PCIE4, "pcie-8"),
        "assumption: four GPUs a socket, two to a PCIe switch",
        "bridges and the socket link are not known",
    ),
    Preset(
        "nvl-4", "4 PCIe GPUs, bridged in pairs (A100 PCIe, H100 NVL)",
        _matrix(4, _pairs(4, 12), _halves(4), PCIE4, "nvl-4"),
        "12 lanes a bridge set (three bridges)", _NVL,
    ),
    Preset(
        "nvl-8", "8 PCIe GPUs, bridged in pairs (A100 PCIe, H100 NVL)",
        _matrix(8, _pairs(8, 12), _halves(8), PCIE4, "nvl-8"),
        "12 lanes a bridge set (three bridges)", _NVL,
    ),
)  # fmt: skip

PRESETS: Mapping[str, Preset] = MappingProxyType({preset.name: preset for preset in _ALL})
