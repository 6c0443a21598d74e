"""Nodes and GPUs as rich renderables. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.table import Table
from rich.text import Text

from slurm_ext.daemon.text import printable

Plain = dict[str, Any]

FREE, USED, PROMISED, GONE = "·", "■", "○", "x"
UNUSABLE = frozenset({"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "NOT_RESPONDING"})
MAP_LINES = 12


def unusable(node: Plain) -> bool:
    """Whether Slurm would start nothing there."""
    return bool(UNUSABLE & set(node["states"]))


def promised_nodes(data: Plain) -> set[str]:
    """Nodes of the promises in force."""
    return {name for fence in data.get("fences", []) for name in fence["nodes"]}


def cluster_map(data: Plain, width: int, lines: int = MAP_LINES) -> Text:
    """One cell a GPU, node by node, as many nodes a line as fit, partition by partition."""
    cells = [node_cell(n, promised_nodes(data)) for n in data.get("nodes", [])]
    if not cells:
        return Text("no nodes")
    cell_width = max(len(c.plain) for c in cells) + 2
    per_line = max(1, width // cell_width)
    out = Text()
    for i, cell in enumerate(cells[: per_line * lines]):
        if i and i % per_line == 0:
            out.append("\n")
        cell.pad_right(cell_width - len(cell.plain))
        out.append(cell)
    if len(cells) > per_line * lines:
        out.append(f"\n… {len(cells) - per_line * lines} more nodes", style="dim")
    return out


def node_cell(node: Plain, promised: set[str]) -> Text:
    """Name and GPUs of one node."""
    down = unusable(node)
    cell = Text(printable(node["name"], 16) + " ", style="dim" if down else "")
    taken = set(node["gpu_used_indices"])
    for i in range(node["gpus"]):
        if i in taken or (not taken and i < node["gpus_used"]):
            cell.append(USED, style="red" if down else "cyan")
        elif down:
            cell.append(GONE, style="red")
        elif node["name"] in promised:
            cell.append(PROMISED, style="yellow")
        else:
            cell.append(FREE, style="green")
    return cell


def node_table(data: Plain, top: int, room: int) -> Table:
    """Node by node: types, GPUs, CPUs, memory, states."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for name in ("NODE", "TYPE"):
        table.add_column(name, no_wrap=True)
    for name in ("GPUS", "CPUS", "GIB"):
        table.add_column(name, no_wrap=True, justify="right")
    table.add_column("STATE", ratio=1, no_wrap=True, overflow="ellipsis")
    nodes = data.get("nodes", [])
    for node in nodes[top : top + room]:
        types = ",".join(t or "gpu" for t in node["gpu_types"])
        table.add_row(
            Text(printable(node["name"], 20)),
            Text(printable(types, 16)),
            f"{node['gpus_used']}/{node['gpus']}",
            f"{node['cpus_used']}/{node['cpus']}",
            f"{node['mem_used_mib'] >> 10}/{node['mem_mib'] >> 10}",
            Text(printable(",".join(node["states"]), 60), style="red" if unusable(node) else ""),
        )
    return table


def holes(data: Plain) -> str:
    """Free GPUs as they lie: how many nodes have how many, and how many lack a CPU or memory."""
    sizes: Counter[int] = Counter()
    stranded = out_of_reach = 0
    for node in data.get("nodes", []):
        free = node["gpus"] - node["gpus_used"]
        if unusable(node):
            out_of_reach += free
            continue
        cpus = node["cpus"] - node["cpus_used"]
        usable = min(free, cpus) if node["mem_mib"] > node["mem_used_mib"] else 0
        stranded += free - usable
        if usable > 0:
            sizes[usable] += 1
    shown = " ".join(f"{count}x{size}" for size, count in sorted(sizes.items(), reverse=True))
    text = f"free {sum(s * c for s, c in sizes.items())}" + (f" ({shown})" if shown else "")
    if stranded:
        text += f", stranded {stranded}"
    return text + (f", on unusable nodes {out_of_reach}" if out_of_reach else "")
