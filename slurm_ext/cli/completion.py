"""``completion``: shell completion for bash and zsh."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import shtab


def add_parser(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "completion", help="print shell completion",
        description="Print a completion script for the shell.",
        epilog="example: slurm-ext completion bash > /etc/bash_completion.d/slurm-ext",
    )  # fmt: skip
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"])
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from .main import build_parser  # here: main imports this module

    sys.stdout.write(shtab.complete(build_parser(), args.shell))
    return 0
