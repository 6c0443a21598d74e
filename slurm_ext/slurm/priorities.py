"""What ``sprio`` shows of waiting jobs: SiteFactor, and Slurm's own factors one by one.

``squeue``, ``scontrol`` and slurmrestd show only their weighted sum. One call is one message to
slurmctld (REQUEST_PRIORITY_FACTORS), whatever columns are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from slurm_ext.errors import SlurmCommandError, SlurmUnavailableError
from slurm_ext.model.job import Job, SlurmFactors
from slurm_ext.model.observation import Controller, Problem

from .run import Runner

ARGUMENTS = ("-h", "-o", "%i %S %a %f %q %p %j %b")
_LINE = re.compile(r"(\d{1,11}) ([+-]?\d{1,11})((?: \S{1,40}){6})")
_FACTOR = re.compile(r"\d{1,9}(?:\.\d{1,20})?")


class Priority(NamedTuple):
    """SiteFactor and factors of one job."""

    site: int
    factors: SlurmFactors


@dataclass(frozen=True, slots=True)
class Priorities:
    """Of each pending job by its id; ``failed``: why there are none."""

    of: Mapping[int, Priority]
    failed: str = ""

    def joined(self, jobs: Iterable[Job]) -> list[Job]:
        """The jobs, each with its own."""
        if not self.of:
            return list(jobs)
        return [
            replace(job, site_factor=found.site, factors=found.factors)
            if (found := self.of.get(job.job_id)) is not None
            else job
            for job in jobs
        ]

    def problems(self, controller: Controller) -> list[Problem]:
        """What to report; with priority/basic there are no factors, and that is no fault."""
        if not self.failed or not controller.multifactor:
            return []
        return [Problem("sprio", "priorities", f"{self.failed}; Slurm's factors count as 0")]


NONE = Priorities({})
"""Not asked for."""


def read_priorities(runner: Runner) -> Priorities:
    """Ask ``sprio``; a look without it is better than none, so a failure is only reported."""
    try:
        output = runner.ask(["sprio", *ARGUMENTS])
    except (SlurmCommandError, SlurmUnavailableError) as error:
        return Priorities({}, str(error))
    found = parse_priorities(output)
    unread = output.strip() and not found
    return Priorities(found, "sprio: other columns than asked for" if unread else "")


def parse_priorities(output: str) -> dict[int, Priority]:
    """Job id to priority from ``sprio`` with :data:`ARGUMENTS`; other lines are ignored.

    A job that asks for several partitions has a line for each: the highest factors count.
    """
    found: dict[int, Priority] = {}
    for line in output.split("\n"):
        match = _LINE.fullmatch(" ".join(line.split()))
        if match is None:
            continue
        job_id, site = int(match[1]), int(match[2])
        factors = SlurmFactors(*map(_factor, match[3].split()))
        other = found.get(job_id)
        if other is not None:
            factors = SlurmFactors(*map(max, other.factors, factors))
        found[job_id] = Priority(site, factors)
    return found


def _factor(text: str) -> float:
    return min(1.0, float(text)) if _FACTOR.fullmatch(text) else 0.0
