"""GPU-seconds that jobs in the queue have had in attempts before their last requeue.

Two sources: attempts the artefact knows of from accounting, and requeues seen while this daemon
runs. Both name an attempt by job id and submit time, since a requeue gives a new submit time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from slurm_ext.accounting.artefact import CUT_SHORT, Durations
from slurm_ext.accounting.features import key
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.units import EpochS


class _Running(NamedTuple):
    submit_s: EpochS
    start_s: EpochS
    seen_s: EpochS
    gpus: int


@dataclass(slots=True)
class Attained:
    """Remembers who ran in the last look; losing it costs what the next fit does not yet know."""

    _running: dict[int, _Running] = field(default_factory=dict)
    _seen: dict[int, dict[EpochS, float]] = field(default_factory=dict)

    def of(
        self, jobs: Iterable[Job], now_s: EpochS, model: Durations | None
    ) -> dict[JobKey, float]:
        """GPU-seconds by job, of those that were ever requeued; call once a look."""
        here = {j.job_id: j for j in jobs if j.state.pending or j.state.running}
        for job_id, last in self._running.items():
            job = here.get(job_id)
            if job is not None and (job.key.submit_s != last.submit_s or not job.state.running):
                gpu_s = float(last.gpus * max(0, last.seen_s - last.start_s))
                self._seen.setdefault(job_id, {})[last.submit_s] = gpu_s
        self._seen = {job_id: seen for job_id, seen in self._seen.items() if job_id in here}
        self._running = {j.job_id: _running(j, now_s) for j in here.values() if j.state.running}
        found = {}
        known = _recorded(model, {i: j for i, j in here.items() if j.restarts > 0})
        for job_id in self._seen.keys() | known.keys():
            attempts = {**self._seen.get(job_id, {}), **known.get(job_id, {})}
            if total := sum(attempts.values()):
                found[here[job_id].key] = total
        return found


def _running(job: Job, now_s: EpochS) -> _Running:
    start_s = now_s if job.start_s is None else job.start_s
    return _Running(job.key.submit_s, start_s, now_s, sum(s.gpus for s in job.alloc))


def _recorded(model: Durations | None, jobs: dict[int, Job]) -> dict[int, dict[EpochS, float]]:
    """Attempts in accounting of these jobs, before the one that waits or runs now."""
    found: dict[int, dict[EpochS, float]] = {}
    if model is None or not jobs:
        return found
    at = {name: i for i, name in enumerate(CUT_SHORT)}
    for row in model.cut_short:
        job = jobs.get(int(row[at["job_id"]]))
        submit_s = int(row[at["submit_s"]])
        # Ids are used again after a wrap: the user must be the same.
        if job is None or row[at["user"]] != key(job.user) or submit_s >= job.key.submit_s:
            continue
        found.setdefault(job.job_id, {})[submit_s] = float(row[at["gpu_s"]])
    return found
