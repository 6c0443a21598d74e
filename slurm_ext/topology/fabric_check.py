"""Does an allocation keep to its segments? (Slurm's own view of the topology can look right.)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .fabric import Fabric, FabricKind, Unit
from .findings import Finding, note, warning


@dataclass(frozen=True, slots=True)
class SegmentCheck:
    """``counts``: nodes of the job in each block, file order, blocks without any left out.

    ``possible``: a division of the job over blocks that would keep to the segments, as
    (block, nodes), empty if the blocks are too small for it. ``findings`` empty: all is well.
    """

    counts: tuple[tuple[str, int], ...]
    possible: tuple[tuple[str, int], ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return not self.findings


def check_segments(fabric: Fabric, nodes: Sequence[str], segment: int) -> SegmentCheck:
    """Whether nodes of a job with ``--segment`` can be cut into segments inside one block each.

    A job of N nodes has N // segment full segments and, if N is not a multiple, one shorter
    rest. The block is the smallest one (base or aggregated) that a segment fits in by size.
    """
    if segment < 1:
        raise ValueError("a segment has at least one node")
    chosen = tuple(dict.fromkeys(nodes))
    if fabric.kind is not FabricKind.BLOCK:
        finding = note("no_blocks", fabric.name or fabric.kind, "segments need topology/block")
        return SegmentCheck((), (), (finding,))
    blocks = _blocks_for(fabric, segment)
    wanted = set(chosen)
    inside = [(block, sum(1 for n in block.nodes if n in wanted)) for block in blocks]
    counts = tuple((block.name, count) for block, count in inside if count)
    findings: list[Finding] = []
    outside = sorted(wanted - {n for block in blocks for n in block.nodes})
    if outside:
        findings.append(
            warning("outside_fabric", ",".join(outside)[:80], f"{len(outside)} nodes in no block",
                    "Slurm places no segment there: compare topology.conf with the node list")
        )  # fmt: skip
    full, rest = divmod(len(chosen), segment)
    left = [count % segment for _, count in counts if count % segment]
    whole = sum(count // segment for _, count in counts) >= full
    possible = _division(blocks, full, rest, segment)
    if not whole or (rest and left != [rest]):
        shown = "+".join(str(count) for _, count in counts) or "0"
        example = "+".join(str(count) for _, count in possible)
        findings.append(
            warning(
                "segment_violated",
                f"--segment={segment}",
                f"{len(chosen)} nodes stand {shown} in {len(counts)} blocks: "
                f"not {full} segments of {segment} inside one block each",
                f"{example} would keep to it" if example else "no division over the blocks can",
            )
        )
    return SegmentCheck(counts, possible, tuple(findings))


def _blocks_for(fabric: Fabric, segment: int) -> tuple[Unit, ...]:
    for level in range(fabric.levels):
        units = tuple(unit for unit in fabric.units if unit.level == level)
        if any(len(unit.nodes) >= segment for unit in units):
            return units
    return fabric.leaves


def _division(
    blocks: Sequence[Unit], full: int, rest: int, segment: int
) -> tuple[tuple[str, int], ...]:
    """One way to place the segments over whole, empty blocks in file order."""
    found: list[tuple[str, int]] = []
    for block in blocks:
        room = len(block.nodes)
        here = min(full, room // segment)
        full -= here
        count = here * segment
        if rest and not full and room - count >= rest:
            count, rest = count + rest, 0
        if count:
            found.append((block.name, count))
    return () if full or rest else tuple(found)
