"""``history sync|fit|eval|predict|report``: run times learnt from accounting."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from slurm_ext.accounting.features import Features, of_job, stem
from slurm_ext.accounting.sacct import DUMP_COMMAND, HistoryError
from slurm_ext.daemon.config import Config
from slurm_ext.errors import ConfigError
from slurm_ext.model.job import Job
from slurm_ext.slurm.choose import open_runner
from slurm_ext.slurm.times import duration_s

from .common import add_config_options, connect, console, print_json, read_config, safe
from .tables import duration

if TYPE_CHECKING:
    from slurm_ext.accounting.store import Store
    from slurm_ext.accounting.sync import SyncReport
    from slurm_ext.model.estimate import Estimate

STORE, ARTEFACT = "history.db", "durations.npz"
DAY_S = 86400
EXIT_CODES = """\
exit codes: 0 done, 1 failed (nothing to show), 2 wrong usage, 3 Slurm or slurmdbd does not answer
(what is stored is kept), 4 sacct refused, 8 history or artefact cannot be used"""


def add_parser(verbs: Any) -> None:
    """Register the verbs."""
    parser = verbs.add_parser(
        "history", help="learn run times from accounting",
        description="Read sacct, learn how long jobs run, say how well that works.",
        epilog=EXIT_CODES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    sync = _action(actions, "sync", run_sync, "read what is new from sacct, or a dump of it",
                   f"A dump is written with: {DUMP_COMMAND.replace('%', '%%')}")  # fmt: skip
    sync.add_argument("--since", metavar="DATE", help="also read back to this day (2026-01-31)")
    sync.add_argument("--dump", type=Path, metavar="FILE", help="add a dump; ask no Slurm")
    fit = _action(actions, "fit", run_fit, "learn from the store; replaces the artefact at once",
                  "The daemon loads the artefact; a bad or old one it refuses.")  # fmt: skip
    fit.add_argument(
        "--output", type=Path, metavar="FILE", help=f"default: {ARTEFACT} in state.dir"
    )
    evaluate = _action(actions, "eval", run_eval, "compare predictors, each job by its past only",
                       "Without --traces: on the site's own store.")  # fmt: skip
    evaluate.add_argument("--traces", type=Path, metavar="DIR", help="folder of public traces")
    evaluate.add_argument("--trace", action="append", metavar="NAME", help="only this (repeatable)")
    evaluate.add_argument("--boost", action="store_true", help="gradient boosting too (minutes)")
    predict = _action(actions, "predict", run_predict, "how long a job will run, and why",
                      "A job in the queue, or a made-up one by its options.")  # fmt: skip
    predict.add_argument("job", nargs="?", metavar="JOB", help="id, or ARRAY_TASK")
    for name in ("user", "account", "partition", "qos", "name", "gpu-type"):
        predict.add_argument(f"--{name}", default="", help=argparse.SUPPRESS)
    predict.add_argument("--gpus", type=int, default=0, help="GPUs of a made-up job (--user, …)")
    predict.add_argument("--cpus", type=int, default=0, help=argparse.SUPPRESS)
    predict.add_argument("--time", default="", metavar="LIMIT", help="its limit, as for sbatch")
    report = _action(actions, "report", run_report, "use, and limits that could be shorter",
                     "Suggestions only: nothing is changed.")  # fmt: skip
    report.add_argument("--days", type=float, default=90, help="jobs that ended in these days")
    report.add_argument("--user", default="", help="only this user")
    report.add_argument("--top", type=int, default=20, help="lines a table")


def _action(actions: Any, name: str, run: Any, text: str, more: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = actions.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}. {more}"
    )
    made.add_argument("--json", action="store_true", help="machine-readable output")
    add_config_options(made)
    made.set_defaults(run=run)
    return made


@contextmanager
def _stored(config: Config, *, write: bool = False) -> Iterator[Store]:
    from slurm_ext.accounting.store import Store

    path = Path(config.state.dir, STORE)
    with (Store.open if write else Store.open_readonly)(path) as store:
        yield store


def run_sync(args: argparse.Namespace) -> int:
    """``history sync``"""
    from slurm_ext.accounting.sync import import_dump, sync

    config = read_config(args)
    runner = open_runner(
        bin_dir=config.slurm.bin_dir, slurm_conf=config.slurm.slurm_conf,
        call_timeout_s=config.cycle.call_timeout_s,
    )  # fmt: skip
    with _stored(config, write=True) as store:
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
    path = args.output or Path(config.state.dir, ARTEFACT)
    with _stored(config) as store:
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


def run_eval(args: argparse.Namespace) -> int:
    """``history eval``"""
    from slurm_ext.accounting import evaluate, trials
    from slurm_ext.accounting.baselines import PREDICTORS

    names = [*PREDICTORS, *(evaluate.BOOSTED if args.boost else ())]
    if args.traces is not None:
        chosen = args.trace or list(trials.TRACES)
        sets = {name: trials.load(name, args.traces) for name in chosen}
    else:
        with _stored(read_config(args)) as store:
            sets = {"own": trials.of_attempts(store.attempts())}
    if not any(sets.values()):
        raise HistoryError("no attempt that ran and ended; run `slurm-ext history sync`")
    results = [
        result
        for name, jobs in sets.items()
        for result in evaluate.judge(name, jobs, names, _working, rank=True)
    ]
    best = evaluate.winner(results)
    if args.json:
        print_json({"winner": best, "rule": evaluate.RULE, "results": [asdict(r) for r in results]})
    else:
        print(evaluate.table(results))
        print(f"\n{best or 'no predictor'}, in parts:\n\n{evaluate.slice_table(results, best)}")
    return 0


def _working(trace: str, name: str) -> None:
    if sys.stderr.isatty():
        print(f"{trace}: {name}", file=sys.stderr)


def run_predict(args: argparse.Namespace) -> int:
    """``history predict``"""
    from slurm_ext.accounting.artefact import load  # numpy: not for every verb

    config, now_s = read_config(args), int(time.time())
    model = load(Path(config.state.dir, ARTEFACT), now_s)
    elapsed_s = 0
    if args.job:
        job = _queued(config, args.job)
        asked = of_job(job)
        if job.state.running and job.start_s is not None:
            elapsed_s = max(0, now_s - job.start_s)
    elif args.user:
        asked = _made_up(args)
    else:
        raise ConfigError(["history predict: name a JOB, or at least --user"])
    found = model.estimate(asked, elapsed_s)
    if args.json:
        print_json({
            "job": asked._asdict(), "elapsed_s": elapsed_s, "fitted_s": model.head.fitted_s,
            "estimate": None if found is None else found._asdict(),
        })  # fmt: skip
    else:
        _show_estimate(asked, found, elapsed_s)
    return 0 if found is not None else 1


def _queued(config: Config, address: str) -> Job:
    for job in connect(config).observe().jobs:
        if address in (job.address, str(job.job_id)):
            return job
    raise HistoryError(f"no job {address!r} in the queue; --user, --name, --gpus ask for any other")


def _made_up(args: argparse.Namespace) -> Features:
    limit_s = duration_s(args.time) if args.time else None
    return Features(
        args.user, args.account, args.partition, args.qos, stem(args.name), args.gpus, args.cpus,
        args.gpu_type, limit_s if isinstance(limit_s, int) else None,
    )  # fmt: skip


def _show_estimate(job: Features, found: Estimate | None, elapsed_s: int) -> None:
    out = console()
    name = f" ({job.stem})" if job.stem else ""
    out.print(safe(f"{job.user}{name}, {job.gpus} GPUs, limit {duration(job.limit_s)}", 200))
    if found is None:
        out.print("nothing known of this user, account or site")
        return
    p10, p50, p90, point = (duration(round(s)) for s in found[:4])
    out.print(f"run time in all: {point}; 10/50/90 in 100 end within {p10} / {p50} / {p90}")
    out.print(f"by {found.n} samples sharing {found.level}" if found.n else f"by the {found.level}")
    if elapsed_s:
        out.print(f"given that it has run for {duration(elapsed_s)}")
    if found.beyond:
        out.print("it has run longer than anything known: a rule of thumb", style="yellow")


def run_report(args: argparse.Namespace) -> int:
    """``history report``"""
    from slurm_ext.accounting.report import ADVICE_HEADS, advice_row, limit_advice, overestimate
    from slurm_ext.accounting.usage import usage

    now_s = int(time.time())
    where, values = "end_s > ?", [int(now_s - args.days * DAY_S)]
    with _stored(read_config(args)) as store:
        rows = [a for a in store.attempts(where, values) if args.user in ("", a.user)]
        covered, skips = store.covered(), store.skips()
    advice, share = limit_advice(rows), overestimate(rows)
    used = {by: usage(rows, now_s, by=by) for by in ("user", "account")}
    if args.json:
        print_json({
            "days": args.days, "attempts": len(rows), "skipped": skips,
            "covered": None if covered is None else asdict(covered),
            "limits": [asdict(a) for a in advice],
            "limit_over_run": None if share is None else asdict(share),
            "usage": {by: {k: asdict(u) for k, u in one.items()} for by, one in used.items()},
        })  # fmt: skip
        return 0
    out = console()
    out.print(f"{len(rows)} attempts of the last {args.days:g} days")
    if share is not None:
        out.print(f"limits are {share.p50:.1f} times the run time in the median "
                  f"({share.p10:.1f} to {share.p90:.1f}; {share.jobs} jobs)")  # fmt: skip
    for by, one in used.items():
        out.print(_table((by.upper(), "GPU-H", "DECAYED", "ATTEMPTS"), [
            (name, f"{u.gpu_s / 3600:.1f}", f"{u.decayed_gpu_s / 3600:.1f}", u.attempts)
            for name, u in sorted(one.items(), key=lambda i: -i[1].decayed_gpu_s)[: args.top]
        ]))  # fmt: skip
    rows_shown = [advice_row(one, duration) for one in advice[: args.top]]
    out.print(_table(ADVICE_HEADS, rows_shown))
    return 0


def _table(heads: tuple[str, ...], rows: list[tuple[object, ...]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, no_wrap=True)
    for row in rows:
        table.add_row(*(safe(cell, 32) for cell in row))
    return table
