"""topology.conf(5) and the output of ``scontrol show topology`` -> Fabric.

Both are lines of ``key=value``. topology.conf gives a switch its ``Nodes=`` or ``Switches=``;
scontrol prints ``SwitchName= Level= LinkSpeed= Nodes= Switches=`` with *all* nodes below, blocks
as ``BlockName= BlockIndex= Nodes=`` (from 24.11 with ``BlockSize=`` and higher blocks as
``AggregatedBlock=``). Since 25.05 only the arguments of the command differ, not these lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from .fabric import Fabric, FabricKind, Unit, aggregated, flat
from .findings import Finding, TopologyError, note, warning
from .lines import ConfLine, hosts, logical_lines, number, pairs_of

SOURCE = "topology"
_NOTHING = re.compile(r"(scontrol: |slurm_\w+: )?(error: )?No topology information available", re.I)
_HEADS = ("switchname", "blockname", "aggregatedblock", "ringname")
_KEYS = frozenset(
    {*_HEADS, "nodes", "switches", "level", "linkspeed", "blockindex", "blocksize", "blocksizes"}
)
MAX_LEVELS = 32


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch as written, before levels are known."""

    name: str
    nodes: tuple[str, ...]
    children: tuple[str, ...]
    line: int
    link_speed: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    name: str
    nodes: tuple[str, ...]
    line: int


def parse_topology(text: str, source: str = SOURCE) -> Fabric:
    """Read topology.conf or what ``scontrol show topology`` prints.

    :raises TopologyError: with the line that cannot be read, or when the whole makes no sense.
    """
    switches: list[Switch] = []
    blocks: list[Block] = []
    sizes: list[int] = []
    findings: list[Finding] = []
    for line in logical_lines(text):
        if _NOTHING.fullmatch(line.text):
            return flat(findings=[note("no_topology", source, "Slurm has no topology configured")])
        pairs = pairs_of(line, source)
        findings.extend(
            note("unknown_key", key, "key not known to us, ignored", line=line.number)
            for key in sorted(pairs.keys() - _KEYS)
        )
        _read_line(line, pairs, source, switches, blocks, sizes, findings)
    if switches and (blocks or sizes):
        raise TopologyError(
            source, 0, "both switches and blocks", "read one topology at a time (topology.yaml)"
        )
    if blocks:
        return make_blocks(blocks, sorted(set(sizes)), source, findings=findings)
    if sizes:
        raise TopologyError(source, 0, "BlockSizes= without a block", "add BlockName= lines")
    if switches:
        return make_tree(switches, source, findings=findings)
    if not findings:
        findings.append(warning("empty", source, "no switch and no block in this text"))
    return flat(findings=findings)


def _read_line(
    line: ConfLine,
    pairs: dict[str, str],
    source: str,
    switches: list[Switch],
    blocks: list[Block],
    sizes: list[int],
    findings: list[Finding],
) -> None:
    at = line.number
    heads = [key for key in _HEADS if key in pairs]
    if len(heads) > 1 or (heads and not pairs[heads[0]]):
        raise TopologyError(source, at, "a line needs exactly one name", "one unit a line")
    if "blocksizes" in pairs:
        sizes.extend(number(part.strip(), source, at, "BlockSizes", upper=1 << 20)
                     for part in pairs["blocksizes"].split(","))  # fmt: skip
    if "blocksize" in pairs:
        sizes.append(number(pairs["blocksize"], source, at, "BlockSize", upper=1 << 20))
    if not heads:
        if "blocksizes" not in pairs:
            raise TopologyError(
                source, at, "neither SwitchName= nor BlockName=", "start the line with one of them"
            )
        return
    name, kind = pairs[heads[0]][:200], heads[0]
    nodes = hosts(pairs.get("nodes", ""), source, at)
    if kind == "ringname":
        findings.append(warning("unsupported", name, "topology/ring is not modelled", line=at))
    elif kind == "switchname":
        children = hosts(pairs.get("switches", ""), source, at, "Switches")
        # scontrol repeats the nodes of all levels below: only a leaf's own count.
        shown = "level" in pairs and children
        speed = number(pairs.get("linkspeed") or "0", source, at, "LinkSpeed", upper=1 << 29)
        switches.append(Switch(name, () if shown else nodes, children, at, speed))
    elif kind == "blockname":
        blocks.append(Block(name, nodes, at))
    # AggregatedBlock lines are formed again from the sizes.


def make_blocks(
    blocks: list[Block],
    sizes: list[int],
    source: str,
    *,
    name: str = "",
    findings: list[Finding] | None = None,
) -> Fabric:
    """A block fabric; sizes ascending, base size first.

    :raises TopologyError: a block named twice, or a size of 0.
    """
    found = findings if findings is not None else []
    _unique([(b.name, b.line) for b in blocks], source)
    if 0 in sizes:
        raise TopologyError(source, 0, "a block size of 0", "the base size is at least 1 node")
    base = [Unit(block.name, 0, block.nodes) for block in blocks]
    found.extend(_double_nodes(base))
    for block in base:
        if not block.nodes:
            found.append(note("empty_unit", block.name, "no node in this block"))
        elif sizes and len(block.nodes) < sizes[0]:
            found.append(
                warning("small_block", block.name,
                        f"{len(block.nodes)} nodes, the base size is {sizes[0]}",
                        "add nodes or lower the first of BlockSizes")
            )  # fmt: skip
    for lower, upper in pairwise(sizes):
        ratio, rest = divmod(upper, lower)
        if rest or ratio & (ratio - 1):
            found.append(
                warning("block_sizes", f"{lower},{upper}",
                        "each size must be the one before times a power of two")
            )  # fmt: skip
    units = aggregated(base, sizes)
    return Fabric(FabricKind.BLOCK, units, tuple(sizes), name, tuple(found))


def make_tree(
    switches: list[Switch],
    source: str,
    *,
    name: str = "",
    findings: list[Finding] | None = None,
) -> Fabric:
    """A tree of switches; levels are worked out from the leaves up.

    :raises TopologyError: a switch named twice, a child that does not exist, a loop.
    """
    found = findings if findings is not None else []
    _unique([(s.name, s.line) for s in switches], source)
    named = {switch.name: switch for switch in switches}
    parents: dict[str, str] = {}
    for switch in switches:
        for child in switch.children:
            if child not in named:
                raise TopologyError(
                    source, switch.line, f"switch {switch.name} has an unknown child {child[:60]}",
                    f"add a line SwitchName={child[:60]}",
                )  # fmt: skip
            if parents.setdefault(child, switch.name) != switch.name:
                found.append(
                    warning("two_parents", child, f"below {parents[child]} and {switch.name}",
                            "a tree has one way up", switch.line)
                )  # fmt: skip
    levels = _levels(named, source)
    below: dict[str, tuple[str, ...]] = {}
    for switch in sorted(switches, key=lambda s: levels[s.name]):
        nodes = dict.fromkeys(switch.nodes)
        for child in switch.children:
            nodes.update(dict.fromkeys(below[child]))
        below[switch.name] = tuple(nodes)
    units = [Unit(s.name, levels[s.name], below[s.name], s.children, s.link_speed)
             for s in switches]  # fmt: skip
    units.sort(key=lambda u: u.level)  # stable: file order within a level
    found.extend(_double_nodes([u for u in units if u.level == 0]))
    for switch in switches:
        if not switch.nodes and not switch.children:
            found.append(note("empty_unit", switch.name, "neither nodes nor switches below",
                              line=switch.line))  # fmt: skip
    roots = [s.name for s in switches if s.name not in parents]
    if len(roots) > 1:
        found.append(
            warning("several_roots", ",".join(roots)[:80],
                    "these parts are not joined: Slurm starts no job across them",
                    "add a switch above them if they are cabled together")
        )  # fmt: skip
    return Fabric(FabricKind.TREE, tuple(units), (), name, tuple(found))


def _levels(named: dict[str, Switch], source: str) -> dict[str, int]:
    """Height above the lowest switches, without recursion (a file may nest deeply)."""
    levels: dict[str, int] = {}
    waiting = list(named.values())
    for _ in range(MAX_LEVELS):
        done: dict[str, int] = {}
        later = []
        for switch in waiting:
            if all(child in levels for child in switch.children):
                done[switch.name] = 1 + max((levels[c] for c in switch.children), default=-1)
            else:
                later.append(switch)
        levels.update(done)
        waiting = later
        if not waiting or not done:
            break
    if waiting:
        raise TopologyError(
            source, waiting[0].line,
            f"switch {waiting[0].name[:60]} is below itself, or more than {MAX_LEVELS} levels",
            "a tree has no loops",
        )  # fmt: skip
    return levels


def _unique(names: list[tuple[str, int]], source: str) -> None:
    seen: set[str] = set()
    for name, line in names:
        if name in seen:
            raise TopologyError(source, line, f"{name[:60]} is defined twice", "rename one of them")
        seen.add(name)


def _double_nodes(leaves: list[Unit]) -> list[Finding]:
    owner: dict[str, str] = {}
    return [
        warning("node_twice", node, f"in {owner[node]} and in {unit.name}",
                "the first one counts here; correct the file")
        for unit in leaves
        for node in unit.nodes
        if owner.setdefault(node, unit.name) != unit.name
    ]  # fmt: skip
