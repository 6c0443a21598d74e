"""Speeds learned from what running jobs report, for those whose annotation has none.

Kept per user, model family and GPU type: reports are in their writer's hands, so they count for
jobs of that user only. A job without a family has only its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from slurm_ext.annotate.speed import observed
from slurm_ext.engine.parts.overlap import overlapped
from slurm_ext.engine.parts.speed import fit_theta
from slurm_ext.model.annotation import Annotation, Speed
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.progress import Progress
from slurm_ext.model.units import EpochS

from .journal import Journal
from .records import SeenSpeed

CHANGED = 0.05
"""A speed is written again once it differs by so much."""

MOST = 4096
"""Kinds of jobs and sizes that are remembered; the oldest are forgotten by this process."""

Rates = tuple[tuple[int, float], ...]
"""(GPUs, units of work per second), ascending."""

Kind = tuple[str, str]
"""User and family."""


@lru_cache(maxsize=MOST)
def curve(rates: Rates) -> Speed:
    """A curve through speeds at two or more sizes; one alone as it is, none: not known.

    The ring model (Capes et al. 2018; non-negative least squares), or the step time of Pollux where
    that misses the points by far less. One size says nothing of others: beyond it no more is
    expected.
    """
    if len(rates) < 2:
        return Speed(table=rates)
    ring = Speed(theta=fit_theta([(gpus, 1 / rate) for gpus, rate in rates]))
    return overlapped(rates, ring) or ring


@dataclass(slots=True)
class Curves:
    """What has been seen, in memory and (by families) in the journal."""

    _families: dict[Kind, dict[str, dict[int, SeenSpeed]]] = field(default_factory=dict)
    _own: dict[int, dict[int, float]] = field(default_factory=dict)
    _loaded: bool = False

    def of(
        self,
        jobs: Iterable[Job],
        annotations: Mapping[JobKey, Annotation],
        progress: Mapping[JobKey, Progress],
        journal: Journal | None,
        now_s: EpochS,
        *,
        keep: bool = True,
    ) -> dict[JobKey, Speed]:
        """Curves of annotated jobs that declare none, with what these reports teach.

        ``keep``: write that down. :raises JournalError: it could not be.
        """
        if journal is not None and not self._loaded:
            for one in journal.speeds():
                self._note(one)
            self._loaded = True
        known = [job for job in jobs if job.key in annotations and not job.state.ended]
        fresh: list[SeenSpeed] = []
        for job in known:
            if job.key in progress:
                fresh += self._learn(job, annotations[job.key], progress[job.key], now_s)
        ids = {job.job_id for job in known}
        self._own = {i: rates for i, rates in self._own.items() if i in ids}
        if fresh and keep and journal is not None:
            journal.save_speeds(fresh)
        found = {}
        for job in known:
            declared = annotations[job.key].speed
            if not (declared.table or declared.theta):
                speed = curve(self._rates(job, annotations[job.key]))
                if speed.table or speed.theta:
                    found[job.key] = speed
        return found

    def _learn(
        self, job: Job, annotation: Annotation, progress: Progress, now_s: EpochS
    ) -> list[SeenSpeed]:
        """Take in what a running job tells; what of that is news for its family."""
        # A job that claims other GPUs than it has is not believed for these.
        held = {sum(share.gpus for share in job.alloc)}
        rates = {g: r for g, r in observed(progress.reports).items() if g in held or job.restarts}
        self._own.setdefault(job.job_id, {}).update(rates)
        if not annotation.family:
            return []
        kind, gpu_type = (job.user, annotation.family), _type(job)
        before, news = self._families.get(kind, {}).get(gpu_type, {}), []
        for gpus, rate in rates.items():
            old = before.get(gpus)
            if old is None or abs(rate - old.units_per_s) > CHANGED * old.units_per_s:
                news.append(SeenSpeed(*kind, gpu_type, gpus, rate, now_s))
        for one in news:
            self._note(one)
        return news

    def _note(self, one: SeenSpeed) -> None:
        types = self._families.setdefault((one.user, one.family), {})
        types.setdefault(one.gpu_type, {})[one.gpus] = one
        while len(self._families) > MOST:
            del self._families[next(iter(self._families))]

    def _rates(self, job: Job, annotation: Annotation) -> Rates:
        """The job's own speeds before those of its family."""
        found: dict[int, float] = {}
        if annotation.family:
            types = self._families.get((job.user, annotation.family), {})
            wanted = _type(job)
            # Where any type will do: the one that most is known of.
            best = wanted or max(sorted(types), key=lambda t: len(types[t]), default="")
            found = {gpus: one.units_per_s for gpus, one in types.get(best, {}).items()}
        found |= self._own.get(job.job_id, {})
        return tuple(sorted(found.items()))


def _type(job: Job) -> str:
    """GPU type of a job: what it has, else what it asks for; empty if that is open."""
    return next((s.gpu_type for s in job.alloc if s.gpu_type), "") or job.request.gpu_type
