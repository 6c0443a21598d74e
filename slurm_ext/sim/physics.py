"""How fast a job really runs on what it holds, and what its user would have declared of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from slurm_ext.engine.allocation import Slice
from slurm_ext.engine.parts.speed import rate
from slurm_ext.model.annotation import Annotation, Checkpoint, Scaling, Speed

from .workload import TraceJob

HEAVY = 0.1
"""Share of the run time for bringing GPUs together from which on a user would call it heavy."""


class Physics(Protocol):
    """Speed of jobs. ``speed``: work done per second, as requested = 1."""

    def speed(self, job: TraceJob, slices: Sequence[Slice], active: int) -> float: ...

    def work_s(self, job: TraceJob) -> float:
        """Work in all, in seconds of run time as requested."""
        ...

    def first_speed(self, job: TraceJob) -> float:
        """The best speed to expect of a job that does not run."""
        ...

    def annotation(self, job: TraceJob) -> Annotation:
        """What the scheduler is told about the job."""
        ...

    def done_s(self, job: TraceJob, passed_s: float, speed: float) -> float:
        """Work done in a stretch of time at one speed."""
        ...


@dataclass(frozen=True, slots=True)
class Declared:
    """A job's own ``speed`` column holds, for the truth and for what the scheduler is told.

    A job without one runs as in the trace on the GPUs it asked for, and only there.
    """

    def speed(self, job: TraceJob, slices: Sequence[Slice], active: int) -> float:
        if not job.speed:
            return 1.0
        curve = curve_of(job.speed)
        return rate(curve, active) / rate(curve, job.gpus)

    def work_s(self, job: TraceJob) -> float:
        return float(job.run_s)

    def first_speed(self, job: TraceJob) -> float:
        return 1.0

    def done_s(self, job: TraceJob, passed_s: float, speed: float) -> float:
        return passed_s * speed

    def annotation(self, job: TraceJob) -> Annotation:
        checkpoint = Checkpoint(interval_s=job.checkpoint_s, restart_s=job.restart_s)
        talks = ("heavy" if job.comm >= HEAVY else "light") if job.comm else ""
        if not job.speed:
            return Annotation(checkpoint=checkpoint, family=job.model, communication=talks)
        curve = curve_of(job.speed)
        scaling = Scaling("elastic", curve.table[0][0], curve.table[-1][0])
        return Annotation(scaling, checkpoint, curve, family=job.model, communication=talks)


@cache
def curve_of(text: str) -> Speed:
    """The speed column: ``GPUS:RATE`` pairs with ascending GPUs and rates above 0.

    :raises ValueError: anything else.
    """
    table = []
    for part in text.split():
        gpus, colon, per_s = part.partition(":")
        if not colon:
            raise ValueError(f"speed {text!r}: expected GPUS:RATE pairs")
        table.append((int(gpus), float(per_s)))
    counts = [g for g, _ in table]
    if not table or counts[0] < 1 or counts != sorted(set(counts)):
        raise ValueError(f"speed {text!r}: GPU counts must ascend from 1 or more")
    if not all(0 < r < float("inf") for _, r in table):
        raise ValueError(f"speed {text!r}: rates must be above 0")
    return Speed(tuple(table))


@dataclass(frozen=True, slots=True)
class StopCost:
    """What stopping a job and starting it again costs.

    ``restart_s``: seconds before work goes on, None: the job's own ``restart_s``. ``lossless``:
    the job is told and saves its state; else it falls back to its last checkpoint (the job's
    ``checkpoint_s``; none: to the beginning).
    """

    restart_s: int | None = None
    lossless: bool = False

    def restart(self, job: TraceJob) -> int:
        return job.restart_s if self.restart_s is None else self.restart_s

    def lost(self, job: TraceJob, done_s: float) -> float:
        """Work lost of ``done_s`` seconds done since the job began (all its runs)."""
        if self.lossless:
            return 0.0
        return done_s % job.checkpoint_s if job.checkpoint_s else done_s


NO_COST = StopCost(restart_s=0, lossless=True)
