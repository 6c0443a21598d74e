"""``topology show``, ``topology check``, ``topology collect``: from files, without Slurm."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_ext.daemon.text import printable
from slurm_ext.daemon.topology import in_file
from slurm_ext.model.units import indices_of
from slurm_ext.topology.fabric import Fabric
from slurm_ext.topology.fabric_check import check_segments
from slurm_ext.topology.fabric_read import read_fabric
from slurm_ext.topology.findings import Finding, Severity, TopologyError, warning
from slurm_ext.topology.gresconf import parse_gres_conf
from slurm_ext.topology.lines import hosts
from slurm_ext.topology.nvsmi import parse_topo
from slurm_ext.topology.presets import PRESETS
from slurm_ext.topology.ring import ring_score
from slurm_ext.topology.sets import any_pick_good, best_set, worst_set
from slurm_ext.topology.shape import SPEEDS, NodeShape

from .common import print_json


@dataclass(frozen=True, slots=True)
class _Read:
    """What the given files hold."""

    shapes: tuple[tuple[str, NodeShape], ...]
    fabric: Fabric | None
    findings: tuple[Finding, ...]


def add_parser(verbs: Any) -> None:
    """Register the verbs."""
    parser = verbs.add_parser(
        "topology", help="links between GPUs and between nodes",
        description="Links between the GPUs of a node and switches between nodes, from files.",
        epilog="example: slurm-ext topology collect --node gpu01",
    )  # fmt: skip
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser(
        "show", help="what the files say, and how fast sets of GPUs are",
        description="Links, best and worst GPU sets with their predicted ring bandwidth, switches.",
        epilog="example: slurm-ext topology show --nvidia-smi topo.txt --topology topology.conf",
    )  # fmt: skip
    check = actions.add_parser(
        "check", help="report what is wrong or doubtful, exit 1 if anything is wrong",
        description="Missing bridges, contradictions, broken segments.",
        epilog="example: slurm-ext topology check --topology topo.txt "
        "--nodes 'r0-[0-16],r1-[0-18]' --segment 12",
    )  # fmt: skip
    check.add_argument("--nodes", metavar="HOSTLIST", help="nodes of a job, with --segment")
    check.add_argument("--segment", type=int, metavar="N", help="nodes a segment (sbatch)")
    for action in (show, check):
        _add_sources(action)
        action.set_defaults(run=run)
    collect = actions.add_parser(
        "collect", help="print the commands that gather all this through Slurm",
        description="Prints commands only; nothing is run.",
        epilog="example: slurm-ext topology collect --node gpu01 --gpus 8",
    )  # fmt: skip
    collect.add_argument("--node", action="append", default=[], metavar="NODE",
                         help="one node of each kind (repeatable)")  # fmt: skip
    collect.add_argument("--gpus", type=int, metavar="N", help="GPUs of that node")
    collect.add_argument("--json", action="store_true", help="machine-readable output")
    collect.set_defaults(run=run)


def _add_sources(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--nvidia-smi", type=Path, action="append", default=[], metavar="FILE",
        help="output of `nvidia-smi topo -m` (repeatable)")  # fmt: skip
    add("--gres-conf", type=Path, metavar="FILE", help="gres.conf")
    add("--topology", type=Path, metavar="FILE",
        help="topology.conf, topology.yaml or the output of `scontrol show topology`")  # fmt: skip
    add("--topology-name", default="", metavar="NAME", help="one topology of a topology.yaml")
    add("--preset", action="append", default=[], choices=sorted(PRESETS), metavar="NAME",
        help=f"a common server: {', '.join(sorted(PRESETS))}")  # fmt: skip
    add("--speeds", choices=sorted(SPEEDS), default="pcie4",
        help="bandwidths to assume for link classes (default pcie4)")  # fmt: skip
    add("--json", action="store_true", help="machine-readable output")


def run(args: argparse.Namespace) -> int:
    """Dispatch; returns the exit code.

    :raises TopologyError: a file that cannot be read, with its name and line.
    """
    if args.action == "collect":
        return _collect(args)
    read = _read(args)
    if args.action == "check":
        return _check(args, read)
    if args.json:
        print_json(_as_json(read))
        return 0
    for title, shape in read.shapes:
        _print(_shape_lines(title, shape))
    if read.fabric is not None:
        _print(_fabric_lines(read.fabric))
    _print(f"  {finding}" for finding in read.findings)
    return 0


def _read(args: argparse.Namespace) -> _Read:
    speeds = SPEEDS[args.speeds]
    shapes: list[tuple[str, NodeShape]] = []
    findings: list[Finding] = []
    fabric = None
    for path in args.nvidia_smi:
        shapes.append((str(path), in_file(path, lambda text: parse_topo(text, speeds))))
        findings.extend(shapes[-1][1].findings)
    if args.gres_conf:
        conf = in_file(args.gres_conf, lambda text: parse_gres_conf(text, speeds))
        findings.extend(conf.findings)
        for group in conf.groups:
            if group.shape is not None:
                names = f"{group.nodes[0]} ({len(group.nodes)} nodes)" if group.nodes else "nodes"
                shapes.append((f"{args.gres_conf}: {names}", group.shape))
    shapes.extend((f"preset {name}", PRESETS[name].shape) for name in args.preset)
    if args.topology:
        name = str(args.topology)
        fabric = in_file(name, lambda text: read_fabric(text, name, args.topology_name))
        findings.extend(fabric.findings)
    if not shapes and fabric is None and not findings:
        raise TopologyError("slurm-ext topology", 0, "nothing to read",
                            "give --nvidia-smi, --gres-conf, --topology or --preset")  # fmt: skip
    return _Read(tuple(shapes), fabric, tuple(findings))


def _check(args: argparse.Namespace, read: _Read) -> int:
    findings = list(read.findings)
    if (args.nodes is None) != (args.segment is None):
        raise TopologyError("--segment", 0, "--nodes and --segment go together", "give both")
    if args.nodes is not None:
        if read.fabric is None or args.segment < 1:
            raise TopologyError("--segment", 0, "needs --topology and a segment of 1 or more",
                                "give the block topology")  # fmt: skip
        nodes = hosts(args.nodes, "--nodes", 0, "--nodes")
        findings.extend(check_segments(read.fabric, nodes, args.segment).findings)
    findings.extend(_uncovered(read))
    wrong = sum(1 for finding in findings if finding.severity is Severity.WARNING)
    if args.json:
        print_json({"findings": [_finding(finding) for finding in findings], "warnings": wrong})
    else:
        _print(map(str, findings))
        _print([f"{wrong} warnings, {len(findings) - wrong} notes"])
    return 1 if wrong else 0


def _uncovered(read: _Read) -> list[Finding]:
    """A matrix whose number of GPUs no node of the gres.conf has comes from another machine."""
    described = {shape.count for _, shape in read.shapes if shape.source == "gres.conf"}
    return [
        warning("counts_differ", title, f"{shape.count} GPUs, gres.conf has {sorted(described)}",
                "is it of another kind of node, or is a GPU missing?")
        for title, shape in read.shapes
        if described and shape.source.startswith("nvidia-smi") and shape.count not in described
    ]  # fmt: skip


def _collect(args: argparse.Namespace) -> int:
    nodes = [name for item in args.node for name in hosts(item, "--node", 0, "--node")]
    commands = [
        ("switches and blocks", "scontrol show topology > topology.txt"),
        ("which topology plugin", "scontrol show config | grep -i '^Topology' > plugin.txt"),
        ("GPUs as Slurm numbers them", "scontrol show nodes -d > nodes.txt"),
    ]  # fmt: skip
    gpus = args.gpus or "ALL_OF_THEM"
    for node in nodes or ["NODE"]:
        # Whole node: in a job with some GPUs cgroups hide the others from nvidia-smi.
        whole = f"srun --nodes=1 --nodelist={node} --exclusive --gpus-per-node={gpus}"
        commands += [
            (f"links of {node}", f"{whole} nvidia-smi topo -m > topo.{node}.txt"),
            (f"PCI bus ids of {node}: compare with Slurm's order",
             f"{whole} nvidia-smi --query-gpu=index,pci.bus_id,uuid,name --format=csv "
             f"> gpus.{node}.csv"),
            (f"minor numbers of {node}: the N of /dev/nvidiaN",
             f"{whole} sh -c 'grep -H Minor /proc/driver/nvidia/gpus/*/information' "
             f"> minors.{node}.txt"),
        ]  # fmt: skip
    hint = "replace ALL_OF_THEM by the number of GPUs of the node, and NODE by its name"
    if args.json:
        print_json({"commands": [{"what": w, "command": c} for w, c in commands], "hint": hint})
        return 0
    _print([f"# {hint}", "# gres.conf: copy it from the node's /etc/slurm"])
    for what, command in commands:
        _print([f"# {what}", command])
    return 0


# -- printing --------------------------------------------------------------------------------


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(printable(line, 2000) + "\n")


def _gbps(value: float) -> str:
    return "no traffic" if math.isinf(value) else f"{value:.1f} GB/s"


def _shape_lines(title: str, shape: NodeShape) -> list[str]:
    lines = [f"{title}: {shape.count} GPUs; {shape.order.explained}"]
    head = "".join(f"{i:>6}" for i in range(shape.count))
    lines.append(f"       {head}  locality")
    for i in range(shape.count):
        cells = "".join(
            f"{'X' if i == j else str(shape.links[i][j]):>6}" for j in range(shape.count)
        )
        place = "?" if shape.locality[i] < 0 else str(shape.locality[i])
        lines.append(f"  GPU{i:<3} {cells}  {place}")
    lines.extend(_set_line(shape, k) for k in range(2, shape.count + 1))
    return lines


def _set_line(shape: NodeShape, k: int) -> str:
    best, worst = best_set(shape, shape.all_mask, k), worst_set(shape, shape.all_mask, k)
    assert best is not None
    assert worst is not None
    mark = "" if best.exact and worst.exact and ring_score(shape, best.mask).exact else " (about)"
    names = ",".join(map(str, best.gpus))
    any_good = "any set is as good" if any_pick_good(shape, shape.all_mask, k) else (
        f"worst {','.join(map(str, worst.gpus))} {_gbps(worst.gbps)}")  # fmt: skip
    return f"  {k} GPUs: best {names} {_gbps(best.gbps)}{mark}; {any_good}"


def _fabric_lines(fabric: Fabric) -> list[str]:
    name = f" {fabric.name}" if fabric.name else ""
    sizes = f", block sizes {','.join(map(str, fabric.block_sizes))}" if fabric.block_sizes else ""
    lines = [f"topology{name}: {fabric.kind}, {len(fabric.leaves)} leaves{sizes}"]
    for unit in sorted(fabric.units, key=lambda u: -u.level):
        below = f" over {','.join(unit.children)}" if unit.children else ""
        lines.append(f"  level {unit.level}: {unit.name}, {len(unit.nodes)} nodes{below}")
    return lines


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "code": finding.code, "severity": str(finding.severity), "subject": finding.subject,
        "detail": finding.detail, "remedy": finding.remedy, "line": finding.line,
    }  # fmt: skip


def _as_json(read: _Read) -> dict[str, object]:
    shapes = []
    for title, shape in read.shapes:
        sets = []
        for k in range(2, shape.count + 1):
            best, worst = best_set(shape, shape.all_mask, k), worst_set(shape, shape.all_mask, k)
            if best and worst:
                sets.append({
                    "gpus": k, "best": best.gpus, "best_gbps": best.gbps, "worst": worst.gpus,
                    "worst_gbps": worst.gbps, "exact": best.exact and worst.exact,
                })  # fmt: skip
        shapes.append({
            "title": title, "gpus": shape.count, "order": str(shape.order),
            "links": [[str(x) for x in row] for row in shape.links], "gbps": shape.gbps,
            "locality": shape.locality, "types": shape.types, "sets": sets,
            "islands": [indices_of(mask) for mask in shape.islands()],
        })  # fmt: skip
    fabric = None
    if read.fabric is not None:
        fabric = {
            "kind": str(read.fabric.kind), "name": read.fabric.name,
            "block_sizes": read.fabric.block_sizes,
            "units": [{"name": u.name, "level": u.level, "nodes": u.nodes, "children": u.children}
                      for u in read.fabric.units],
        }  # fmt: skip
    return {"shapes": shapes, "fabric": fabric, "findings": [_finding(f) for f in read.findings]}
