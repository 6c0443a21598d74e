"""A snapshot as rich renderables, page by page. Pure: data in, renderable out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slurm_ext.daemon.text import printable
from slurm_ext.daemon.ways import way_lines

from .cluster import cluster_map, holes, node_table
from .view import HELP, View, chosen_jobs

Plain = dict[str, Any]

_VERDICT_STYLE = {
    "start": "bold green",
    "starting": "green",
    "wait": "yellow",
    "never": "bold red",
    "running": "cyan",
}


def screen(
    data: Plain,
    view: View | None = None,
    *,
    width: int,
    height: int,
    stream: Sequence[str] = (),
) -> RenderableType:
    """The whole view for a terminal of this size; without a ``view``, to be printed once."""
    shown = view or View()
    room = max(3, height - 4)
    if shown.job:
        body = job_page(data, shown, room)
    elif shown.page == "nodes":
        body = node_table(data, shown.top, room - 1)
    elif shown.page == "changes":
        body = change_page(stream, shown.top, room)
    elif shown.page == "health":
        body = health_page(data, shown.top, room)
    elif shown.page == "queue":
        body = queue(data, shown, room - 1, width, cursor=view is not None)
    else:
        nodes = cluster_map(data, width, max(1, min(12, room // 2)))
        left = room - len(nodes.plain.split("\n")) - 2
        jobs = queue(data, shown, max(1, left), width, cursor=view is not None)
        body = Group(nodes, Text(), jobs)
    return Group(headline(data, shown), Text(), body, footer(data, view, width))


def headline(data: Plain, view: View) -> Text:
    """Policy, modes, use of the cluster, cost of a cycle."""
    stats = data.get("stats", {})
    modes = " ".join(f"{name}:{mode}" for name, mode in data.get("modes", {}).items())
    used, total = int(stats.get("gpus_used", 0)), int(stats.get("gpus_total", 0))
    spent = sum(data.get("durations_s", {}).values())
    text = Text("slurm-ext ", style="bold", no_wrap=True, overflow="ellipsis")
    text.append(f"{printable(str(data.get('policy', '?')), 20)}  {printable(modes, 40)}  ")
    text.append(f"GPUs {used}/{total}  ", style="bold cyan")
    waiting = int(stats.get("jobs_wait", 0) + stats.get("jobs_start", 0))
    text.append(f"running {int(stats.get('jobs_running', 0))}  waiting {waiting}  ")
    text.append(f"cycle {data.get('cycle', 0)} {spent * 1000:.0f} ms", style="dim")
    if view.paused:
        text.append("  [display stopped]", style="bold yellow")
    return text


def queue(data: Plain, view: View, room: int, width: int, *, cursor: bool) -> Table:
    """The planned jobs in order, with what we say of each and, where there is room, Slurm too."""
    wide = width >= 110
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("#", justify="right", no_wrap=True)
    for name in ("JOB", "USER", "GPUS", "VERDICT", "START"):
        table.add_column(name, no_wrap=True)
    if wide:
        table.add_column("SLURM", no_wrap=True)
    table.add_column("WHY", ratio=1, no_wrap=True, overflow="ellipsis")
    jobs = chosen_jobs(data, view)
    first = max(0, min(view.cursor - room // 2, len(jobs) - room))
    for i, job in enumerate(jobs[first : first + room], first):
        row = _queue_row(job, data.get("at_s", 0), wide=wide)
        table.add_row(*row, style="reverse" if cursor and i == view.cursor else "")
    cut = data.get("jobs_in_all", len(data.get("jobs", []))) - len(data.get("jobs", []))
    hidden = max(0, len(jobs) - room) + cut
    if hidden and not cursor:
        table.add_row(*[""] * (7 if wide else 6), Text(f"… {hidden} more", style="dim"))
    return table


def _queue_row(job: Plain, now_s: int, *, wide: bool) -> list[RenderableType]:
    why = job["reasons"][-1]["text"] if job["reasons"] else ""
    tasks = f"x{job['tasks']}" if job["tasks"] > 1 else ""
    row: list[RenderableType] = [
        str(job["rank"]) if job["rank"] >= 0 else "",
        job["id"],
        Text(printable(job["user"], 10)),
        f"{job['gpus']}{tasks}",
        Text(job["verdict"], style=_VERDICT_STYLE.get(job["verdict"], "")),
        span(job["start_s"] - now_s) if job["start_s"] is not None else "",
    ]
    if wide:
        row.append(Text(printable(job["slurm_reason"] or "", 16)))
    return [*row, Text(printable(why, 200))]


def span(seconds: float) -> str:
    """A duration in the largest unit that suits, ``now`` for none."""
    if seconds <= 0:
        return "now"
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"+{seconds / size:.0f}{unit}"
    return f"+{seconds:.0f}s"


def job_page(data: Plain, view: View, room: int) -> RenderableType:
    """Everything known of one job."""
    job = next((j for j in data.get("jobs", []) if j["id"] == view.job), None)
    if job is None:
        return Text(f"job {printable(view.job, 30)} is no longer in the queue", style="yellow")
    lines = [
        f"job {job['id']}  {job['name']}  user {job['user']}  account {job['account']}",
        f"{job['gpus']} GPUs  partition {job['partition']}  limit {job['limit_s']} s  "
        f"priority {job['priority']}",
        f"verdict {job['verdict']}  rank {job['rank']}  Slurm says: {job['slurm_reason'] or '-'}",
        *(f"  {r['stage']:<9} {r['code']}: {r['text']}" for r in job["reasons"]),
        *(f"  term      {name} = {value:.6g}" for name, value in job["terms"].items()),
        *(f"  place     {_place(s)}" for s in job["placement"] or []),
    ]
    for number, other in enumerate(job["alternatives"], 1):
        lines += [f"  or {number}      {_place(s)}" for s in other or []]
    if job["start_s"] is not None:
        lines.append(f"  start     {span(job['start_s'] - data.get('at_s', 0))}")
    lines.append(f"more: slurm-ext why {job['id']}")
    return _lines(lines, view.top, room)


def _place(share: Plain) -> str:
    indices = ",".join(map(str, share["gpu_indices"]))
    at = f" ({indices})" if indices else ""
    return (
        f"{share['node']}: {share['gpus']} GPUs{at}, {share['cpus']} CPUs, {share['mem_mib']} MiB"
    )


def change_page(stream: Sequence[str], top: int, room: int) -> RenderableType:
    """What became of jobs while this view was open, newest first."""
    if not stream:
        return Text("no job has changed since this view was opened", style="dim")
    return _lines(list(reversed(stream)), top, room)


def health_page(data: Plain, top: int, room: int) -> RenderableType:
    """Cost of the parts of a cycle, counters, problems and errors."""
    lines = [f"free GPUs: {holes(data)}"]
    spent = data.get("durations_s", {})
    lines.append("cycle: " + ", ".join(f"{k} {v * 1000:.0f} ms" for k, v in spent.items()))
    stats = data.get("stats", {})
    lines += [f"  {name:<20} {value:g}" for name, value in sorted(stats.items())]
    lines += [f"promised: job {f['job_id']} at {span(f['start_s'] - data.get('at_s', 0))} on "
              f"{','.join(f['nodes'])}" for f in data.get("fences", [])]  # fmt: skip
    lines += way_lines(data)
    lines += [f"unread: {p}" for p in data.get("problems", [])]
    lines += [f"refused: {e}" for e in data.get("errors", [])]
    return _lines(lines, top, room)


def _lines(lines: Sequence[str], top: int, room: int) -> Text:
    shown = lines[min(top, max(0, len(lines) - 1)) :][:room]
    text = Text("\n".join(printable(line, 300) for line in shown))
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def footer(data: Plain, view: View | None, width: int) -> Text:
    """The filter being written, the last error, or what the last cycle changed, and the keys."""
    if view is not None and view.typing:
        return Text(f"filter: {printable(view.filter, 60)}▏", style="bold")
    failure = data.get("failure")
    if failure:
        return Text(printable(failure["error"], 200), style="bold red")
    kinds: dict[str, int] = {}
    for patch in data.get("patches", []):
        label = f"{patch['lever']} ({patch['why']})"
        kinds[label] = kinds.get(label, 0) + 1
    done = ", ".join(f"{n} {k}" for k, n in kinds.items()) or "nothing to change"
    if view is None:
        return Text(printable(f"{holes(data)}; last cycle: {done}", 300), style="dim")
    about = f"sort {view.sort}" + (f", filter {view.filter}" if view.filter else "")
    line = HELP if width < 110 else f"{HELP}   {about}   last cycle: {done}"
    return Text(printable(line, max(10, width - 1)), style="dim")
