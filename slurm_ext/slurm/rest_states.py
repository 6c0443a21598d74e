"""A long queue through slurmrestd: states of all jobs first, records only of what changed. Pure.

The list of states (``/jobs/state/``, Slurm 24.05 and later) names each job and its state, nothing
else. A record is read again when its row there looks different from the row it was read for,
while it is in a passing state, when we change the job, and in turn: so what a state does not show
(a hold, a priority, a comment) is at most :data:`FULL_EVERY` looks old.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from slurm_ext.model.job import BaseState, Job, JobState
from slurm_ext.model.observation import Problem
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.json import parse_jobs
from slurm_ext.slurm.scalars import get, objects
from slurm_ext.slurm.states import job_state_of_json

FULL_EVERY = 20
"""Looks in which every record that may change is read once, whatever its state."""

_NAME = re.compile(r"(\d{1,10})(.*)", re.DOTALL)
_LASTING = frozenset({BaseState.PENDING, BaseState.RUNNING, BaseState.SUSPENDED})

Row = frozenset[tuple[str, JobState]]
"""What the list of states shows under one job id: tasks (empty: the job itself), their states."""


class _Known(NamedTuple):
    """A record, the row it was read for (None: read it again), and in which look."""

    row: Row | None
    job: Job
    problems: tuple[Problem, ...]
    look: int


class StatesFirst:
    """What is known of a long queue between looks.

    A look is :meth:`begin`, then a record (:meth:`put`) for each of :meth:`changed` and as many
    of :meth:`aged` as there is time for, then :meth:`jobs`.
    """

    def __init__(self) -> None:
        self._look = 0
        self._rows: dict[int, Row] = {}
        self._known: dict[int, _Known] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def begin(self, document: Any) -> None:
        """Take the states of this moment; forget jobs that are gone."""
        self._look += 1
        found: dict[int, set[tuple[str, JobState]]] = {}
        for record in objects(get(document, "jobs")):
            match = _NAME.fullmatch(str(record.get("job_id")))
            if match is not None:
                state = job_state_of_json(record.get("state"))
                found.setdefault(int(match[1]), set()).add((match[2], state))
        self._rows = {job_id: frozenset(row) for job_id, row in found.items()}
        self._known = {job_id: one for job_id, one in self._known.items() if job_id in found}

    def changed(self) -> list[int]:
        """Jobs whose records must be read, arrays before their tasks."""
        return sorted(job_id for job_id in self._rows if not self._good(job_id))

    def aged(self) -> list[int]:
        """Jobs whose turn it is although nothing is seen to have changed, the oldest first."""
        may_change = [
            (one.look, job_id)
            for job_id, one in self._known.items()
            if self._good(job_id) and one.look < self._look and not one.job.state.ended
        ]
        share = -(-len(may_change) // FULL_EVERY)
        return [job_id for _, job_id in sorted(may_change)[:share]]

    def current(self, job_id: int) -> bool:
        """Whether this look has read it already (with its array)."""
        one = self._known.get(job_id)
        return one is not None and one.look == self._look

    def put(self, job_id: int, document: Any) -> None:
        """Take the answer for one job: its record, with those of all tasks of an array.

        A record without the job means that it is gone.
        """
        jobs, problems = parse_jobs(document, 0)
        for job in jobs:
            row = self._rows.get(job.job_id)
            if row is None or any(state != job.state for _, state in row) or _passing(job.state):
                row = None  # it has moved on since the states were read, or is about to
            own = tuple(one for one in problems if one.subject == str(job.job_id))
            self._known[job.job_id] = _Known(row, job, own, self._look)
        if all(job.job_id != job_id for job in jobs):
            self._known.pop(job_id, None)

    def forget(self, job_ids: Iterable[int]) -> None:
        """These jobs are being changed by us: read them again."""
        for job_id in job_ids:
            one = self._known.get(job_id)
            if one is not None:
                self._known[job_id] = one._replace(row=None)

    def jobs(self, now: EpochS) -> tuple[list[Job], list[Problem]]:
        """The queue as far as it is known, with what could not be read of it."""
        known = self._known.values()
        return [_at(one.job, now) for one in known], [one for k in known for one in k.problems]

    def _good(self, job_id: int) -> bool:
        one = self._known.get(job_id)
        return one is not None and one.row is not None and one.row == self._rows.get(job_id)


def _passing(state: JobState) -> bool:
    """Whether a record may change while the state looks the same (nodes given back one by one)."""
    return bool(state.flags) or not (state.base in _LASTING or state.ended)


def _at(job: Job, now: EpochS) -> Job:
    """The record with a begin time only while that is to come."""
    return replace(job, begin_s=None) if job.begin_s and job.begin_s <= now else job
