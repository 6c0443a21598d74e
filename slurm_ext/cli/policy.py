"""``slurm-ext policy list|show``: which policies there are, where they come from and run."""

from __future__ import annotations

import argparse
from typing import Any

from rich.table import Table

from slurm_ext.engine.policy import RUNS, Policy
from slurm_ext.policies import get, registry

from .common import console, print_json, safe


def add_parser(verbs: Any) -> None:
    """Register ``policy`` with its actions."""
    parser = verbs.add_parser(
        "policy", help="list policies, or describe one",
        description="The scheduling policies that are installed.",
        epilog="example: slurm-ext policy list",
    )  # fmt: skip
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listed = actions.add_parser(
        "list", help="all policies, with what each needs",
        description="Every policy with where it can run and what it needs to know.",
        epilog="example: slurm-ext policy list",
    )  # fmt: skip
    shown = actions.add_parser(
        "show", help="source, differences, needs and parameters of one",
        description="One policy: its source, what differs from it, what it needs, and its "
        "parameters for [policy.parameters].",
        epilog="example: slurm-ext policy show tiresias",
    )  # fmt: skip
    shown.add_argument("name", metavar="NAME")
    for action, run in ((listed, run_list), (shown, run_show)):
        action.add_argument("--json", action="store_true", help="for programs")
        action.set_defaults(run=run)


def run_list(args: argparse.Namespace) -> int:
    """Print all policies.

    :raises PolicyError: an entry point that gives no policy.
    """
    policies = list(registry().values())
    if args.json:
        print_json([describe(p) for p in policies])
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("NAME", no_wrap=True)
    table.add_column("RUNS", no_wrap=True)
    table.add_column("NEEDS")
    table.add_column("WHAT IT DOES")
    for policy in policies:
        needs = ", ".join(policy.needs)
        table.add_row(safe(policy.name), policy.runs, safe(needs, 80), safe(policy.summary, 200))
    out = console()
    out.print(table)
    for name, meaning in RUNS.items():
        if any(p.runs == name for p in policies):
            out.print(f"{name}: {meaning}")
    return 0


def run_show(args: argparse.Namespace) -> int:
    """Print one policy.

    :raises PolicyError: unknown name.
    """
    found = describe(get(args.name))
    if args.json:
        print_json(found)
        return 0
    out = console()
    out.print(safe(found["name"]), safe(found["summary"], 300))
    for label, value in (
        ("source", found["cite"] or "common knowledge"),
        ("differs", found["differs"] or "nothing that we know of"),
        ("needs", ", ".join(found["needs"]) or "nothing"),
        ("runs", f"{found['runs']}: {RUNS.get(found['runs'], '')}"),
        ("rounds", f"every {found['round_s']} s" if found["round_s"] else "at every change"),
    ):
        out.print(safe(f"{label:>8}  {value}", 400))
    for name, value in found["parameters"].items():
        out.print(safe(f"{name} = {value}", 200))
    return 0


def describe(policy: Policy) -> dict[str, Any]:
    """What there is to say about a policy, as plain values."""
    return {
        "name": policy.name,
        "summary": policy.summary,
        "cite": policy.cite,
        "differs": policy.differs,
        "needs": list(policy.needs),
        "runs": policy.runs,
        "round_s": policy.round_s,
        "parameters": policy.parameters(),
    }
