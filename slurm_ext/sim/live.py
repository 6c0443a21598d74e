"""A job on its way through the driver of allocations: what it holds, and what is left of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

from slurm_ext.engine.allocation import Contender, Slice
from slurm_ext.model.annotation import Annotation
from slurm_ext.model.job import JobKey

from .outcome import JobOutcome, Span
from .physics import Physics
from .workload import TraceJob

NEGLIGIBLE_S = 1e-6
"""Work below this is done: rounding errors of sums."""


@dataclass(slots=True, eq=False)
class Live:
    """A job that has been submitted and has not ended.

    ``work_s`` is its work, of which ``left_s`` is still to do; ``expected_s`` what the work is
    taken to be; ``pause_s`` what remains of a restart; ``run`` numbers the changes of its
    allocation, so that an end event of an earlier one is known as such.
    """

    spec: TraceJob
    key: JobKey
    line: int
    work_s: float
    expected_s: float
    annotation: Annotation
    speed: float = 1.0
    slices: tuple[Slice, ...] = ()
    active: int = 0
    pause_s: float = 0.0
    updated_s: int = 0
    since_s: int = 0
    started_s: int | None = None
    last_start_s: int = 0
    last_change_s: int = 0
    attained_s: float = 0.0
    attained_gpu_s: float = 0.0
    restarts: int = 0
    lost_s: float = 0.0
    run: int = 0
    nodes: tuple[str, ...] = ()
    spans: list[Span] = field(default_factory=list)
    gpus: int = field(init=False, default=0)
    left_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.left_s = self.work_s

    def advance(self, now_s: int, physics: Physics) -> None:
        """Account for the time since the last look."""
        passed_s = now_s - self.updated_s
        self.updated_s = now_s
        if not passed_s or not self.gpus:
            return
        self.attained_s += passed_s
        self.attained_gpu_s += passed_s * self.gpus
        paused_s = min(self.pause_s, passed_s)
        self.pause_s -= paused_s
        self.left_s -= physics.done_s(self.spec, passed_s - paused_s, self.speed)

    def placed(self, restart_s: int) -> None:
        """It holds other GPUs than before; ``restart_s``: what a restart costs it."""
        if self.started_s is not None:
            self.pause_s = float(restart_s)

    def note_span(self, now_s: int) -> None:
        """What it held since the last change becomes part of its past."""
        if self.gpus and now_s > self.last_change_s:
            self.spans.append(Span(self.last_change_s, now_s, self.gpus))
        self.last_change_s = now_s

    def due_s(self) -> int:
        """Second in which the work is done."""
        return self.updated_s + ceil(self.pause_s + self.left_s / self.speed - NEGLIGIBLE_S)

    def contender(self) -> Contender:
        """The job as a policy sees it."""
        spec = self.spec
        left_s = max(0.0, self.expected_s - self.work_s + self.left_s)
        return Contender(
            self.key, self.line, spec.user, spec.gpus, self.expected_s, left_s, self.slices,
            self.attained_s, self.attained_gpu_s, self.speed, self.started_s, self.since_s,
            self.restarts, self.annotation,
        )  # fmt: skip

    def outcome(self, now_s: int) -> JobOutcome:
        """What came of it; it ends now."""
        assert self.started_s is not None
        return JobOutcome(
            spec=self.spec,
            first_start_s=self.started_s,
            start_s=self.last_start_s,
            end_s=now_s,
            nodes=self.nodes,
            restarts=self.restarts,
            lost_s=round(self.lost_s),
            spans=tuple(self.spans),
        )
