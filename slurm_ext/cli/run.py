"""``serve``, ``cycle``, ``plan``: running the daemon, one cycle, or only the thinking."""

from __future__ import annotations

import argparse
import logging
import time
from pathlib import Path
from typing import Any

from slurm_ext.daemon.config import Config
from slurm_ext.daemon.directory import make_directory
from slurm_ext.daemon.journal import Journal
from slurm_ext.daemon.lock import DaemonLock
from slurm_ext.daemon.logs import configure
from slurm_ext.daemon.runner import CycleResult, Runner
from slurm_ext.daemon.service import Service
from slurm_ext.daemon.snapshot import snapshot
from slurm_ext.errors import JournalError
from slurm_ext.policies import for_daemon

from .common import (
    add_config_options,
    can_write_notes,
    connect,
    has_journal,
    print_json,
    read_config,
)
from .tables import show_plan


def add_parser(verbs: Any) -> None:
    """Register the verbs."""
    serve = verbs.add_parser(
        "serve", help="run the daemon",
        description="Run the daemon until a signal ends it. SIGHUP reloads the configuration, "
        "SIGUSR1 starts a cycle at once, SIGTERM ends it (leases lapse by themselves), SIGINT "
        "ends it and gives every deferred job back first.",
        epilog="example: slurm-ext serve --set mode=observe",
    )  # fmt: skip
    serve.set_defaults(run=run_serve)
    cycle = verbs.add_parser(
        "cycle", help="run exactly one cycle",
        description="Observe, decide, apply and record once; with --dry-run send nothing.",
        epilog="example: slurm-ext cycle --dry-run --set mode=enforce",
    )  # fmt: skip
    cycle.add_argument("--dry-run", action="store_true", help="send nothing, record nothing")
    cycle.set_defaults(run=run_cycle)
    plan = verbs.add_parser(
        "plan", help="show what would be decided now, without touching anything",
        description="Observe and decide once, show the plan. Needs no daemon.",
        epilog="example: slurm-ext plan --set policy.name=sjf --all",
    )  # fmt: skip
    plan.add_argument("--all", action="store_true", help="also jobs that are not ours to plan")
    plan.set_defaults(run=run_plan)
    for parser in (serve, cycle, plan):
        add_config_options(parser)
    for parser in (cycle, plan):
        parser.add_argument("--json", action="store_true", help="machine-readable output")


def run_serve(args: argparse.Namespace) -> int:
    config = read_config(args)
    configure(config.log.level, config.log.format)
    port = connect(config)
    for_daemon(config.policy.name, config.policy.parameters)  # refuse before anything runs
    service = Service(config, port, can_write_notes(port), reload=lambda: read_config(args))
    return service.serve()


def run_cycle(args: argparse.Namespace) -> int:
    config = read_config(args)
    configure(config.log.level, config.log.format)
    if args.dry_run:
        result = _thinking(config)
    else:
        make_directory(Path(config.state.dir))
        port = connect(config)
        with (
            DaemonLock(config.state.lock_path, cluster="", now_s=int(time.time())),
            Journal(config.state.journal_path) as journal,
        ):
            result = Runner(config, port, journal, can_write_notes(port)).run()
    _show(result, config, args, everything=False)
    return 1 if result.applied.errors else 0


def run_plan(args: argparse.Namespace) -> int:
    config = read_config(args)
    configure("warning", config.log.format)
    _show(_thinking(config), config, args, everything=args.all)
    return 0


def _thinking(config: Config) -> CycleResult:
    """One cycle without a lever, with the ledger of a running daemon where it can be read."""
    port = connect(config)
    journal = None
    if has_journal(config):
        try:
            journal = Journal.open_readonly(config.state.journal_path)
        except JournalError as error:
            logging.getLogger(__name__).warning("%s; planning without the ledger", error)
    try:
        return Runner(config, port, journal, can_write_notes(port), dry_run=True).run()
    finally:
        if journal is not None:
            journal.close()


def _show(
    result: CycleResult, config: Config, args: argparse.Namespace, *, everything: bool
) -> None:
    data = snapshot(result, config)
    if args.json:
        print_json(data)
    else:
        show_plan(data, everything=everything)
