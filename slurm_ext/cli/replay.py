"""``snapshot``, ``replay``: what a decision rests on in a file, and deciding it again."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from slurm_ext.daemon.annotations import AnnotationReader
from slurm_ext.daemon.capture import Capture, anonymous, fingerprint, load, save
from slurm_ext.daemon.config import Config
from slurm_ext.daemon.context import context, wants_factors
from slurm_ext.daemon.estimates import BUDGET_ONCE_S, Estimator
from slurm_ext.daemon.journal import Journal
from slurm_ext.daemon.topology import read_topology
from slurm_ext.engine.settings import Memory

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


def add_parser(verbs: Any) -> None:
    """Register the verbs."""
    snap = verbs.add_parser(
        "snapshot", help="write all that a decision rests on to a file",
        description="Observation, ledger and settings of this moment, for 'replay' anywhere.",
        epilog="example: slurm-ext snapshot queue.json.gz --anonymise",
    )  # fmt: skip
    snap.add_argument("file", type=Path, help="a name ending in .gz is compressed")
    snap.add_argument(
        "--anonymise", action="store_true",
        help="replace the names of users, accounts, jobs, nodes, partitions, and all texts",
    )  # fmt: skip
    add_source_options(snap)
    snap.set_defaults(run=run_snapshot)
    again = verbs.add_parser(
        "replay", help="decide a snapshot again",
        description="Decide a snapshot again and compare with the plan of then; exit code 1 if "
        "they differ.",
        epilog="example: slurm-ext replay queue.json.gz",
    )  # fmt: skip
    again.add_argument("file", type=Path)
    again.add_argument("--json", action="store_true", help="machine-readable output")
    again.set_defaults(run=run_replay)


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """``--from FILE`` and the configuration, for every verb that looks at a decision."""
    add_config_options(parser)
    parser.add_argument(
        "--from", type=Path, metavar="FILE", dest="source",
        help="a snapshot instead of the cluster",
    )  # fmt: skip


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
    obs = port.observe(site_factors=wants_factors(config))
    cluster = obs.controller.value("ClusterName")
    ctx = context(
        config, ledger=ledger, memory=Memory(), paused=paused, can_note=can_write_notes(port),
        estimates=Estimator(BUDGET_ONCE_S).of(obs.jobs, config, cluster, obs.now_s),
        topology=read_topology(config.topology),
        annotations=AnnotationReader(len(obs.jobs)).read(obs.jobs),
    )  # fmt: skip
    return config, Capture(obs, ctx)


def run_snapshot(args: argparse.Namespace) -> int:
    _, found = capture(args)
    save(anonymous(found) if args.anonymise else found, args.file)
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
