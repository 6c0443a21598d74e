"""Tables of a snapshot for people; the same data as ``--json``."""

from __future__ import annotations

import time
from typing import Any

from rich.table import Table

from slurm_ext.daemon.ways import way_lines

from .common import console, safe

Plain = dict[str, Any]

_STYLE = {
    "start": "bold green",
    "starting": "green",
    "wait": "yellow",
    "never": "bold red",
    "ineligible": "dim",
    "unmanaged": "dim",
    "running": "cyan",
}


def show_plan(data: Plain, *, everything: bool) -> None:
    """Header, the planned jobs in order, fences, patches, problems."""
    out = console()
    out.print(_headline(data))
    jobs = [j for j in data["jobs"] if everything or j["rank"] >= 0]
    if jobs:
        out.print(_jobs(jobs, data["at_s"]))
    else:
        out.print("no job waits for a decision")
    hidden = len(data["jobs"]) - len(jobs)
    if hidden:
        out.print(f"({hidden} jobs running or not ours; --all shows them)", style="dim")
    for fence in data["fences"]:
        in_s = fence["start_s"] - data["at_s"]
        out.print(f"promised: job {fence['job_id']} in {in_s} s on {','.join(fence['nodes'])}")
    for plan in (p for p in data.get("preempt", ()) if p["victims"]):
        text = f"preemption for job {plan['job_id']} (a proposal): {plan['reason']['text']}"
        out.print(safe(text, 300))
    for one in data.get("restarts", ()):
        text = f"restart of job {one['id']} {one['purpose']}: {one['text']}, for {one['for_s']} s"
        out.print(safe(text, 300))
    out.print(safe(run_times(data), 300), style="dim")
    for line in way_lines(data):
        out.print(safe(line, 300), style="dim")
    if data["patches"]:
        out.print(_patches(data["patches"]))
    for line in (*data["problems"], *data["errors"]):
        out.print(safe(line, 200), style="red")


def _headline(data: Plain) -> str:
    stats, modes = data["stats"], data["modes"]
    used, total = int(stats.get("gpus_used", 0)), int(stats.get("gpus_total", 0))
    mode = ", ".join(f"{name} {mode}" for name, mode in modes.items())
    spent = sum(data["durations_s"].values())
    return (
        f"cluster {data['cluster'] or '?'} (Slurm {data['slurm']}), policy {data['policy']}, "
        f"{mode}; GPUs {used}/{total} used; cycle {data['cycle']} took {spent:.2f} s"
    )


def run_times(data: Plain) -> str:
    """What run times are planned with, in one line."""
    history = data["history"]
    if history["problem"]:
        return f"run times: time limits ({history['problem']})"
    age_h = max(0, data["at_s"] - history["fitted_s"]) / 3600
    share = history["coverage"]
    drift = "" if share is None else f" ({share:.0%} of last week's within p10-p90; 80% is right)"
    coming = f", {history['waiting']} in the next cycle" if history["waiting"] else ""
    return (
        f"run times: learnt {age_h:.0f} h ago from {history['attempts']} attempts{drift}; "
        f"{history['estimated']} of {history['jobs']} jobs estimated{coming}"
    )


def _jobs(jobs: list[Plain], now_s: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("RANK", "JOB", "USER", "NAME", "GPUS", "LIMIT", "VERDICT", "WHERE", "WHY"):
        table.add_column(name, no_wrap=name not in ("WHERE", "WHY"))
    for job in jobs:
        where = job["placement"] or []
        reasons = job["reasons"]
        table.add_row(
            str(job["rank"]) if job["rank"] >= 0 else "",
            job["id"],
            safe(job["user"], 10),
            safe(job["name"], 16),
            str(job["gpus"]) + (f" x{job['tasks']}" if job["tasks"] > 1 else ""),
            duration(job["limit_s"]),
            job["verdict"],
            safe(",".join(_share(s) for s in where), 40),
            safe("; ".join(r["text"] for r in reasons), 160),
            style=_STYLE.get(job["verdict"]),
        )
    return table


def _share(share: Plain) -> str:
    indices = share["gpu_indices"]
    return f"{share['node']}[{','.join(map(str, indices))}]" if indices else str(share["node"])


def _patches(patches: list[Plain]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    for name in ("CHANGE", "JOB", "VALUES"):
        table.add_column(name)
    for patch in patches:
        values = ", ".join(f"{k}={_value(k, v)}" for k, v in patch["values"].items())
        table.add_row(f"{patch['lever']} ({patch['why']})", patch["id"], safe(values, 120))
    return table


def _value(key: str, value: object) -> str:
    if key == "begin_s":
        return "now" if not value else clock(int(str(value)))
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "none"
    return str(value)


def clock(epoch_s: int) -> str:
    """Local wall time."""
    return time.strftime("%H:%M:%S", time.localtime(epoch_s))


def expected(estimate: Plain) -> str:
    """How long a job will run in all, and what says so."""
    low, half, high, point = (
        duration(round(estimate[name])) for name in ("p10_s", "p50_s", "p90_s", "point_s")
    )
    basis = (
        f"by {estimate['n']} samples sharing {estimate['level']}"
        if estimate["n"]
        else f"by the {estimate['level']}"
    )
    beyond = "; longer than anything known: a rule of thumb" if estimate["beyond"] else ""
    return (
        f"expected run time in all {point}; 10/50/90 in 100 end within {low} / {half} / {high}; "
        f"{basis}{beyond}"
    )


def duration(seconds: int | None) -> str:
    """Slurm's way: [days-]hours:minutes:seconds."""
    if seconds is None:
        return "unlimited"
    days, rest = divmod(seconds, 86400)
    text = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text
