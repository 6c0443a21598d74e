"""What was tried in vain, so that equal jobs need not be tried again in the same walk."""

from __future__ import annotations

from typing import NamedTuple

from slurm_ext.model.decision import Reason


class Hole(NamedTuple):
    """What a job must fit into: its planned run time and, where that is less, its limit."""

    planned_s: int
    limit_s: int

    def covers(self, other: Hole) -> bool:
        return self.planned_s >= other.planned_s and self.limit_s >= other.limit_s


class Failure(NamedTuple):
    """Why a shape does not start now, with a run time and a limit of ``hole`` or more.

    ``hopeless``: no later start was found either. What is free only shrinks during a walk.
    """

    hole: Hole
    hopeless: bool
    reasons: tuple[Reason, ...]
