"""``doctor``: is this cluster ready for us, and what to do where it is not."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from typing import Any

from slurm_ext.daemon.doctor import examine
from slurm_ext.daemon.estimates import BUDGET_ONCE_S, Estimator
from slurm_ext.daemon.findings import Facts, Finding, Level
from slurm_ext.slurm.choose import open_runner
from slurm_ext.slurm.probe import probe

from .common import add_config_options, connect, console, print_json, read_config, safe, user_name

_STYLE = {Level.OK: "green", Level.NOTE: "cyan", Level.WARNING: "yellow", Level.ERROR: "bold red"}


def add_parser(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "doctor", help="check this cluster and this account, with remedies",
        description="Versions, privileges, scheduler and priority settings, GRES, clocks, parsing. "
        "Exit code 1 if something cannot work.",
        epilog="example: slurm-ext doctor --set mode=enforce",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    add_config_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    config = read_config(args)
    port = connect(config)
    controller = port.controller()
    runner = open_runner(
        bin_dir=config.slurm.bin_dir,
        slurm_conf=config.slurm.slurm_conf,
        call_timeout_s=config.cycle.call_timeout_s,
    )
    found = probe(
        runner, user=user_name(), uid=os.geteuid(), slurm_user=controller.value("SlurmUser")
    )
    observation = port.observe()
    estimator = Estimator(BUDGET_ONCE_S)
    estimator.of(observation.jobs, config, controller.value("ClusterName"), observation.now_s)
    facts = Facts(
        controller=controller,
        observation=observation,
        admin_level=found.admin_level,
        skew_s=found.skew_s,
        differences=tuple(port.crosscheck()),
        history=estimator.state,
        ways=port.check(),
    )
    findings = examine(facts, config)
    if args.json:
        print_json([asdict(f) for f in findings])
    else:
        _show(findings)
    return 1 if any(f.level is Level.ERROR for f in findings) else 0


def _show(findings: list[Finding]) -> None:
    out = console()
    for finding in findings:
        out.print(f"{finding.level:<8}", style=_STYLE[finding.level], end="")
        out.print(safe(finding.text, 400))
        if finding.remedy:
            out.print(safe(f"        -> {finding.remedy}", 400), style="dim")
