"""``why``, ``snapshot``, ``replay``: explaining decisions and taking them again."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_ext.daemon.annotations import AnnotationReader
from slurm_ext.daemon.capture import Capture, anonymous, fingerprint, load, save
from slurm_ext.daemon.config import Config
from slurm_ext.daemon.context import context
from slurm_ext.daemon.journal import Journal
from slurm_ext.daemon.records import Change
from slurm_ext.daemon.topology import read_topology
from slurm_ext.engine.cycle import Step
from slurm_ext.engine.explain import sentence
from slurm_ext.engine.settings import Memory
from slurm_ext.engine.whatif import what_if
from slurm_ext.errors import JournalError, SlurmExtError
from slurm_ext.model.decision import Decision, Reason
from slurm_ext.model.job import Job, JobKey

from .common import (
    add_config_options,
    can_write_notes,
    connect,
    console,
    has_journal,
    print_json,
    read_config,
    safe,
)
from .tables import clock, duration


def add_parser(verbs: Any) -> None:
    """Register the verbs."""
    why = verbs.add_parser(
        "why", help="why a job waits, and what would change it",
        description="Verdict, rank against its neighbours, reasons with numbers, alternatives, "
        "promise, Slurm's own reason, history. --what-if decides again with another request.",
        epilog="example: slurm-ext why 4711 --what-if limit=2h --what-if gpus=4",
    )  # fmt: skip
    why.add_argument("job", help="job id or ARRAY_TASK")
    why.add_argument("--what-if", action="append", default=[], metavar="KEY=VALUE", dest="changes",
                     help="gpus, nodes, cpus, mem, type, limit or partition")  # fmt: skip
    why.set_defaults(run=run_why)
    snap = verbs.add_parser(
        "snapshot", help="write all that a decision rests on to a file",
        description="Observation, ledger and settings of this moment, for 'replay' anywhere.",
        epilog="example: slurm-ext snapshot queue.json.gz --anonymous",
    )  # fmt: skip
    snap.add_argument("file", type=Path, help="a name ending in .gz is compressed")
    snap.add_argument("--anonymous", action="store_true", help="mask users, names and texts")
    snap.set_defaults(run=run_snapshot)
    again = verbs.add_parser(
        "replay", help="decide a snapshot again",
        description="Decide a snapshot again and compare with the plan of then; exit code 1 if "
        "they differ.",
        epilog="example: slurm-ext replay queue.json.gz",
    )  # fmt: skip
    again.add_argument("file", type=Path)
    again.set_defaults(run=run_replay)
    for parser in (why, snap):
        add_config_options(parser)
        parser.add_argument(
            "--from", type=Path, metavar="FILE", dest="source",
            help="a snapshot instead of the cluster",
        )  # fmt: skip
    for parser in (why, again):
        parser.add_argument("--json", action="store_true", help="machine-readable output")


def capture(args: argparse.Namespace) -> tuple[Config, Capture]:
    """What there is now, or what was in the snapshot named by ``--from``."""
    config = read_config(args)
    if args.source is not None:
        return config, load(args.source)
    port = connect(config)
    ledger, paused = {}, False
    if has_journal(config):
        with Journal.open_readonly(config.state.journal_path) as journal:
            ledger = journal.entries()
            paused = journal.paused(int(time.time())) is not None
    obs = port.observe()
    ctx = context(
        config, ledger=ledger, memory=Memory(), paused=paused, can_note=can_write_notes(port),
        topology=read_topology(config.topology),
        annotations=AnnotationReader(len(obs.jobs)).read(obs.jobs),
    )  # fmt: skip
    return config, Capture(obs, ctx)


def run_snapshot(args: argparse.Namespace) -> int:
    _, found = capture(args)
    save(anonymous(found) if args.anonymous else found, args.file)
    console().print(safe(f"{args.file}: {len(found.observation.jobs)} jobs", 200))
    return 0


def run_replay(args: argparse.Namespace) -> int:
    found = load(args.file)
    step = found.decide()
    same = fingerprint(step) == found.recorded
    verdicts: dict[str, int] = {}
    for decision in step.plan.decisions.values():
        verdicts[decision.verdict] = verdicts.get(decision.verdict, 0) + 1
    if args.json:
        print_json({"same": same, "fingerprint": fingerprint(step), "verdicts": verdicts})
    else:
        console().print("the same plan" if same else "ANOTHER plan than when it was written")
        console().print(", ".join(f"{n} {v}" for v, n in sorted(verdicts.items())))
    return 0 if same else 1


def _nodes(decision: Decision) -> tuple[str, ...]:
    return decision.placement.nodes if decision.placement else ()


def run_why(args: argparse.Namespace) -> int:
    config, found = capture(args)
    job = _find(found, args.job)
    step = found.decide()
    data = _account(found, step, job)
    data["history"] = [_change(c) for c in _history(config, job.key)]
    if args.changes:
        wanted = dict(item.partition("=")[::2] for item in args.changes)
        other = what_if(found.observation, found.context, job.key, wanted)
        decision = other.plan.decisions[job.key]
        data["what_if"] = {"changes": wanted, **_verdict(decision, found.observation.now_s)}
    if args.json:
        print_json(data)
    else:
        _show(data)
    return 0


def _find(found: Capture, name: str) -> Job:
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


def _account(found: Capture, step: Step, job: Job) -> dict[str, Any]:
    decision = step.plan.decisions[job.key]
    place = step.plan.order.index(job.key) if job.key in step.plan.order else -1
    neighbours = [] if place < 0 else list(step.plan.order[max(0, place - 1) : place + 2])
    by_key = {j.key: j for j in found.observation.jobs}
    return {
        "id": job.address,
        "state": str(job.state.base),
        "slurm_reason": job.reason_text or job.reason,
        **_verdict(decision, found.observation.now_s),
        "rank": decision.rank,
        "waiting": len(step.plan.order),
        "policy": step.plan.policy,
        "neighbours": [
            {"id": by_key[k].address, "rank": step.plan.decisions[k].rank,
             "terms": {t.name: t.value for t in step.plan.decisions[k].terms}}
            for k in neighbours
        ],
        "alternatives": [list(p.nodes) for p in decision.alternatives],
    }  # fmt: skip


def _verdict(decision: Decision, now_s: int) -> dict[str, Any]:
    return {
        "verdict": str(decision.verdict),
        "reasons": [_reason(r) for r in decision.reasons],
        "start_in_s": None if decision.start_s is None else max(0, decision.start_s - now_s),
        "nodes": list(_nodes(decision)),
    }


def _reason(reason: Reason) -> dict[str, Any]:
    return {"code": reason.code, "stage": str(reason.stage), "text": sentence(reason),
            "facts": dict(reason.facts)}  # fmt: skip


def _history(config: Config, key: JobKey) -> tuple[Change, ...]:
    if not has_journal(config):
        return ()
    try:
        with Journal.open_readonly(config.state.journal_path) as journal:
            return journal.history(key)
    except JournalError:
        return ()


def _change(change: Change) -> dict[str, Any]:
    told = Reason(change.code, change.stage, change.facts) if change.stage else None
    return {"at_s": change.at_s, "verdict": str(change.verdict),
            "text": sentence(told) if told else change.code}  # fmt: skip


def _show(data: Mapping[str, Any]) -> None:
    out = console()
    rank = f", rank {data['rank']} of {data['waiting']}" if data["rank"] >= 0 else ""
    out.print(safe(f"job {data['id']}: {data['verdict']}{rank} (policy {data['policy']})", 200))
    _show_verdict(data)
    if data["slurm_reason"]:
        out.print(safe(f"  Slurm says: {data['slurm_reason']}", 200))
    for other in data["neighbours"]:
        terms = ", ".join(f"{n} {_number(v)}" for n, v in other["terms"].items())
        mark = "->" if other["id"] == data["id"] else "  "
        out.print(safe(f"  {mark} rank {other['rank']:>4}  job {other['id']:<10} {terms}", 200))
    for nodes in data["alternatives"]:
        out.print(safe(f"  could also run on {','.join(nodes)}", 200))
    for change in data["history"][-5:]:
        out.print(safe(f"  {clock(change['at_s'])} {change['verdict']}: {change['text']}", 200))
    if "what_if" in data:
        asked = " ".join(f"{k}={v}" for k, v in data["what_if"]["changes"].items())
        out.print(safe(f"with {asked}: {data['what_if']['verdict']}", 200))
        _show_verdict(data["what_if"])


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.3f}"


def _show_verdict(data: Mapping[str, Any]) -> None:
    for reason in data["reasons"]:
        console().print(safe(f"  {reason['text']}", 300))
    if data["start_in_s"]:
        nodes = f" on {','.join(data['nodes'])}" if data["nodes"] else ""
        console().print(safe(f"  promised: in {duration(data['start_in_s'])}{nodes}", 200))
