"""``why``: the account of one job, for people."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from slurm_ext.daemon.capture import Capture
from slurm_ext.daemon.config import Config
from slurm_ext.daemon.journal import Journal
from slurm_ext.daemon.records import Change
from slurm_ext.daemon.snapshot import Plain
from slurm_ext.engine.whatif import CHANGES, what_if
from slurm_ext.errors import JournalError, SlurmExtError
from slurm_ext.model.job import Job, JobKey

from .common import console, has_journal, print_json, safe
from .replay import add_source_options, capture
from .tables import clock, duration, expected
from .why_data import account_of, verdict_of

SHAPES = 6
CHANGES_SHOWN = 5


def add_parser(verbs: Any) -> None:
    """Register the verb."""
    why = verbs.add_parser(
        "why", help="why a job waits, and what would change it",
        description="Verdict, rank against its neighbours, reasons with numbers, room by kind of "
        "node, promise, Slurm's own reason, history. --what-if decides again with another request.",
        epilog="example: slurm-ext why 4711 --what-if limit=2h --what-if gpus=4",
    )  # fmt: skip
    why.add_argument("job", help="job id or ARRAY_TASK")
    why.add_argument("--what-if", action="append", default=[], metavar="KEY=VALUE", dest="changes",
                     help=f"{', '.join(CHANGES)}; several are taken together")  # fmt: skip
    why.add_argument("--json", action="store_true", help="machine-readable output")
    add_source_options(why)
    why.set_defaults(run=run_why)


def run_why(args: argparse.Namespace) -> int:
    wanted = _wanted(args.changes)
    config, found = capture(args)
    job = _find(found, args.job)
    data = account_of(found, found.decide(), job, _history(config, job.key))
    if wanted:
        other = what_if(found.observation, found.context, job.key, wanted)
        decision = other.plan.decisions[job.key]
        data["what_if"] = {"changes": wanted, **verdict_of(decision, found.observation.now_s)}
    if args.json:
        print_json(data)
    else:
        _show(data)
    return 0


def _wanted(items: Sequence[str]) -> dict[str, str]:
    """``key=value`` items, also several in one: ``gpus=4,limit=2h``."""
    found = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not value:
            raise SlurmExtError(f"--what-if {item[:60]}: write KEY=VALUE, such as limit=2h")
        found[key.strip()] = value.strip()
    return found


def _find(found: Capture, name: str) -> Job:
    if not name.strip():
        raise SlurmExtError("which job? Give its id, or ID_TASK for one task of an array")
    hits = [j for j in found.observation.jobs if name in (j.address, str(j.job_id))]
    if not hits:
        raise SlurmExtError(
            f"job {name[:40]} is not in the queue; 'sacct -j {name[:20]}' knows ended jobs"
        )
    # Slurm remembers an ended job for MinJobAge; of an array, the part that is left counts.
    left = [j for j in hits if not j.state.ended]
    if not left:
        raise SlurmExtError(
            f"job {name[:40]} has ended ({hits[0].state.base}); 'sacct -j {name[:20]}' tells more"
        )
    return next((j for j in left if j.address == name), left[0])


def _history(config: Config, key: JobKey) -> tuple[Change, ...]:
    if not has_journal(config):
        return ()
    try:
        with Journal.open_readonly(config.state.journal_path) as journal:
            return journal.history(key)
    except JournalError:
        return ()


def _show(data: Mapping[str, Any]) -> None:
    out = console()
    rank = f", rank {data['rank']} of {data['waiting']}" if data["rank"] >= 0 else ""
    out.print(safe(f"job {data['id']}: {data['verdict']}{rank} (policy {data['policy']})", 200))
    _show_verdict(data)
    if data["estimate"] is not None:
        out.print(safe(f"  {expected(data['estimate'])}", 200))
    if data["forecast"] is not None:
        late, latest = (duration(max(0, data["forecast"][q] - data["at_s"]))
                        for q in ("p50_s", "p90_s"))  # fmt: skip
        out.print(f"  probably starts within {late} (even odds), {latest} (nine in ten)")
    if data["holds"]:
        where = ", ".join(f"{s['gpus']} GPUs on {s['node']}" for s in data["holds"])
        end_s = data["end_s"]
        until = f", at most {duration(max(0, end_s - data['at_s']))} longer" if end_s else ""
        out.print(safe(f"  holds {where}{until}", 200))
    slurm = data["slurm"]
    if slurm["reason"] and slurm["reason"] != "None":
        expects = f", expects to start it at {clock(slurm['start_s'])}" if slurm["start_s"] else ""
        out.print(safe(f"  Slurm says: {slurm['reason']}{expects}", 200))
    _show_neighbours(data)
    for nodes in data["alternatives"]:
        out.print(safe(f"  could also run on {','.join(nodes)}", 200))
    if data["verdict"] in ("wait", "never"):
        for shape in data["shapes"][:SHAPES]:
            out.print(safe(f"  {_shape(shape)}", 200))
    for changes in data["would_start_with"]:
        out.print(safe(f"  would start now with {_words(changes)} (see --what-if)", 200))
    if data["preempt"] is not None:
        out.print(safe(f"  preemption (planned): {data['preempt']['reason']['text']}", 300))
    for gainer in data["victim_for"]:
        out.print(f"  a preemption plan would requeue it for job {gainer} (planned)")
    for change in data["history"][-CHANGES_SHOWN:]:
        out.print(safe(f"  {clock(change['at_s'])} {change['verdict']}: {change['text']}", 200))
    if "what_if" in data:
        other = data["what_if"]
        asked = _words(other["changes"])
        rank = f", rank {other['rank']}" if other["rank"] >= 0 else ""
        out.print(safe(f"with {asked}: {other['verdict']}{rank}", 200))
        _show_verdict(other)


def _words(changes: Mapping[str, str]) -> str:
    return " ".join(f"{k}={v}" for k, v in changes.items())


def _show_verdict(data: Mapping[str, Any]) -> None:
    for reason in data["reasons"]:
        console().print(safe(f"  {reason['text']}", 300))
    if data["verdict"] == "wait" and data["start_in_s"]:
        nodes = f" on {','.join(data['nodes'])}" if data["nodes"] else ""
        console().print(safe(f"  promised: in {duration(data['start_in_s'])}{nodes}", 200))


def _show_neighbours(data: Mapping[str, Any]) -> None:
    """A table of the job between its neighbours: contributions of factors, or bare terms."""
    if data["rank"] < 0:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("  rank")
    table.add_column("job")
    rows = [row for row in (data["ahead"], data, data["behind"]) if row is not None]
    counts = {f["name"] for row in rows for f in row["factors"] if f["contribution"]}
    columns = [f["name"] for f in data["factors"] if f["name"] in counts] or list(data["terms"])
    if data["factors"]:
        table.add_column("score", justify="right")
    for name in columns:
        table.add_column(safe(name, 20), justify="right")
    for row in rows:
        mark = "->" if row is data else "  "
        table.add_row(f"{mark}{row['rank']}", safe(row["id"], 20), *_cells(row, columns))
    if data["factors"]:
        weights = (f"x{f['weight']:g}" for f in data["factors"] if f["name"] in counts)
        table.add_row("  (weight)", "", "", *weights, style="dim")
    console().print(table)
    for side in ("ahead", "behind"):
        if data[side] is not None:
            console().print(safe(f"  {_decided(data, side)}", 200))


def _cells(row: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    if not row["factors"]:
        return [_number(row["terms"][name]) for name in columns]
    parts = {f["name"]: f["contribution"] for f in row["factors"]}
    return [f"{sum(parts.values()):.3f}", *(f"{parts[name]:.3f}" for name in columns)]


def _decided(data: Mapping[str, Any], side: str) -> str:
    other, why = data[side], data[side]["decided_by"]
    first, second = (other["id"], data["id"]) if side == "ahead" else (data["id"], other["id"])
    values = f"{_number(why['ahead'])} against {_number(why['behind'])}"
    if why["factor"]:
        return f"job {first} is before {second} mostly by {why['factor']} ({values})"
    if why["term"] == "overdue_s":
        return f"job {first} is before {second}: it has waited longer than any job has to"
    if why["term"] == "job":
        return f"job {first} is before {second}: all equal, the older id goes first"
    return f"job {first} is before {second} by {why['term']} ({values}; the lower goes first)"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.3f}"


def _shape(shape: Plain) -> str:
    gpus = " + ".join(f"{n} {kind or 'GPUs'}" for kind, n in shape["gpus"].items()) or "no GPU"
    count = f"{shape['nodes']} node{'s' if shape['nodes'] > 1 else ''}"
    kind = f"{count} ({gpus}, {shape['cpus']} CPUs, {shape['mem_mib']} MiB)"
    if not shape["could"]:
        return f"{kind}: none could ever hold its share"
    if shape["fit"]:
        return f"{kind}: {shape['fit']} have room for its share now"
    if not shape["usable"]:
        return f"{kind}: all down, drained or not usable"
    best = f"{shape['best_gpus']} GPUs, {shape['best_cpus']} CPUs, {shape['best_mem_mib']} MiB"
    return f"{kind}: no room now; most that is free on one node: {best}"
