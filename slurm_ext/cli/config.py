"""``config check`` and ``config show``."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from slurm_ext.daemon.config import render
from slurm_ext.policies import for_daemon

from .common import add_config_options, console, read_config


def add_parser(verbs: Any) -> None:
    """Register the verbs."""
    parser = verbs.add_parser("config", help="check or show the configuration",
        description="The configuration: is it right, and what is in force.",
        epilog="example: slurm-ext config check",
    )  # fmt: skip
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser(
        "check", help="report every problem, exit 2 if there is one",
        description="Check files and overrides: unknown keys, units, types, ranges, the policy.",
        epilog="example: slurm-ext config check --config ./slurm_ext.toml",
    )  # fmt: skip
    check.set_defaults(run=run_check)
    show = actions.add_parser(
        "show", help="print the effective configuration",
        description="The effective configuration as TOML with comments, ready to be saved.",
        epilog="example: slurm-ext config show > /etc/slurm_ext/slurm_ext.toml",
    )  # fmt: skip
    show.set_defaults(run=run_show)
    for action in (check, show):
        add_config_options(action)


def run_check(args: argparse.Namespace) -> int:
    config = read_config(args)
    for_daemon(config.policy.name, config.policy.parameters)
    files = ", ".join(config.files) or "no file: all defaults"
    console().print(f"ok ({files}); digest {config.digest}")
    return 0


def run_show(args: argparse.Namespace) -> int:
    sys.stdout.write(render(read_config(args)))
    return 0
