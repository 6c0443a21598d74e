"""``nvidia-smi topo -m`` text -> NodeShape.

Formats seen: drivers 384 to 590. The header may be underlined (ANSI), may call NICs mlx5_0 or
NIC0, and ends with some of "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"; cells are separated
by tabs, or by blanks after a copy through a terminal. Rows and columns that are not GPUs and
everything from "Legend" on are skipped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from .findings import Finding, TopologyError, note, warning
from .lines import ranges
from .shape import MAX_GPUS, PCIE4, IndexOrder, Link, LinkClass, NodeShape, Speeds, build

SOURCE = "nvidia-smi topo -m"
_REMEDY = "give the whole output of `nvidia-smi topo -m`, header included"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_GPU = re.compile(r"GPU([0-9]{1,3})")
_NVLINK = re.compile(r"NV([0-9]{1,3})")
_AFFINITY = re.compile(r"\bCPU\s+Affinity\b|\bNUMA\s+Affinity\b|\bGPU\s+NUMA\s+ID\b")
_PLAIN = {
    "PIX": LinkClass.PIX,
    "PXB": LinkClass.PXB,
    "PHB": LinkClass.PHB,
    "NODE": LinkClass.NODE,
    "SYS": LinkClass.SYS,
    "SOC": LinkClass.SYS,  # drivers before 384 say SOC
}
_P2P = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"})
_MAX_PORT = 18
"""NVLinks of one GPU at most (H100, B200): more than that over all peers means a switch."""


@dataclass
class _Matrix:
    """What has been read so far; ``devices`` are the column names, GPUs and others."""

    header_line: int
    devices: list[str]
    columns: list[str]
    rows: dict[int, list[Link]] = field(default_factory=dict)
    affinity: dict[int, str] = field(default_factory=dict)
    numa: dict[int, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def gpus(self) -> list[int]:
        return [int(m.group(1)) for d in self.devices if (m := _GPU.fullmatch(d))]


def parse_topo(text: str, speeds: Speeds = PCIE4, *, max_lanes: int = _MAX_PORT) -> NodeShape:
    """The shape that the first matrix in the text shows; indices are nvidia-smi's (PCI order).

    ``max_lanes``: NVLinks a GPU of this model has (V100 6, A100 12, H100 18); a GPU that shows
    more over all its peers is taken to be behind an NVSwitch.

    :raises TopologyError: no matrix, or one that is cut or contradicts itself.
    """
    matrix = _read(text)
    gpus = matrix.gpus
    missing = [i for i in gpus if i not in matrix.rows]
    if missing:
        raise TopologyError(
            SOURCE, matrix.header_line,
            f"the header names GPU{missing[0]} but there is no such row", _REMEDY,
        )  # fmt: skip
    if gpus != list(range(len(gpus))):
        matrix.findings.append(
            note("gpu_numbers", SOURCE, f"GPUs are numbered {gpus}; counted from 0 here",
                 "gather it in a job that has all GPUs of the node", matrix.header_line)
        )  # fmt: skip
    links = [matrix.rows[i] for i in gpus]
    _check_symmetry(links, matrix)
    links = _switched(links, max_lanes)
    shape = build(
        links,
        _locality(matrix, gpus),
        speeds,
        affinity=[matrix.affinity.get(i, "") for i in gpus],
        slurm_links=_slurm_links(links),
        order=IndexOrder.PCI,
        source=SOURCE,
        findings=matrix.findings,
    )
    return replace(shape, findings=shape.findings + missing_bridges(shape))


def _read(text: str) -> _Matrix:
    matrix: _Matrix | None = None
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = _ANSI.sub("", raw)
        words = line.split()
        if not words:
            continue
        if matrix is None:
            if _is_header(words):
                matrix = _header(line, number)
            continue
        if re.match(r"(NIC )?Legend", line.strip()):
            break
        if _is_header(words) and (words[1:2] == matrix.devices[1:2] or words[1:2] == ["CPU"]):
            matrix.findings.append(
                note(
                    "second_matrix", SOURCE, "a second matrix follows and is not read", line=number
                )
            )
            break
        _row(matrix, line, words, number)
    if matrix is None:
        raise TopologyError(SOURCE, 0, "no header with GPU0 found", _REMEDY)
    return matrix


def _is_header(words: list[str]) -> bool:
    if not _GPU.fullmatch(words[0]):
        return False
    return len(words) == 1 or words[1] == "CPU" or not _is_cell(words[1])


def _is_cell(word: str) -> bool:
    return word in ("X", "N/A") or word in _PLAIN or word in _P2P or bool(_NVLINK.fullmatch(word))


def _header(line: str, number: int) -> _Matrix:
    first = _AFFINITY.search(line)
    devices = line[: first.start() if first else len(line)].split()
    columns = [re.sub(r"\s+", " ", m.group()) for m in _AFFINITY.finditer(line)]
    gpus = [d for d in devices if _GPU.fullmatch(d)]
    if len(set(gpus)) != len(gpus) or len(gpus) > MAX_GPUS:
        raise TopologyError(
            SOURCE, number, f"{len(gpus)} GPU columns, some twice or more than {MAX_GPUS}", _REMEDY
        )
    return _Matrix(number, devices, columns)


def _row(matrix: _Matrix, line: str, words: list[str], number: int) -> None:
    label = _GPU.fullmatch(words[0])
    if label is None:
        if words[0].startswith("MIG"):
            matrix.findings.append(
                note("mig_rows", SOURCE, "MIG rows are not read: slices have no links", line=number)
            )
        return
    gpu = int(label.group(1))
    if words[0] not in matrix.devices or gpu in matrix.rows:
        raise TopologyError(
            SOURCE, number, f"unexpected row {words[0]}: not in the header, or twice", _REMEDY
        )
    cells, rest = words[1 : 1 + len(matrix.devices)], words[1 + len(matrix.devices) :]
    if len(cells) < len(matrix.devices):
        raise TopologyError(
            SOURCE, number,
            f"{len(cells)} cells under {len(matrix.devices)} devices: the row is cut", _REMEDY,
        )  # fmt: skip
    row = []
    for name, cell in zip(matrix.devices, cells, strict=True):
        column = _GPU.fullmatch(name)
        if column is None:
            continue
        own = int(column.group(1)) == gpu
        if own != (cell == "X"):
            raise TopologyError(
                SOURCE, number, f"column {name} of row {words[0]} shows {cell}", _REMEDY
            )
        row.append(Link(LinkClass.UNKNOWN) if own else _link(cell, number, matrix.findings))
    matrix.rows[gpu] = row
    _read_affinity(matrix, gpu, line, rest)


def _link(cell: str, number: int, findings: list[Finding]) -> Link:
    if cell in _PLAIN:
        return Link(_PLAIN[cell])
    lanes = _NVLINK.fullmatch(cell)
    if lanes and int(lanes.group(1)):
        return Link(LinkClass.NVLINK, int(lanes.group(1)))
    if cell in _P2P:
        raise TopologyError(
            SOURCE, number, f"{cell!r} is a cell of `nvidia-smi topo -p2p`", "use `topo -m`"
        )
    if not any(f.code == "unknown_link" and f.subject == cell for f in findings):
        findings.append(
            warning("unknown_link", cell[:20], "unknown link class, counted as SYS",
                    "report it with the driver version", number)
        )  # fmt: skip
    return Link(LinkClass.UNKNOWN)


def _read_affinity(matrix: _Matrix, gpu: int, line: str, rest: list[str]) -> None:
    """The trailing columns; by tabs when a cell may be empty, else by blanks."""
    values = rest
    if len(rest) < len(matrix.columns) and "\t" in line.strip():
        fields = [f.strip() for f in line.strip("\n").lstrip().split("\t")]
        values = fields[1 + len(matrix.devices) :]
    for column, value in zip(matrix.columns, values, strict=False):
        if value in ("", "N/A"):
            continue
        if column == "CPU Affinity":
            matrix.affinity[gpu] = value[:200]
        elif column == "NUMA Affinity":
            matrix.numa[gpu] = value[:40]


def _locality(matrix: _Matrix, gpus: list[int]) -> list[int]:
    """NUMA node per GPU; without that column, groups of equal CPU affinity in order."""
    numa = [matrix.numa.get(i, "") for i in gpus]
    if any(re.fullmatch(r"[0-9]{1,4}", value) for value in numa):
        return [int(v) if re.fullmatch(r"[0-9]{1,4}", v) else -1 for v in numa]
    cores: list[frozenset[int] | None] = []
    for i in gpus:
        try:
            cores.append(ranges(matrix.affinity[i], SOURCE, 0, "CPU Affinity"))
        except (KeyError, TopologyError):
            cores.append(None)
    known = sorted({c for c in cores if c}, key=min)
    return [known.index(c) if c else -1 for c in cores]


def _check_symmetry(links: list[list[Link]], matrix: _Matrix) -> None:
    for i in range(len(links)):
        for j in range(i):
            if links[i][j] != links[j][i]:
                matrix.findings.append(
                    warning("asymmetric", f"GPU{j}-GPU{i}",
                            f"{links[j][i]} one way and {links[i][j]} the other; slower counts")
                )  # fmt: skip


def _switched(links: list[list[Link]], max_lanes: int) -> list[list[Link]]:
    """NVLinks relabelled as switched where a GPU shows more of them than it has."""
    n = len(links)
    behind = [sum(links[i][j].lanes for j in range(n) if j != i) > max_lanes for i in range(n)]
    return [
        [
            Link(LinkClass.NVSWITCH, link.lanes)
            if link.kind is LinkClass.NVLINK and behind[i] and behind[j]
            else link
            for j, link in enumerate(row)
        ]
        for i, row in enumerate(links)
    ]


def _slurm_links(links: list[list[Link]]) -> tuple[tuple[int, ...], ...]:
    """What AutoDetect=nvml gives Slurm: direct NVLinks only (peers behind a switch count 0)."""
    return tuple(
        tuple(
            -1 if i == j else (link.lanes if link.kind is LinkClass.NVLINK else 0)
            for j, link in enumerate(row)
        )
        for i, row in enumerate(links)
    )


def missing_bridges(shape: NodeShape) -> tuple[Finding, ...]:
    """GPUs without any NVLink beside others that have it: as many as an island, one NUMA node."""
    islands = shape.islands()
    linked = 0
    for island in islands:
        linked |= island
    if not islands:
        return ()
    size = min(island.bit_count() for island in islands)
    found = []
    for place in sorted(set(shape.locality)):
        bare = [i for i in range(shape.count)
                if shape.locality[i] == place and not linked >> i & 1]  # fmt: skip
        if len(bare) >= size:
            names = ",".join(map(str, bare))
            seen = shape.links[bare[0]][bare[1]]
            found.append(
                warning(
                    "nvlink_missing",
                    f"GPUs {names}",
                    f"no NVLink between them ({seen}), others here are joined by {size}",
                    "if a bridge is fitted, reseat it and look at `nvidia-smi nvlink -s`",
                )
            )
    return tuple(found)
