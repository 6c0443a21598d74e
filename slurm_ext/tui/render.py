"""A snapshot as rich renderables: cluster map, queue, promises. Pure: data in, renderable out."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slurm_ext.daemon.text import printable

Plain = dict[str, Any]

FREE, USED, GONE = "·", "■", "x"

_VERDICT_STYLE = {
    "start": "bold green",
    "starting": "green",
    "wait": "yellow",
    "never": "bold red",
    "running": "cyan",
}


def screen(data: Plain, *, width: int, height: int) -> RenderableType:
    """The whole view for a terminal of this size."""
    head = headline(data)
    nodes = cluster_map(data, width)
    room = max(4, height - 4 - len(nodes.split("\n")))
    return Group(head, Text(), nodes, Text(), queue(data, room), footer(data))


def headline(data: Plain) -> Text:
    """Policy, modes, use of the cluster, cost of a cycle."""
    stats = data.get("stats", {})
    modes = " ".join(f"{name}:{mode}" for name, mode in data.get("modes", {}).items())
    used, total = int(stats.get("gpus_used", 0)), int(stats.get("gpus_total", 0))
    spent = sum(data.get("durations_s", {}).values())
    text = Text("slurm-ext ", style="bold")
    text.append(f"{data.get('policy', '?')}  {printable(modes, 60)}  ")
    text.append(f"GPUs {used}/{total}  ", style="bold cyan")
    waiting = int(stats.get("jobs_wait", 0) + stats.get("jobs_start", 0))
    text.append(f"running {int(stats.get('jobs_running', 0))}  waiting {waiting}  ")
    text.append(f"cycle {data.get('cycle', 0)} {spent * 1000:.0f} ms", style="dim")
    return text


def cluster_map(data: Plain, width: int) -> Text:
    """One cell a GPU, node by node, as many nodes a line as fit."""
    cells = [_node_cell(n) for n in data.get("nodes", [])]
    if not cells:
        return Text("no nodes")
    cell_width = max(len(c.plain) for c in cells) + 2
    per_line = max(1, width // cell_width)
    out = Text()
    for i, cell in enumerate(cells[: per_line * 12]):
        if i and i % per_line == 0:
            out.append("\n")
        cell.pad_right(cell_width - len(cell.plain))
        out.append(cell)
    if len(cells) > per_line * 12:
        out.append(f"\n… {len(cells) - per_line * 12} more nodes", style="dim")
    return out


def _node_cell(node: Plain) -> Text:
    down = bool(set(node["states"]) & {"DOWN", "DRAIN", "DRAINED", "NOT_RESPONDING"})
    cell = Text(printable(node["name"], 16) + " ", style="dim" if down else "")
    taken = set(node["gpu_used_indices"])
    for i in range(node["gpus"]):
        if down:
            cell.append(GONE, style="red")
        elif i in taken or (not taken and i < node["gpus_used"]):
            cell.append(USED, style="cyan")
        else:
            cell.append(FREE, style="green")
    return cell


def queue(data: Plain, room: int) -> Table:
    """The planned jobs in order, with what we say of each."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("#", justify="right", no_wrap=True)
    for name in ("JOB", "USER", "GPUS", "VERDICT"):
        table.add_column(name, no_wrap=True)
    table.add_column("WHY", ratio=1, no_wrap=True, overflow="ellipsis")
    jobs = [j for j in data.get("jobs", []) if j["rank"] >= 0 or j["verdict"] == "starting"]
    for job in jobs[:room]:
        why = job["reasons"][-1]["text"] if job["reasons"] else ""
        tasks = f"x{job['tasks']}" if job["tasks"] > 1 else ""
        table.add_row(
            str(job["rank"]) if job["rank"] >= 0 else "",
            job["id"],
            Text(printable(job["user"], 10)),
            f"{job['gpus']}{tasks}",
            Text(job["verdict"], style=_VERDICT_STYLE.get(job["verdict"], "")),
            Text(printable(why, 200)),
        )
    unseen = data.get("jobs_in_all", len(data.get("jobs", []))) - len(data.get("jobs", []))
    if len(jobs) > room or unseen:
        hidden = max(0, len(jobs) - room) + unseen
        table.add_row("", "", "", "", "", Text(f"… {hidden} more", style="dim"))
    return table


def footer(data: Plain) -> Text:
    """The last error, or what the last cycle changed."""
    failure = data.get("failure")
    if failure:
        return Text(printable(failure["error"], 200), style="bold red")
    kinds: dict[str, int] = {}
    for patch in data.get("patches", []):
        label = f"{patch['lever']} ({patch['why']})"
        kinds[label] = kinds.get(label, 0) + 1
    changes = ", ".join(f"{n} {k}" for k, n in kinds.items()) or "nothing to change"
    return Text(f"last cycle: {changes}", style="dim")
