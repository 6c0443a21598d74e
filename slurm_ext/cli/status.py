"""``status``: what the running daemon did last, and how well plans come true."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slurm_ext.daemon.client import ask
from slurm_ext.daemon.config import Config
from slurm_ext.daemon.journal import Journal
from slurm_ext.errors import JournalError, SlurmExtError
from slurm_ext.model.restart import Restart

from .common import add_config_options, console, has_journal, print_json, read_config, safe
from .tables import clock, show_plan


def add_parser(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "status", help="show what the running daemon did last",
        description="Ask the running daemon; without one, show the last cycle in the journal.",
        epilog="example: slurm-ext status --hours 24",
    )  # fmt: skip
    parser.add_argument("--hours", type=float, default=24.0, help="for the share of starts")
    parser.add_argument("--all", action="store_true", help="also jobs that are not ours to plan")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    add_config_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    config = read_config(args)
    history = _history(config, args.hours)
    try:
        data = ask(Path(config.state.run_dir), "/v1/status")
    except SlurmExtError as error:
        if args.json:
            print_json({"daemon": None, "error": str(error), **history})
        else:
            console(stderr=True).print(safe(error, 400))
            _show_history(history)
        return 1
    if args.json:
        print_json({**data, **history})
        return 0
    if data.get("jobs") is None:
        console().print("the daemon runs but has not finished a cycle yet")
    else:
        show_plan(data, everything=args.all)
    if data.get("failure"):
        failure = data["failure"]
        console().print(f"last cycle failed at {clock(failure['at_s'])}:", style="bold red")
        console().print(safe(failure["error"], 400), style="red")
    _show_history(history)
    return 0


def _history(config: Config, hours: float) -> dict[str, Any]:
    now_s = int(time.time())
    try:
        if not has_journal(config):
            return {}
        with Journal.open_readonly(config.state.journal_path) as journal:
            share = journal.start_share(int(now_s - hours * 3600))
            paused = journal.paused(now_s)
            cycles = journal.cycles(1)
            restarts = journal.restarts(int(now_s - hours * 3600))
    except JournalError as error:
        return {"journal_error": str(error)}
    return {
        "starts": {
            "hours": hours,
            "total": share.total,
            "as_planned": share.as_planned,
            "share": share.share,
            "otherwise": dict(share.by_why),
        },
        "restarts": _counts([one for one in restarts if not one.active]),
        "paused": None if paused is None else {"who": paused.who, "until_s": paused.until_s},
        "last_cycle_s": cycles[0].at_s if cycles else None,
    }


def _counts(restarts: Sequence[Restart]) -> dict[str, Any]:
    """How restarts ended, and the GPU-seconds of work they undid."""
    return {
        "outcomes": dict(Counter(one.outcome for one in restarts)),
        "requeues": sum(one.stopped for one in restarts),
        "lost_gpu_s": round(sum(one.lost_gpu_s for one in restarts if one.stopped)),
    }


def _show_history(history: dict[str, Any]) -> None:
    out = console()
    if "journal_error" in history:
        out.print(safe(history["journal_error"], 300), style="red")
        return
    if not history:
        out.print("no journal yet")
        return
    starts = history["starts"]
    if starts["total"]:
        rest = ", ".join(f"{n} {why}" for why, n in starts["otherwise"].items())
        out.print(
            f"starts in {starts['hours']:g} h: {starts['total']}, on the planned nodes "
            f"{starts['as_planned']} ({starts['share']:.0%})"
            + (f"; others: {rest}" if rest else "")
        )
    restarts = history["restarts"]
    if restarts["outcomes"]:
        how = ", ".join(f"{count} {name}" for name, count in restarts["outcomes"].items())
        out.print(
            f"restarts in {starts['hours']:g} h: {how}; {restarts['requeues']} requeued, "
            f"{restarts['lost_gpu_s']} GPU-seconds of work lost"
        )
    if history["paused"]:
        out.print(safe(f"paused by {history['paused']['who']}", 80), style="bold yellow")
