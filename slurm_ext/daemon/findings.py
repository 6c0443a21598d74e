"""What doctor looks at, and what it finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slurm_ext.model.observation import Controller, Observation
from slurm_ext.slurm.fallback import Choice

from .estimates import HistoryState


class Level(StrEnum):
    """``error``: does not work; ``warning``: works worse than it could; ``ok``; ``note``."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. ``remedy`` is what to do about it, empty for ``ok``."""

    level: Level
    code: str
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What was gathered. ``admin_level``: None, Operator, Administrator or SlurmUser.

    ``skew_s``: controller clock minus ours. ``differences``: text against JSON, field by field.
    ``history``: what is learnt of run times, None if not looked at.
    ``ways``: the ways to Slurm, each tried.
    """

    controller: Controller
    observation: Observation
    admin_level: str
    skew_s: float | None
    differences: tuple[str, ...] | None
    history: HistoryState | None = None
    ways: tuple[Choice, ...] = ()
