"""``frag``: free GPUs that are of no use, who is in the way, and what would make room."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from rich.table import Table

from slurm_ext.daemon.capture import Capture
from slurm_ext.daemon.snapshot import Plain
from slurm_ext.engine.frag import (
    Fragmentation,
    fragmentation,
    largest_waiting,
    per_gpu_of,
    target,
)
from slurm_ext.errors import SlurmExtError
from slurm_ext.model.decision import Stage, Verdict
from slurm_ext.model.job import Job, JobKey

from .common import console, print_json, safe
from .replay import add_source_options, capture
from .tables import duration

SHOWN = 20


def add_parser(verbs: Any) -> None:
    """Register the verb."""
    frag = verbs.add_parser(
        "frag", help="free GPUs nobody can use, and what would make room",
        description="Stranded GPUs (no CPUs or memory left for them) and fragments (too few on a "
        "node for the target), each with the job in the way, and the fewest running jobs that "
        "would have to end or be elsewhere. The target is the largest request that waits for room, "
        "or --gpus.",
        epilog="example: slurm-ext frag --gpus 16 --nodes 2",
    )  # fmt: skip
    frag.add_argument("--gpus", type=int, default=0, metavar="N", help="GPUs in all")
    frag.add_argument("--nodes", type=int, default=0, metavar="M",
                      help="on so many nodes, evenly (default: the fewest)")  # fmt: skip
    frag.add_argument("--type", default="", metavar="TYPE", help="GPU type (default: any)")
    frag.add_argument("--partition", default="", metavar="NAME",
                      help="default: the cluster's default partition")  # fmt: skip
    frag.add_argument("--json", action="store_true", help="machine-readable output")
    add_source_options(frag)
    frag.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    _, found = capture(args)
    obs = found.observation
    need = per_gpu_of([j for j in obs.jobs if not j.state.ended])
    wanted = _asked(found, args) if args.gpus or args.nodes else _largest(found)
    result = fragmentation(obs, found.context, need, wanted)
    data = plain(found, result, wanted)
    if args.json:
        print_json(data)
    else:
        _show(data)
    return 0


def _asked(found: Capture, args: argparse.Namespace) -> Job:
    obs = found.observation
    if args.gpus < 1 or args.nodes < 0:
        raise SlurmExtError("--gpus: give the number of GPUs in all, at least 1")
    _known("--type", args.type, sorted({g.type for n in obs.nodes for g in n.gpus}))
    _known("--partition", args.partition, [p.name for p in obs.partitions])
    default = next((p.name for p in obs.partitions if p.is_default), obs.partitions[0].name)
    need = per_gpu_of([j for j in obs.jobs if not j.state.ended])
    try:
        return target(obs, args.gpus, args.nodes, args.type, args.partition or default, need)
    except ValueError as error:
        raise SlurmExtError(f"--gpus {args.gpus}: {error}") from error


def _known(option: str, name: str, names: Sequence[str]) -> None:
    if name and name not in names:
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names) or 'none'}"
        raise SlurmExtError(f"{option} {name[:60]}: unknown; {hint}")


def _largest(found: Capture) -> Job | None:
    """The largest request that waits because there is no room."""
    plan = found.decide().plan
    waiting = [
        key
        for key in plan.order
        if plan.decisions[key].verdict is Verdict.WAIT
        and any(r.stage is Stage.PLACE for r in plan.decisions[key].reasons)
    ]
    return largest_waiting(found.observation, waiting)


def plain(found: Capture, result: Fragmentation, wanted: Job | None) -> Plain:
    """What ``frag --json`` prints; its shape is documented in docs/explain.md."""
    jobs = {j.key: j for j in found.observation.jobs}
    room = result.room
    return {
        "at_s": found.observation.now_s,
        "gpus": result.gpus,
        "free": result.free,
        "whole_nodes": result.whole_nodes,
        "stranded": result.stranded,
        "fragments": result.fragments,
        "unusable": result.unusable,
        "per_gpu": {"cpus": result.per_gpu.cpus, "mem_mib": result.per_gpu.mem_mib},
        "target": _target(wanted),
        "nodes": [
            {"name": x.node, "gpus": x.gpus, "free": x.free, "stranded": x.stranded,
             "fragments": x.fragments, "short": x.short,
             "culprits": [_job(jobs, k) for k in x.culprits]}
            for x in result.losses
        ],
        "nodes_unlisted": result.unlisted,
        "room": None if room is None else {
            "verdict": room.verdict,
            "nodes": list(room.placement.nodes) if room.placement else [],
            "fewest": room.fewest,
            "moves": [
                {**_job(jobs, m.key), "nodes": list(m.nodes), "gpus": m.gpus,
                 "elsewhere": list(m.elsewhere)}
                for m in room.moves
            ],
        },
    }  # fmt: skip


def _target(wanted: Job | None) -> Plain | None:
    if wanted is None:
        return None
    request = wanted.request
    return {
        "id": wanted.address if wanted.job_id else None,
        "gpus": request.gpus,
        "nodes": request.nodes_min,
        "gpu_type": request.gpu_type,
        "partitions": list(wanted.partitions),
    }


def _job(jobs: dict[JobKey, Job], key: JobKey) -> Plain:
    job = jobs[key]
    return {"id": job.address, "user": job.user, "end_s": job.end_s}


def _show(data: Plain) -> None:
    out = console()
    out.print(
        f"{data['free']} of {data['gpus']} GPUs are free, {data['whole_nodes']} of them on idle "
        f"nodes; {data['unusable']} more are on nodes that are down or drained"
    )
    need = data["per_gpu"]
    beside = f"{need['cpus']} CPUs" + (f" and {need['mem_mib']} MiB" if need["mem_mib"] else "")
    out.print(f"stranded: {data['stranded']} (free, without the usual {beside} a GPU)")
    if data["target"] is not None:
        out.print(safe(f"target: {_target_text(data['target'])}", 200))
        out.print(f"fragments: {data['fragments']} (free, but too few on their node for it)")
    else:
        out.print("no job waits for room; --gpus N asks about a request of N GPUs")
    if data["nodes"]:
        out.print(_table(data["nodes"][:SHOWN]))
    hidden = len(data["nodes"][SHOWN:]) + data["nodes_unlisted"]
    if hidden:
        out.print(f"({hidden} more nodes; --json lists up to 100)", style="dim")
    if data["room"] is not None:
        for line in _room(data["room"], data["at_s"]):
            out.print(safe(line, 300))


def _target_text(target: Plain) -> str:
    kind = f" {target['gpu_type']}" if target["gpu_type"] else ""
    who = f"job {target['id']}" if target["id"] else "a request"
    nodes = f"{target['nodes']} node{'s' if target['nodes'] > 1 else ''}"
    where = ",".join(target["partitions"])
    return f"{who}: {target['gpus']}{kind} GPUs on at least {nodes} of {where}"


def _table(nodes: Sequence[Plain]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("NODE", "FREE", "STRANDED", "FRAGMENTS", "SHORT OF", "IN THE WAY"):
        table.add_column(name)
    for x in nodes:
        who = ", ".join(f"{c['id']} ({c['user']})" for c in x["culprits"]) or "nobody"
        table.add_row(
            safe(x["name"]), f"{x['free']}/{x['gpus']}", str(x["stranded"] or ""),
            str(x["fragments"] or ""), x["short"] or "GPUs", safe(who, 80),
        )  # fmt: skip
    return table


def _room(room: Plain, now_s: int) -> list[str]:
    if room["verdict"] == "never":
        return ["the nodes that are usable now could not hold it even if they were empty"]
    where = ",".join(room["nodes"])
    if room["verdict"] == "fits":
        return [f"it fits now on {where}"]
    proven = "" if room["fewest"] else " (perhaps not the fewest)"
    lines = [f"room on {where} after {len(room['moves'])} move(s){proven}:"]
    for move in room["moves"]:
        end = (
            f" (in {duration(max(0, move['end_s'] - now_s))} at the latest)"
            if move["end_s"]
            else ""
        )
        to = f"could be on {','.join(move['elsewhere'])}" if move["elsewhere"] else f"must end{end}"
        at = ",".join(move["nodes"])
        lines.append(f"  job {move['id']} ({move['user']}), {move['gpus']} GPUs on {at}: {to}")
    return lines
