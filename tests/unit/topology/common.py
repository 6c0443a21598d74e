"""Fixture access and a short way to write shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from slurm_ext.topology.shape import PCIE4, Link, LinkClass, NodeShape, Speeds, build

FIXTURES = Path(__file__).parents[2] / "fixtures" / "topology"


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def shape_of(
    n: int,
    pairs: Mapping[tuple[int, int], Link],
    *,
    locality: Sequence[int] | None = None,
    links: bool = False,
    speeds: Speeds = PCIE4,
) -> NodeShape:
    """GPUs with the links given (lower index first), SYS for the rest.

    ``links``: let Slurm know the NVLink counts.
    """
    rows = [
        [pairs.get((min(i, j), max(i, j)), Link(LinkClass.SYS)) for j in range(n)] for i in range(n)
    ]
    known = tuple(
        tuple(-1 if i == j else link.lanes for j, link in enumerate(row))
        for i, row in enumerate(rows)
    )
    place = locality if locality is not None else [-1] * n
    return build(rows, place, speeds, slurm_links=known if links else None)


NV = LinkClass.NVLINK
TWO_ISLANDS = shape_of(
    8,
    {(i, j): Link(LinkClass.PIX) for i in range(8) for j in range(i + 1, 8) if i // 4 == j // 4},
    locality=[0] * 4 + [1] * 4,
)
"""Peers 0-3 and 4-7, everything else across sockets (case A18)."""
