"""What ``doctor`` asks Slurm besides an observation: our rights, the controller's clock."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from slurm_ext.errors import SlurmCommandError, SlurmUnavailableError

from .run import Runner

_SDIAG_NOW = re.compile(r"^sdiag output at .*\((\d+)\)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Probe:
    """``admin_level``: SlurmUser, Administrator, Operator, None, or ``unknown`` without slurmdbd.

    ``skew_s``: controller clock minus ours, to about a second; None if it does not say.
    """

    admin_level: str
    skew_s: float | None


def probe(runner: Runner, *, user: str, uid: int, slurm_user: str) -> Probe:
    """Ask for our rights and the controller's clock; never raises for a missing slurmdbd."""
    return Probe(_admin_level(runner, user, uid, slurm_user), _skew(runner))


def _admin_level(runner: Runner, user: str, uid: int, slurm_user: str) -> str:
    if uid == 0 or user == slurm_user.partition("(")[0]:
        return "SlurmUser"
    try:
        text = runner.ask(
            ["sacctmgr", "-n", "-P", "show", "user", f"name={user}", "format=AdminLevel"]
        )
    except (SlurmCommandError, SlurmUnavailableError):
        return "unknown"
    level = text.strip().splitlines()[:1]
    return level[0].strip() or "None" if level else "None"


def _skew(runner: Runner) -> float | None:
    before = time.time()
    try:
        found = _SDIAG_NOW.search(runner.ask(["sdiag"]))
    except (SlurmCommandError, SlurmUnavailableError):
        return None
    if found is None:
        return None
    middle = (before + time.time()) / 2
    # sdiag prints whole seconds: half a second is the best guess of what it cut off.
    return int(found.group(1)) + 0.5 - middle
