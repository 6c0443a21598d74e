"""``top``: the live view of a running daemon."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import Any

from slurm_ext.tui.app import once, watch

from .common import add_config_options, console, read_config


def add_parser(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "top", help="live view of the cluster and the decisions",
        description="Nodes, GPUs, queue and decisions of the running daemon. Keys: 1 overview, "
        "2 queue, 3 nodes, 4 changes, 5 health, arrows and enter for one job, / filter, s sort, "
        "p stop the display, q quit. NO_COLOR is honoured.",
        epilog="example: slurm-ext top --once",
    )  # fmt: skip
    parser.add_argument("--once", action="store_true", help="print one view and end")
    parser.add_argument("--every", type=float, default=1.0, metavar="S", help="seconds (1)")
    add_config_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    config = read_config(args)
    run_dir = Path(config.state.run_dir)
    if args.once:
        once(run_dir, console())
        return 0
    with contextlib.suppress(KeyboardInterrupt, EOFError):
        watch(run_dir, console(), every_s=max(0.2, args.every))
    return 0
