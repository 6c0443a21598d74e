"""``history sync|fit|eval|predict|report``: run times learnt from accounting."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_ext.accounting.sacct import DUMP_COMMAND
from slurm_ext.errors import ConfigError
from slurm_ext.slurm.choose import open_runner

from .common import add_config_options, console, print_json, read_config, safe
from .history_predict import run_eval, run_predict
from .history_report import run_report
from .history_store import stored

if TYPE_CHECKING:
    from slurm_ext.accounting.sync import SyncReport

EXIT_CODES = (
    "exit codes: 0 done, 1 failed (nothing to show), 2 wrong usage, 3 Slurm or slurmdbd does not "
    "answer (what is stored is kept), 4 sacct refused, 8 history or artefact cannot be used"
)


EXAMPLES = {
    "sync": ("sync --since 2026-01-31", "sync --dump sacct.txt"),
    "fit": ("fit",),
    "eval": ("eval", "eval --traces traces --trace philly15k"),
    "predict": ("predict 4711", "predict --user alice --gpus 4 --time 8:00:00"),
    "report": ("report --days 30 --user alice",),
}


def add_parser(verbs: Any) -> None:
    """Register the verbs."""
    parser = verbs.add_parser(
        "history", help="learn run times from accounting",
        description="Read sacct, learn how long jobs run, say how well that works.",
        epilog=f"{EXIT_CODES}\nexample: slurm-ext history sync",
    )  # fmt: skip
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    sync = _action(actions, "sync", run_sync, "read what is new from sacct, or a dump of it",
                   f"A dump is written with: {DUMP_COMMAND.replace('%', '%%')}")  # fmt: skip
    sync.add_argument("--since", metavar="DATE", help="also read back to this day (2026-01-31)")
    sync.add_argument("--dump", type=Path, metavar="FILE", help="add a dump; ask no Slurm")
    fit = _action(actions, "fit", run_fit, "learn from the store; replaces the artefact at once",
                  "The daemon loads the artefact; a bad or old one it refuses.")  # fmt: skip
    fit.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="default: history.artefact of the configuration",
    )
    evaluate = _action(actions, "eval", run_eval, "compare predictors, each job by its past only",
                       "Without --traces: on the site's own store.")  # fmt: skip
    evaluate.add_argument("--traces", type=Path, metavar="DIR", help="folder of public traces")
    evaluate.add_argument("--trace", action="append", metavar="NAME", help="only this (repeatable)")
    evaluate.add_argument("--boost", action="store_true", help="gradient boosting too (minutes)")
    evaluate.add_argument(
        "--plots", type=Path, metavar="DIR", help="draw each trace there (extra plot: matplotlib)"
    )
    predict = _action(actions, "predict", run_predict, "how long a job will run, and why",
                      "A job in the queue, or a made-up one by its options.")  # fmt: skip
    predict.add_argument("job", nargs="?", metavar="JOB", help="id, or ARRAY_TASK")
    for name in ("user", "account", "partition", "qos", "name", "gpu-type"):
        predict.add_argument(f"--{name}", default="", help=argparse.SUPPRESS)
    predict.add_argument("--gpus", type=int, default=0, help="GPUs of a made-up job (--user, …)")
    predict.add_argument("--cpus", type=int, default=0, help=argparse.SUPPRESS)
    predict.add_argument("--time", default="", metavar="LIMIT", help="its limit, as for sbatch")
    report = _action(actions, "report", run_report, "use, restarts, requests that could be smaller",
                     "Suggestions only: nothing is changed.")  # fmt: skip
    report.add_argument("--days", type=float, default=90, help="jobs that ended in these days")
    report.add_argument("--user", default="", help="only this user")
    report.add_argument("--top", type=int, default=20, help="lines a table")


def _action(actions: Any, name: str, run: Any, text: str, more: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = actions.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}. {more}",
        epilog="\n".join(f"example: slurm-ext history {line}" for line in EXAMPLES[name]),
    )
    made.add_argument("--json", action="store_true", help="machine-readable output")
    add_config_options(made)
    made.set_defaults(run=run)
    return made


def run_sync(args: argparse.Namespace) -> int:
    """``history sync``"""
    from slurm_ext.accounting.sync import import_dump, sync

    config = read_config(args)
    runner = open_runner(
        bin_dir=config.slurm.bin_dir, slurm_conf=config.slurm.slurm_conf,
        call_timeout_s=config.cycle.call_timeout_s,
    )  # fmt: skip
    with stored(config, write=True) as store:
        if args.dump is not None:
            report = import_dump(store, args.dump)
        else:
            report = sync(
                store, runner, int(time.time()), since_s=_day(args.since),
                progress=None if args.json else _progress,
            )  # fmt: skip
    _show_sync(report, json=args.json)
    if not report.stopped:
        return 0
    return 3 if report.unavailable else 4


def _day(text: str | None) -> int | None:
    if not text:
        return None
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
    except ValueError as error:
        raise ConfigError([f"--since: {error}; expected a date such as 2026-01-31"]) from error


def _progress(start_s: int, end_s: int, count: int) -> None:
    if sys.stderr.isatty():
        day = time.strftime("%Y-%m-%d", time.gmtime(end_s))
        print(f"\rread up to {day}: {count} attempts ", end="", file=sys.stderr, flush=True)


def _show_sync(report: SyncReport, *, json: bool) -> None:
    covered = None if report.covered is None else asdict(report.covered)
    if json:
        print_json({
            "pages": report.pages, "read": report.read, "new": report.new, "total": report.total,
            "skipped": dict(report.skipped.counts), "examples": report.skipped.examples,
            "notes": report.notes, "stopped": report.stopped, "covered": covered,
        })  # fmt: skip
        return
    out = console()
    out.print(f"{report.new} new attempts, {report.total} in all; {report.pages} windows read")
    if report.covered is not None:
        out.print(
            f"complete from {_when(report.covered.from_s)} to {_when(report.covered.until_s)}"
        )
    for reason, count in report.skipped.counts.most_common():
        example = (report.skipped.examples.get(reason) or [""])[0]
        out.print(
            safe(f"left out {count}: {reason}" + (f", e.g. {example}" if example else ""), 200)
        )
    for note in (*report.notes, *([report.stopped] if report.stopped else [])):
        console(stderr=True).print(safe(note, 400))


def _when(epoch_s: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(epoch_s))


def run_fit(args: argparse.Namespace) -> int:
    """``history fit``"""
    from slurm_ext.accounting.fit import fit

    config = read_config(args)
    path = args.output or config.artefact_path
    with stored(config) as store:
        head = fit(store, path, int(time.time()))
    if args.json:
        print_json({"path": str(path), **asdict(head)})
        return 0
    out = console()
    out.print(safe(f"learnt from {head.attempts} attempts: {path}", 300))
    if head.coverage is None:
        out.print(f"last week: {head.judged} jobs, too few to judge")
    else:
        out.print(
            f"last week, predicted at submit: {head.coverage:.0%} of {head.judged} run times "
            f"within p10-p90 (80% is right), mean accuracy {head.ea:.3f}"
        )
    return 0
