"""What lies between nodes: switches (tree) or blocks, and the bandwidth of their uplinks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from .findings import Finding
from .ring import Uplink


class FabricKind(StrEnum):
    """Slurm's topology plugins as far as they are modelled; FLAT: nothing is known."""

    FLAT = "flat"
    TREE = "tree"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Unit:
    """A switch or a block. ``level`` 0 holds nodes; ``children`` are unit names one level down.

    ``nodes``: all nodes below. ``link_speed`` as written in the file (arbitrary units, Slurm
    does not use it and neither do we).
    """

    name: str
    level: int
    nodes: tuple[str, ...]
    children: tuple[str, ...] = ()
    link_speed: int = 0


@dataclass(frozen=True, slots=True)
class Rates:
    """Bandwidth of uplinks per direction in GB/s; no file says it, the site must.

    ``node_gbps``: all NICs of one node together (25 = one port of 200 Gb/s).
    ``oversubscription[l]``: what the nodes below a unit of level l could send, divided by what
    the unit can send upwards (1 = non-blocking; the last value holds for the levels above).
    ``block_gbps``: between nodes of one block where that is an NVLink domain (GB200 NVL72: 18
    lanes of 40.1 for each of 4 GPUs); 0: by the NICs.
    """

    node_gbps: float = 25.0
    oversubscription: tuple[float, ...] = (1.0,)
    block_gbps: float = 0.0

    def __post_init__(self) -> None:
        numbers = (self.node_gbps, *self.oversubscription)
        if not self.oversubscription or not all(0 < x < math.inf for x in numbers):
            raise ValueError("bandwidths and oversubscription must be greater than 0")
        if not 0 <= self.block_gbps < math.inf:
            raise ValueError("block_gbps must not be negative")

    def upward(self, level: int, nodes: int) -> float:
        """Uplink of a unit of ``level`` with ``nodes`` nodes below it."""
        ratio = self.oversubscription[min(level, len(self.oversubscription) - 1)]
        return self.node_gbps * nodes / ratio


DEFAULT_RATES = Rates()


@dataclass(frozen=True, slots=True)
class Fabric:
    """Units by level, lowest first. ``block_sizes``: as configured, base size first.

    Blocks of one level are aggregated by Slurm in the order of the file: with sizes 4,16 the
    first four base blocks form the first higher one, and so on.
    """

    kind: FabricKind
    units: tuple[Unit, ...] = ()
    block_sizes: tuple[int, ...] = ()
    name: str = ""
    findings: tuple[Finding, ...] = ()
    _paths: Mapping[str, tuple[str, ...]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _named: Mapping[str, Unit] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        named = {unit.name: unit for unit in self.units}
        paths: dict[str, list[str]] = {}
        for unit in sorted(self.units, key=lambda u: u.level):
            for node in unit.nodes:
                path = paths.setdefault(node, [])
                # One unit a level: of two that claim a node the first counts (and is reported).
                if not path or named[path[-1]].level < unit.level:
                    path.append(unit.name)
        object.__setattr__(self, "_named", named)
        object.__setattr__(self, "_paths", {node: tuple(path) for node, path in paths.items()})

    @property
    def leaves(self) -> tuple[Unit, ...]:
        return tuple(unit for unit in self.units if unit.level == 0)

    @property
    def levels(self) -> int:
        """Number of levels of units (0 for a flat fabric)."""
        return max((unit.level for unit in self.units), default=-1) + 1

    def unit(self, name: str) -> Unit | None:
        return self._named.get(name)

    def path(self, node: str) -> tuple[str, ...]:
        """Units above a node, lowest first; empty if the fabric does not know it."""
        return self._paths.get(node, ())

    def leaf(self, node: str) -> str:
        """The lowest unit above a node, empty if unknown."""
        path = self.path(node)
        return path[0] if path else ""

    def crossed(
        self,
        nodes: Iterable[str],
        rates: Rates = DEFAULT_RATES,
        jobs: Mapping[str, int] | None = None,
    ) -> tuple[Uplink, ...]:
        """The uplinks a ring through these nodes passes, with the jobs already on each.

        A ring that visits the nodes unit by unit leaves every unit that does not hold them all
        once and enters it once: these are the uplinks of the nodes themselves (if they are
        several) and of the units below the lowest common one. Nothing for one node.
        """
        chosen = tuple(dict.fromkeys(nodes))
        if len(chosen) < 2:
            return ()
        crossing = jobs or {}
        inside = self._in_one_block(chosen)
        node_gbps = rates.block_gbps if inside and rates.block_gbps else rates.node_gbps
        found = [Uplink(node, node_gbps, crossing.get(node, 0)) for node in chosen]
        if not inside:
            members: dict[str, set[str]] = {}
            for node in chosen:
                for name in self.path(node):
                    members.setdefault(name, set()).add(node)
            for name, below in members.items():
                unit = self._named[name]
                if len(below) < len(chosen):
                    gbps = rates.upward(unit.level, len(unit.nodes))
                    found.append(Uplink(name, gbps, crossing.get(name, 0)))
        return tuple(found)

    def _in_one_block(self, nodes: Sequence[str]) -> bool:
        return (
            self.kind is FabricKind.BLOCK
            and len({self.leaf(node) for node in nodes}) == 1
            and bool(self.leaf(nodes[0]))
        )


def flat(nodes: Iterable[str] = (), findings: Sequence[Finding] = ()) -> Fabric:
    """A fabric of which nothing is known: all nodes hang on one unit, or on none."""
    names = tuple(nodes)
    units = (Unit("all", 0, names),) if names else ()
    return Fabric(FabricKind.FLAT, units, findings=tuple(findings))


def aggregated(blocks: Sequence[Unit], sizes: Sequence[int]) -> tuple[Unit, ...]:
    """Base blocks followed by the higher blocks that Slurm forms of neighbours in file order.

    A size of n times the base size takes n base blocks; what is left at the end forms a smaller
    one. Slurm names them by their members.
    """
    found = list(blocks)
    if not sizes or sizes[0] <= 0:
        return tuple(found)
    for level, size in enumerate(sizes[1:], start=1):
        width = size // sizes[0]
        if width < 2:
            continue
        for start in range(0, len(blocks), width):
            members = blocks[start : start + width]
            found.append(
                Unit(
                    f"[{members[0].name}..{members[-1].name}]@{level}",
                    level,
                    tuple(node for block in members for node in block.nodes),
                    tuple(block.name for block in members),
                )
            )
    return tuple(found)
