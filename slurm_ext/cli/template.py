"""``template list``, ``template show`` and ``template render``: batch scripts to start from."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rich.table import Table

from slurm_ext import sbatch_templates as templates
from slurm_ext.errors import ConfigError

from .common import console, print_json


def add_parser(verbs: Any) -> None:
    """Register the verbs."""
    parser = verbs.add_parser("template", help="annotated batch scripts to start from",
        description="Batch scripts with annotations, for common trainers.",
        epilog="example: slurm-ext template list",
    )  # fmt: skip
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser(
        "list", help="names and purposes", description="The templates that are installed.",
        epilog="example: slurm-ext template list",
    )  # fmt: skip
    listing.add_argument("--json", action="store_true", help="machine-readable output")
    listing.set_defaults(run=run_list)
    show = actions.add_parser(
        "show", help="print one as it is",
        description="Print a template with the variables that 'render' can set.",
        epilog="example: slurm-ext template show ddp-single-node",
    )  # fmt: skip
    render = actions.add_parser(
        "render", help="print one with your values",
        description="Print a template with other values: of its #SBATCH options (gpus-per-node=4), "
        "of its annotations (gpus=1..4) and of the variables at its top (WORK=500).",
        epilog="example: slurm-ext template render ddp-single-node gpus=1..4 time=2:00:00 "
        "> train.sbatch",
    )  # fmt: skip
    for action in (show, render):
        action.add_argument("name", choices=sorted(templates.names()), metavar="NAME")
    render.add_argument("values", nargs="*", metavar="KEY=VALUE")
    show.set_defaults(run=run_show)
    render.set_defaults(run=run_render)


def run_list(args: argparse.Namespace) -> int:
    found = {name: templates.purpose(name) for name in templates.names()}
    if args.json:
        print_json(found)
        return 0
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, purpose in found.items():
        table.add_row(name, purpose)
    console().print(table)
    return 0


def run_show(args: argparse.Namespace) -> int:
    sys.stdout.write(templates.text(args.name))
    return 0


def run_render(args: argparse.Namespace) -> int:
    values = dict(item.partition("=")[::2] for item in args.values)
    if bad := [item for item in args.values if "=" not in item]:
        raise ConfigError([f"{item[:60]!r}: expected KEY=VALUE" for item in bad])
    sys.stdout.write(templates.render(args.name, values))
    return 0
