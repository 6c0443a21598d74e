"""gres.conf text -> NodeShape per group of nodes (gres.conf(5))."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .findings import Finding, TopologyError, note, warning
from .lines import ConfLine, hosts, logical_lines, number, pairs_of, ranges
from .shape import MAX_GPUS, PCIE4, IndexOrder, Link, LinkClass, NodeShape, Speeds, build

SOURCE = "gres.conf"
_KNOWN = frozenset(
    {"nodename", "name", "type", "file", "multiplefiles", "cores", "cpus", "links", "count",
     "flags", "autodetect"}
)  # fmt: skip
_INCLUDE = re.compile(r"include\s+(\S.*)", re.IGNORECASE)
_LINK_COUNT = re.compile(r"-1|[0-9]{1,4}")
_SUFFIX = re.compile(r"([0-9]{1,9})[KMGTP]?", re.IGNORECASE)
_MAX_NODES = 200_000


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU of a gres.conf line; ``file`` empty if the line has only a count."""

    type: str
    file: str
    cores: frozenset[int] | None
    cores_text: str
    links: tuple[int, ...] | None
    line: int


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that the file describes alike; ``nodes`` empty: every node not named elsewhere.

    ``shape`` None: the file names no GPU here (AutoDetect finds them on the node).
    """

    nodes: tuple[str, ...]
    autodetect: str
    shape: NodeShape | None


@dataclass(frozen=True, slots=True)
class GresConf:
    """A whole gres.conf; ``includes`` were named but not read; ``other`` are non-GPU GRES."""

    groups: tuple[NodeGroup, ...]
    includes: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    def shape_of(self, node: str) -> NodeShape | None:
        """The shape of a node by name (the general group if it is not named)."""
        general = None
        for group in self.groups:
            if node in group.nodes:
                return group.shape
            if not group.nodes:
                general = group.shape
        return general


@dataclass(frozen=True, slots=True)
class _Entry:
    nodes: tuple[str, ...]
    autodetect: str
    devices: tuple[Device, ...]


def parse_gres_conf(text: str, speeds: Speeds = PCIE4) -> GresConf:
    """Read a gres.conf. Slurm's GPU index is the position in the order of the lines.

    :raises TopologyError: with the line that cannot be read.
    """
    entries: list[_Entry] = []
    includes: list[str] = []
    other: set[str] = set()
    findings: list[Finding] = []
    for line in logical_lines(text):
        if match := _INCLUDE.fullmatch(line.text):
            includes.append(match.group(1)[:200])
            findings.append(
                note("include", match.group(1)[:60], "included file is not followed",
                     "give that file too", line.number)
            )  # fmt: skip
            continue
        pairs = pairs_of(line, SOURCE)
        findings.extend(
            note("unknown_key", key, "key not known to us, ignored", line=line.number)
            for key in sorted(pairs.keys() - _KNOWN)
        )
        entry = _entry(line, pairs, other, findings)
        if entry is not None:
            entries.append(entry)
    if sum(len(e.nodes) for e in entries) > _MAX_NODES:
        raise TopologyError(SOURCE, 0, f"more than {_MAX_NODES} node names", "split the file")
    groups = _groups(entries, speeds, findings)
    return GresConf(tuple(groups), tuple(includes), tuple(sorted(other)), tuple(findings))


def _entry(
    line: ConfLine, pairs: dict[str, str], other: set[str], findings: list[Finding]
) -> _Entry | None:
    nodes = hosts(pairs.get("nodename", ""), SOURCE, line.number, "NodeName")
    if "nodename" in pairs and not nodes:
        raise TopologyError(
            SOURCE, line.number, "NodeName= without a node", "name a node or leave it out"
        )
    detect = pairs.get("autodetect", "").lower()
    name = pairs.get("name", "").lower()
    if not name:
        if not detect:
            raise TopologyError(
                SOURCE, line.number, "neither Name= nor AutoDetect=", "add Name=gpu"
            )
        return _Entry(nodes, detect, ())
    if name != "gpu":
        other.add(name)
        return _Entry(nodes, detect, ()) if detect else None
    if detect and detect != "off" and "file" not in pairs and "multiplefiles" not in pairs:
        return _Entry(nodes, detect, ())
    return _Entry(nodes, detect, _devices(line, pairs, findings))


def _devices(line: ConfLine, pairs: dict[str, str], findings: list[Finding]) -> tuple[Device, ...]:
    at = line.number
    files = hosts(pairs.get("file", ""), SOURCE, at, "File")
    if "multiplefiles" in pairs:
        if files:
            raise TopologyError(SOURCE, at, "File= and MultipleFiles= together", "keep one")
        files = (pairs["multiplefiles"][:200],)
        findings.append(note("mig", files[0][:60], "a MIG slice: slices have no links", line=at))
    count = len(files)
    if "count" in pairs:
        count = _count(pairs["count"], at)
        if files and count != len(files):
            findings.append(
                warning("count_mismatch", f"Count={count}", f"but File= names {len(files)} devices",
                        "leave Count= out", at)
            )  # fmt: skip
            count = len(files)
    count = count or 1
    if not files:
        findings.append(
            warning("no_file", "gpu", "without File= Slurm does not track which GPU is used",
                    "add File=/dev/nvidia[0-N]", at)
        )  # fmt: skip
    if count > MAX_GPUS:
        raise TopologyError(SOURCE, at, f"{count} GPUs on one line", f"at most {MAX_GPUS}")
    cores_text = pairs.get("cores", pairs.get("cpus", ""))
    cores = ranges(cores_text, SOURCE, at, "Cores") if cores_text else None
    links = _links(pairs["links"], at) if "links" in pairs else None
    if links is not None and count > 1:
        raise TopologyError(
            SOURCE, at, f"Links= on a line with {count} GPUs", "write one line for each GPU"
        )
    gpu_type = pairs.get("type", "")[:80]
    names = files or ("",) * count
    return tuple(Device(gpu_type, file, cores, cores_text, links, at) for file in names)


def _count(text: str, line: int) -> int:
    match = _SUFFIX.fullmatch(text)
    if match is None or not text[-1].isdigit():
        raise TopologyError(SOURCE, line, f"Count={text[:20]!r}", "GPUs are counted in digits")
    return number(match.group(1), SOURCE, line, "Count", upper=1024)


def _links(text: str, line: int) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > MAX_GPUS or not all(_LINK_COUNT.fullmatch(part) for part in parts):
        raise TopologyError(
            SOURCE, line, f"Links={text[:40]!r} is not a list of counts",
            "write -1 for the GPU itself and the number of links to each other GPU",
        )  # fmt: skip
    return tuple(int(part) for part in parts)


def _groups(entries: Sequence[_Entry], speeds: Speeds, findings: list[Finding]) -> list[NodeGroup]:
    """Nodes with the same lines form a group; lines without NodeName hold for all of them."""
    lines_of: dict[str, list[int]] = {}
    for i, entry in enumerate(entries):
        for node in entry.nodes:
            lines_of.setdefault(node, []).append(i)
    general = [i for i, entry in enumerate(entries) if not entry.nodes]
    members: dict[tuple[int, ...], list[str]] = {}
    for node, own in lines_of.items():
        members.setdefault(tuple(sorted({*own, *general})), []).append(node)
    found = [_group(tuple(nodes), [entries[i] for i in key], speeds, findings)
             for key, nodes in members.items()]  # fmt: skip
    if general:
        found.append(_group((), [entries[i] for i in general], speeds, findings))
    return found


def _group(
    nodes: tuple[str, ...], entries: list[_Entry], speeds: Speeds, findings: list[Finding]
) -> NodeGroup:
    # A node's own AutoDetect overrides the general one; "off" unsets it.
    detect = ""
    for entry in sorted(entries, key=lambda e: bool(e.nodes)):
        detect = entry.autodetect or detect
    detect = "" if detect == "off" else detect
    devices = [device for entry in entries for device in entry.devices]
    subject = (nodes[0] + (f" and {len(nodes) - 1} more" if nodes[1:] else "")) if nodes else "all"
    if detect:
        findings.append(
            note("autodetect", subject, f"AutoDetect={detect}: slurmd finds files, cores, links",
                 "gather `nvidia-smi topo -m` there (slurm-ext topology collect)")
        )  # fmt: skip
    if len(devices) > MAX_GPUS:
        raise TopologyError(
            SOURCE, devices[0].line, f"{len(devices)} GPUs on {subject}", f"at most {MAX_GPUS}"
        )
    shape = _shape(devices, subject, speeds) if devices else None
    if shape is not None:
        findings.extend(f for f in shape.findings if f not in findings)
    return NodeGroup(nodes, detect, shape)


def _shape(devices: Sequence[Device], subject: str, speeds: Speeds) -> NodeShape:
    n = len(devices)
    locality = _locality(devices)
    findings: list[Finding] = []
    known = _known_links(devices, subject, findings)
    links = [[_link(i, j, locality, known) for j in range(n)] for i in range(n)]
    if known is None and n > 1:
        findings.append(
            note("links_unknown", subject, "no Links=: NVLinks between the GPUs are not known",
                 "gather `nvidia-smi topo -m` there", devices[0].line)
        )  # fmt: skip
    return build(
        links, locality, speeds,
        types=[d.type for d in devices],
        affinity=[d.cores_text[:200] for d in devices],
        slurm_links=known,
        order=IndexOrder.SLURM,
        source=SOURCE,
        findings=findings,
    )  # fmt: skip


def _link(
    i: int, j: int, locality: Sequence[int], known: tuple[tuple[int, ...], ...] | None
) -> Link:
    if i == j:
        return Link(LinkClass.UNKNOWN)
    if known is not None and known[i][j] > 0:
        return Link(LinkClass.NVLINK, known[i][j])
    if locality[i] < 0 or locality[j] < 0:
        return Link(LinkClass.UNKNOWN)
    return Link(LinkClass.NODE if locality[i] == locality[j] else LinkClass.SYS)


def _locality(devices: Sequence[Device]) -> list[int]:
    """Groups of equal ``Cores=`` in core order; -1 without cores or with those of two groups."""
    sets = sorted({d.cores for d in devices if d.cores}, key=lambda c: (min(c), len(c)))
    narrow = [s for s in sets if not any(t < s for t in sets)]
    return [narrow.index(d.cores) if d.cores in narrow else -1 for d in devices]


def _known_links(
    devices: Sequence[Device], subject: str, findings: list[Finding]
) -> tuple[tuple[int, ...], ...] | None:
    """The ``Links=`` matrix if Slurm would use it: every GPU has a list as long as the GPUs."""
    rows = [d.links for d in devices if d.links is not None]
    if not rows:
        return None
    if len(rows) < len(devices) or any(len(row) != len(devices) for row in rows):
        findings.append(
            warning("links_ignored", subject,
                    f"{len(rows)} of {len(devices)} GPUs have Links=, of lengths "
                    f"{sorted({len(row) for row in rows})}: Slurm ignores links then",
                    "give each GPU as many counts as the node has GPUs", devices[0].line)
        )  # fmt: skip
        return None
    for i, (row, device) in enumerate(zip(rows, devices, strict=True)):
        if [j for j, count in enumerate(row) if count == -1] != [i]:
            findings.append(
                warning("links_self", device.file or str(i),
                        f"-1 should stand at position {i} and nowhere else",
                        "the order of Links= is the order of the devices", device.line)
            )  # fmt: skip
        if any(rows[j][i] != row[j] for j in range(i)):
            findings.append(
                warning("links_asymmetric", device.file or str(i),
                        "the counts of the other GPUs towards this one differ", line=device.line)
            )  # fmt: skip
    return tuple(rows)
