"""What came out of a simulation, job by job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .workload import TraceJob


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """One job: first start, end (of the process), how it ended, restarts and run time lost."""

    spec: TraceJob
    first_start_s: int
    start_s: int
    end_s: int
    nodes: tuple[str, ...] = ()
    state: str = "COMPLETED"
    restarts: int = 0
    lost_s: int = 0

    @property
    def jct_s(self) -> int:
        return self.end_s - self.spec.submit_s


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
