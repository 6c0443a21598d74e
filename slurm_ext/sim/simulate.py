"""A workload through the simulated Slurm: alone (`stock`) or with the daemon's cycle beside it."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from slurm_ext.engine.settings import Context

from .backfill import backfill_pass
from .cluster import ClusterSpec
from .core import SlurmCore
from .errors import SimulationError
from .events import EventQueue, Kind
from .mainsched import main_pass
from .outcome import JobOutcome, SimResult
from .record import SimJob
from .settings import SlurmSettings
from .simslurm import SimSlurm
from .steer import Steering
from .workload import Workload

Progress = Callable[[int, int], None]
"""Called now and then with (jobs ended, jobs in all)."""

STALL_CYCLES = 200_000
"""Daemon cycles without any other event after which a run is taken to hang."""


class Simulation:
    """One run; ``context`` None: stock Slurm."""

    def __init__(
        self,
        workload: Workload,
        spec: ClusterSpec,
        settings: SlurmSettings | None = None,
        context: Context | None = None,
        *,
        label: str = "stock",
    ) -> None:
        self.workload = workload
        self.label = label
        self.events = EventQueue()
        self.core = SlurmCore(spec, settings or SlurmSettings(), self.events)
        self.port = SimSlurm(self.core)
        self.steering = Steering(self.port, context) if context is not None else None
        self._cycle_at_s: int | None = None
        self._idle_cycles = 0
        for job in workload.jobs:
            self.events.post(job.submit_s, Kind.SUBMIT, job)

    def run(self, progress: Progress | None = None) -> SimResult:
        """Until every job has ended.

        :raises SimulationError: jobs wait that nothing will ever start.
        """
        began = perf_counter()
        total, every = len(self.workload.jobs), max(1, len(self.workload.jobs) // 200)
        while len(self.events):
            self.step()
            if progress is not None and len(self.core.ended) % every == 0:
                progress(len(self.core.ended), total)
        if len(self.core.ended) != total:
            waiting = sorted(self.core.jobs)[:5]
            raise SimulationError(f"{len(self.core.jobs)} jobs never started, such as {waiting}")
        return self._result(perf_counter() - began)

    def step(self) -> None:
        """Take one event."""
        _, kind, subject = self.events.take()
        core = self.core
        if kind is Kind.END:
            core.end(*subject)
        elif kind is Kind.FREED:
            core.free(*subject)
        elif kind is Kind.BEGIN:
            core.begin(*subject)
        elif kind is Kind.SUBMIT:
            core.submit(subject)
            self._rouse()
        elif kind is Kind.MAIN:
            if core.main_due():
                main_pass(core, core.settings.queue_depth)
        elif kind is Kind.FULL:
            if core.tick(kind):
                main_pass(core)
        elif kind is Kind.BACKFILL:
            self._backfill()
        else:
            self._cycle()
        if kind is not Kind.DAEMON:
            self._idle_cycles = 0

    def _backfill(self) -> None:
        core = self.core
        core.forget_reservations()
        # Without a change nothing new can start: plans only move when jobs come, go or change.
        if core.tick(Kind.BACKFILL) and (core.changed or core.reservations):
            core.changed = False
            backfill_pass(core)

    def _rouse(self) -> None:
        """The daemon sleeps while there is no job at all, and looks one interval later."""
        if self.steering is not None and self._cycle_at_s is None:
            interval_s = self.steering.context.levers.interval_s
            self._post_cycle((self.events.now_s // interval_s + 1) * interval_s)

    def _post_cycle(self, at_s: int) -> None:
        self._cycle_at_s = at_s
        self.events.post(at_s, Kind.DAEMON)

    def _cycle(self) -> None:
        assert self.steering is not None
        self._cycle_at_s = None
        self._idle_cycles += 1
        if self._idle_cycles > STALL_CYCLES:
            raise SimulationError(f"nothing happens since {self.events.now_s}: jobs never start")
        due_s = self.steering.cycle(self.events.now_s)
        if self.core.jobs:
            self._post_cycle(due_s)

    def _result(self, wall_s: float) -> SimResult:
        counters: dict[str, float] = {}
        if self.steering is not None:
            counters = {"cycles": self.steering.cycles, "patches": self.steering.patches}
        jobs = sorted(self.core.ended.values(), key=lambda j: j.key.job_id)
        return SimResult(
            label=self.label,
            gpus=self.core.cluster.spec.gpus,
            jobs=tuple(_outcome(j) for j in jobs),
            events=self.events.taken,
            wall_s=wall_s,
            counters=counters,
        )


def _outcome(job: SimJob) -> JobOutcome:
    assert job.first_start_s is not None
    assert job.start_s is not None
    assert job.end_s is not None
    return JobOutcome(
        spec=job.spec,
        first_start_s=job.first_start_s,
        start_s=job.start_s,
        end_s=job.end_s,
        nodes=job.where,
        state=str(job.ended_as),
        restarts=job.restarts,
        lost_s=job.lost_s,
    )
