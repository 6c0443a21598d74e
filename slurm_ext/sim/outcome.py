"""What came out of a simulation, job by job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .workload import TraceJob


class Span(NamedTuple):
    """A stretch of time in which a job held GPUs."""

    start_s: int
    end_s: int
    gpus: int


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """One job: first start, end (of the process), how it ended, restarts and run time lost.

    ``spans``: when it held how many GPUs; empty: as asked for, from ``start_s`` to ``end_s``.
    """

    spec: TraceJob
    first_start_s: int
    start_s: int
    end_s: int
    nodes: tuple[str, ...] = ()
    state: str = "COMPLETED"
    restarts: int = 0
    lost_s: int = 0
    spans: tuple[Span, ...] = ()

    @property
    def jct_s(self) -> int:
        return self.end_s - self.spec.submit_s

    @property
    def held(self) -> tuple[Span, ...]:
        """When it held GPUs, in order of time."""
        return self.spans or (Span(self.start_s, self.end_s, self.spec.gpus),)


@dataclass(frozen=True, slots=True)
class SimResult:
    """All jobs by id, with counters of the run.

    ``events``: events taken from the queue (direct driver: submits and ends). ``wall_s``: real
    time the run took. ``counters``: cycles, patches and the like.
    """

    label: str
    gpus: int
    jobs: tuple[JobOutcome, ...]
    events: int
    wall_s: float = 0.0
    counters: Mapping[str, float] = field(default_factory=dict)
