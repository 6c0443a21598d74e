"""``history eval`` and ``predict``: how good run times are foretold, and what of one job."""

from __future__ import annotations

import argparse
import sys
import time

from slurm_ext.accounting.features import Features, of_job, stem
from slurm_ext.accounting.sacct import HistoryError
from slurm_ext.daemon.config import Config
from slurm_ext.errors import ConfigError
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import Job
from slurm_ext.slurm.times import duration_s

from .common import connect, console, print_json, read_config, safe
from .history_store import stored
from .tables import duration, expected


def run_eval(args: argparse.Namespace) -> int:
    """``history eval``"""
    from slurm_ext.accounting import evaluate, trials
    from slurm_ext.accounting.baselines import PREDICTORS

    names = [*PREDICTORS, *(evaluate.BOOSTED if args.boost else ())]
    if args.traces is not None:
        chosen = args.trace or list(trials.TRACES)
        sets = {name: trials.load(name, args.traces) for name in chosen}
    else:
        with stored(read_config(args)) as store:
            sets = {"own": trials.of_attempts(store.attempts())}
    if not any(sets.values()):
        raise HistoryError("no attempt that ran and ended; run `slurm-ext history sync`")
    results = [
        result
        for name, jobs in sets.items()
        for result in evaluate.judge(name, jobs, names, _working, rank=True)
    ]
    best = evaluate.winner(results)
    if args.plots is not None:
        from slurm_ext.accounting.plots import draw

        for path in draw(results, best, args.plots):
            print(f"drawn: {path}", file=sys.stderr)
    if args.json:
        print_json({"winner": best, "rule": evaluate.RULE, "results": [r.plain() for r in results]})
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

    if not args.job and not args.user:
        raise ConfigError(["history predict: name a JOB, or at least --user"])
    config, now_s = read_config(args), int(time.time())
    max_age_s = config.history.max_age_days * 86400
    model = load(config.artefact_path, now_s, max_age_s=max_age_s)
    elapsed_s = 0
    if args.job:
        job = _queued(config, args.job)
        asked = of_job(job)
        if job.state.running and job.start_s is not None:
            elapsed_s = max(0, now_s - job.start_s)
    else:
        asked = _made_up(args)
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
    out.print(expected(found._asdict()))
    if elapsed_s:
        out.print(f"given that it has run for {duration(elapsed_s)}")
