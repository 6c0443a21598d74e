"""topology.yaml(5), Slurm 25.05 and later: several named topologies in one file."""

from __future__ import annotations

from dataclasses import dataclass

from .fabric import Fabric, FabricKind
from .fabric_text import Block, Switch, make_blocks, make_tree
from .findings import Finding, TopologyError, note, warning
from .lines import hosts, number
from .yaml_subset import Map, Scalar, Seq, Value, read_yaml

SOURCE = "topology.yaml"
_TRUE = frozenset({"true", "yes", "on", "y"})
_FALSE = frozenset({"false", "no", "off", "n", ""})
_KINDS = ("tree", "block", "flat", "ring", "torus3d")


@dataclass(frozen=True, slots=True)
class Topologies:
    """All topologies of the file in order; ``default`` is the index of the cluster's default.

    Slurm takes the first with ``cluster_default: true``; None if there is none.
    """

    fabrics: tuple[Fabric, ...]
    default: int | None

    def pick(self, name: str = "") -> Fabric:
        """The topology of that name (a partition's ``Topology=``), or the default one.

        :raises TopologyError: no such topology.
        """
        if name:
            for fabric in self.fabrics:
                if fabric.name == name:
                    return fabric
            known = ", ".join(fabric.name for fabric in self.fabrics)
            raise TopologyError(
                SOURCE, 0, f"no topology named {name[:60]}", f"known: {known[:200]}"
            )
        return self.fabrics[self.default if self.default is not None else 0]


def parse_topology_yaml(text: str, source: str = SOURCE) -> Topologies:
    """Read a topology.yaml.

    :raises TopologyError: not the YAML subset that is understood, or not of this form.
    """
    top = read_yaml(text, source)
    if not isinstance(top, Seq) or not top.items:
        raise TopologyError(source, 0, "no list of topologies", "start with `- topology: NAME`")
    fabrics: list[Fabric] = []
    default = None
    for item in top.items:
        entry = _map(item, source)
        name = _text(entry, "topology", source)
        if not name or any(f.name == name for f in fabrics):
            raise TopologyError(source, entry.line, "topology: no name, or one used before",
                                "give each a name of its own")  # fmt: skip
        if default is None and _flag(entry, "cluster_default", source):
            default = len(fabrics)
        fabrics.append(_fabric(entry, name, source))
    return Topologies(tuple(fabrics), default)


def _fabric(entry: Map, name: str, source: str) -> Fabric:
    findings: list[Finding] = [
        note("unknown_key", key[:60], "key not known to us, ignored", line=entry.line)
        for key in sorted(entry.items.keys() - {*_KINDS, "topology", "cluster_default"})
    ]
    kinds = [kind for kind in _KINDS if kind in entry.items]
    if len(kinds) != 1:
        raise TopologyError(
            source, entry.line, f"topology {name[:60]} has {len(kinds)} types",
            "exactly one of tree, block, flat",
        )  # fmt: skip
    kind = kinds[0]
    if kind in ("ring", "torus3d"):
        findings.append(warning("unsupported", name, f"topology/{kind} is not modelled"))
    if kind not in ("tree", "block"):
        return Fabric(FabricKind.FLAT, name=name, findings=tuple(findings))
    body = _map(entry.items[kind], source)
    if kind == "tree":
        switches = []
        for item in _list(body, "switches", source):
            unit = _map(item, source)
            nodes, line = _names(unit, "nodes", source), unit.line
            switches.append(
                Switch(_name(unit, "switch", source), nodes, _names(unit, "children", source), line)
            )
        return make_tree(switches, source, name=name, findings=findings)
    blocks = []
    for item in _list(body, "blocks", source):
        unit = _map(item, source)
        blocks.append(Block(_name(unit, "block", source), _names(unit, "nodes", source), unit.line))
    sizes = [
        number(_scalar(item, source), source, item.line, "block_sizes", upper=1 << 20)
        for item in _list(body, "block_sizes", source)
    ]
    return make_blocks(blocks, sorted(set(sizes)), source, name=name, findings=findings)


def _map(value: Value, source: str) -> Map:
    if not isinstance(value, Map):
        raise TopologyError(source, value.line, "expected key: value pairs", "see topology.yaml(5)")
    return value


def _list(body: Map, key: str, source: str) -> tuple[Value, ...]:
    value = body.items.get(key)
    if value is None or (isinstance(value, Scalar) and not value.text):
        return ()
    if not isinstance(value, Seq):
        raise TopologyError(source, value.line, f"{key} is not a list", "one `- ` line for each")
    return value.items


def _scalar(value: Value, source: str) -> str:
    if not isinstance(value, Scalar):
        raise TopologyError(source, value.line, "expected one value", "see topology.yaml(5)")
    return value.text


def _text(body: Map, key: str, source: str) -> str:
    value = body.items.get(key)
    return "" if value is None else _scalar(value, source)


def _name(unit: Map, key: str, source: str) -> str:
    name = _text(unit, key, source)
    if not name:
        raise TopologyError(source, unit.line, f"an entry without `{key}:`", "name it")
    return name[:200]


def _names(unit: Map, key: str, source: str) -> tuple[str, ...]:
    return hosts(_text(unit, key, source), source, unit.line, key)


def _flag(body: Map, key: str, source: str) -> bool:
    text = _text(body, key, source).lower()
    if text not in _TRUE | _FALSE:
        raise TopologyError(source, body.line, f"{key}: {text[:20]!r}", "write true or false")
    return text in _TRUE
