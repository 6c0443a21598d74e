"""Runs a policy that stops, shrinks and grows jobs: who holds what is decided anew all the time.

The policy's ``allocation`` part is asked after all that happens in one second, or at multiples of
``round_s``; its answer takes effect at once. Work is counted in seconds of the trace's run time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from time import perf_counter

from slurm_ext.engine.allocation import Allocation, Contender, Ended, Grant, Servers, Slice
from slurm_ext.model.annotation import Annotation
from slurm_ext.model.job import JobKey

from .cluster import ClusterSpec
from .errors import SimulationError
from .events import EventQueue, Kind
from .foresee import History
from .outcome import JobOutcome, SimResult, Span
from .physics import Physics, StopCost
from .workload import TraceJob, Workload

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

    def note_span(self, now_s: int) -> None:
        """What it held since the last change becomes part of its past."""
        if self.gpus and now_s > self.last_change_s:
            self.spans.append(Span(self.last_change_s, now_s, self.gpus))
        self.last_change_s = now_s

    def due_s(self) -> int:
        """Second in which the work is done."""
        return self.updated_s + ceil(self.pause_s + self.left_s / self.speed - NEGLIGIBLE_S)


class AllotDriver:
    """One run of a workload under a policy's allocation part.

    ``round_s``: decisions that often only, from ``round_start_s`` on; 0: at every event.
    ``stamp_rounds``: an end in the middle of a round counts, and frees its GPUs, at the end of the
    round, as in simulators that step by rounds. ``cost``: of stopping a job or changing what it
    holds. ``foresight``: what run times are predicted with; else jobs are taken to run as long as
    their limits.
    """

    def __init__(
        self,
        workload: Workload,
        spec: ClusterSpec,
        allocation: Allocation,
        physics: Physics,
        cost: StopCost,
        *,
        round_s: int = 0,
        round_start_s: int = 0,
        stamp_rounds: bool = False,
        foresight: History | None = None,
        label: str = "",
    ) -> None:
        self.workload = workload
        self.foresight = foresight
        self.allocation = allocation
        self.physics = physics
        self.cost = cost
        self.round_s = round_s
        self.round_start_s = round_start_s
        self.stamp_rounds = stamp_rounds and round_s > 0
        self.label = label
        self.events = EventQueue()
        self.decisions = 0
        nodes = [(f"{g.prefix}{i}", g) for g in spec.groups for i in range(1, g.count + 1)]
        self.names = tuple(name for name, _ in nodes)
        self.servers = Servers(
            tuple(g.gpus for _, g in nodes),
            tuple(g.cpus for _, g in nodes),
            tuple(g.mem_mib for _, g in nodes),
        )
        self._live: dict[JobKey, Live] = {}
        self._past: list[Ended] = []
        self._outcomes: list[JobOutcome] = []
        self._due_s: int | None = None
        self._submitted = 0
        for job in workload.jobs:
            self.events.post(job.submit_s, Kind.SUBMIT, job)

    def run(self, progress: Callable[[int, int], None] | None = None) -> SimResult:
        """Until every job has ended.

        :raises SimulationError: jobs wait that nothing will ever start, or more is granted than
            there is.
        """
        began = perf_counter()
        total, every = len(self.workload.jobs), max(1, len(self.workload.jobs) // 200)
        while len(self.events):
            self._step()
            if progress is not None and len(self._outcomes) % every == 0:
                progress(len(self._outcomes), total)
        if self._live:
            waiting = sorted(k.job_id for k in self._live)[:5]
            raise SimulationError(f"{len(self._live)} jobs never ended, such as {waiting}")
        return SimResult(
            label=self.label,
            gpus=self.servers.total_gpus,
            jobs=tuple(sorted(self._outcomes, key=lambda o: o.spec.job_id)),
            events=self.events.taken,
            wall_s=perf_counter() - began,
            counters={"decisions": self.decisions},
        )

    def _step(self) -> None:
        now_s, kind, subject = self.events.take()
        if kind is Kind.DAEMON:
            if self._due_s == now_s:
                self._due_s = None
                self._decide(now_s)
            return
        if kind is Kind.SUBMIT:
            self._submit(subject)
        else:
            job, run = subject
            if job.run != run:
                return
            self._end(job)
        self._review(now_s)

    def _review(self, at_s: int) -> None:
        """Have the policy decide at this time, or at the next round after it."""
        if self.round_s:
            rounds = -(-(at_s - self.round_start_s) // self.round_s)
            at_s = self.round_start_s + max(0, rounds) * self.round_s
        if self._due_s is None or at_s < self._due_s:
            self._due_s = at_s
            self.events.post(at_s, Kind.DAEMON)

    def _submit(self, spec: TraceJob) -> None:
        now_s = self.events.now_s
        key = JobKey(spec.job_id, spec.submit_s)
        if key in self._live:
            raise SimulationError(f"job id {spec.job_id} submitted twice")
        work_s = self.physics.work_s(spec)
        self._live[key] = Live(
            spec, key, self._submitted, work_s, self._expected_s(spec),
            self.physics.annotation(spec), self.physics.first_speed(spec),
            updated_s=now_s, since_s=now_s,
        )  # fmt: skip
        self._submitted += 1

    def _expected_s(self, spec: TraceJob) -> float:
        if self.foresight is not None:
            found = self.foresight.estimate(spec)
            if found is not None:
                return found.point_s
        if spec.limit_s is None or spec.limit_s == spec.run_s:
            return self.physics.work_s(spec)
        return float(spec.limit_s)

    def _end(self, job: Live) -> None:
        now_s = self.events.now_s
        job.advance(now_s, self.physics)
        job.note_span(now_s)
        assert job.started_s is not None
        del self._live[job.key]
        job.run += 1
        if self.foresight is not None:
            self.foresight.ended(job.spec)
        self._past.append(Ended(job.spec.user, job.spec.gpus, job.spec.run_s))
        self._outcomes.append(
            JobOutcome(
                spec=job.spec,
                first_start_s=job.started_s,
                start_s=job.last_start_s,
                end_s=now_s,
                nodes=job.nodes,
                restarts=job.restarts,
                lost_s=round(job.lost_s),
                spans=tuple(job.spans),
            )
        )

    def _decide(self, now_s: int) -> None:
        jobs = list(self._live.values())
        if not jobs:
            return
        for job in jobs:
            job.advance(now_s, self.physics)
        if self.stamp_rounds:
            for job in [j for j in jobs if j.gpus and j.left_s <= NEGLIGIBLE_S]:
                self._end(job)
            jobs = list(self._live.values())
        contenders = [self._contender(j) for j in jobs]
        self.decisions += 1
        grants = {
            g.key: g for g in self.allocation.grants(contenders, self.servers, now_s, self._past)
        }
        self._check(grants)
        for job in jobs:
            self._give(job, grants.get(job.key))
        running = [self._contender(j) for j in jobs if j.gpus]
        if self.round_s:
            if running or grants:
                self._review(now_s + 1)
            return
        wait_s = self.allocation.review_in_s(running, self._past)
        if wait_s is not None:
            self._review(now_s + max(1, ceil(wait_s)))

    def _contender(self, job: Live) -> Contender:
        spec = job.spec
        left_s = max(0.0, job.expected_s - job.work_s + job.left_s)
        return Contender(
            job.key, job.line, spec.user, spec.gpus, job.expected_s, left_s, job.slices,
            job.attained_s, job.attained_gpu_s, job.speed, job.started_s, job.since_s,
            job.restarts, job.annotation,
        )  # fmt: skip

    def _check(self, grants: dict[JobKey, Grant]) -> None:
        """No server may be given away twice."""
        gpus = [0] * len(self.servers.gpus)
        cpus = [0.0] * len(gpus)
        mem = [0.0] * len(gpus)
        for grant in grants.values():
            for s in grant.slices:
                gpus[s.server] += s.gpus
                cpus[s.server] += s.cpus
                mem[s.server] += s.mem_mib
        for i, used in enumerate(gpus):
            if (
                used > self.servers.gpus[i]
                or cpus[i] > self.servers.cpus[i] + 1e-6
                or mem[i] > self.servers.mem_mib[i] + 1e-3
            ):
                raise SimulationError(f"{self.names[i]} is given away twice: {used} GPUs")

    def _give(self, job: Live, grant: Grant | None) -> None:
        """Start, stop or change one job."""
        slices = grant.slices if grant is not None else ()
        active = grant.active if grant is not None else 0
        if slices == job.slices and active == job.active:
            return
        now_s = self.events.now_s
        job.note_span(now_s)
        moved = [s[:2] for s in slices] != [s[:2] for s in job.slices]
        if job.slices and moved:
            self._stop(job)
        if slices and moved:
            if job.started_s is None:
                job.started_s = now_s
            else:
                job.pause_s = self.cost.restart(job.spec)
            job.last_start_s = now_s
            job.nodes = tuple(self.names[s.server] for s in slices)
        if bool(slices) != bool(job.slices):
            job.since_s = now_s
        job.slices, job.active, job.run = slices, active, job.run + 1
        job.gpus = sum(s.gpus for s in slices)
        if not slices:
            job.speed = self.physics.first_speed(job.spec)
            return
        job.speed = self.physics.speed(job.spec, slices, active or job.gpus)
        if job.speed <= 0:
            raise SimulationError(f"job {job.spec.job_id} does not advance on {job.gpus} GPUs")
        if not self.stamp_rounds:
            self.events.post(max(job.due_s(), now_s), Kind.END, (job, job.run))

    def _stop(self, job: Live) -> None:
        """Account for a run cut short."""
        done_s = job.work_s - job.left_s
        lost_s = self.cost.lost(job.spec, done_s)
        job.left_s += lost_s
        job.lost_s += lost_s + self.cost.restart(job.spec)
        job.restarts += 1
