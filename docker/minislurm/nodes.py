# SPDX-License-Identifier: GPL-2.0-or-later
"""The states of the nodes, as the controller sees them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from . import programs


def states(env: dict[str, str], names: Iterable[str]) -> dict[str, str]:
    """In sinfo's words (idle, mixed, down*, …); empty if the controller does not answer."""
    done = programs.call("sinfo", "-h", "-N", "-o", "%N %T", env=env)
    rows = (line.split() for line in done.stdout.splitlines())
    known = {row[0]: row[1] for row in rows if row[1:]}
    missing = [name for name in names if name not in known]
    if done.returncode == 0 and missing:
        known |= _without_partition(env, missing)
    return known


def reason(env: dict[str, str], name: str) -> str:
    text = programs.call("scontrol", "-o", "show", "node", name, env=env).stdout
    match = re.search(r"\bReason=(.*?)(?: \[|$)", text, re.MULTILINE)
    return match.group(1) if match else "no reason given"


def _without_partition(env: dict[str, str], names: list[str]) -> dict[str, str]:
    """sinfo leaves out nodes that are in no partition."""
    text = programs.call("scontrol", "-o", "show", "node", ",".join(names), env=env).stdout
    found = re.findall(r"^NodeName=(\S+) .*?\bState=(\S+)", text, re.MULTILINE)
    return {name: _word(state) for name, state in found}


def _word(state: str) -> str:
    """`IDLE+NOT_RESPONDING` or `IDLE*` -> `idle*`; other flags as they are: `idle+drain`."""
    silent = "*" in state or "NOT_RESPONDING" in state
    kept = [part for part in state.replace("*", "").split("+") if part != "NOT_RESPONDING"]
    return "+".join(kept).lower() + ("*" if silent else "")
