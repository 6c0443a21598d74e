"""Runs a policy that stops, shrinks and grows jobs: who holds what is decided anew all the time.

The policy's ``allocation`` part is asked after all that happens in one second, or at multiples of
``round_s``; its answer takes effect at once. Work is counted in seconds of the trace's run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil

from slurm_ext.engine.allocation import Allocation, Ended, Grant, Servers, Wakes
from slurm_ext.model.job import JobKey

from .cluster import Cluster, ClusterSpec
from .direct import Direct
from .errors import SimulationError
from .events import Kind
from .foresee import Foresight
from .links import Part, Places
from .live import NEGLIGIBLE_S, Live
from .physics import Physics, StopCost
from .workload import TraceJob, Workload


class AllotDriver(Direct):
    """One run of a workload under a policy's allocation part.

    ``round_s``: decisions that often only, from ``round_start_s`` on; 0: at every event.
    ``stamp_rounds``: an end in the middle of a round counts, and frees its GPUs, at the end of the
    round, as in simulators that step by rounds. ``cost``: of stopping a job or changing what it
    holds. ``foresight``: what run times are predicted with; else jobs are taken to run as long as
    their limits. ``make``: makes the jobs, of a kind of their own perhaps.
    ``links``: what the place costs.
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
        foresight: Foresight | None = None,
        make: Callable[..., Live] = Live,
        links: Places | None = None,
        label: str = "",
    ) -> None:
        super().__init__(workload, round_s, round_start_s, label)
        self.foresight = foresight
        self.allocation = allocation
        self.physics = physics
        self.cost = cost
        self.stamp_rounds = stamp_rounds and round_s > 0
        self._make = make
        self.links = links
        nodes = [g for g in spec.groups for _ in range(g.count)]
        self.names = Cluster(spec).names
        self._types = tuple(g.gpu_type for g in nodes)
        self.servers = Servers(
            tuple(g.gpus for g in nodes),
            tuple(g.cpus for g in nodes),
            tuple(g.mem_mib for g in nodes),
        )
        self._live: dict[JobKey, Live] = {}
        self._past: list[Ended] = []
        self._submitted = 0

    def _finish(self, subject: tuple[Live, int]) -> bool:
        job, run = subject
        if job.run != run:
            return False
        self._end(job)
        return True

    def _unfinished(self) -> Iterable[JobKey]:
        return self._live

    def _gpus(self) -> int:
        return self.servers.total_gpus

    def _submit(self, spec: TraceJob) -> None:
        now_s = self.events.now_s
        key = JobKey(spec.job_id, spec.submit_s)
        if key in self._live:
            raise SimulationError(f"job id {spec.job_id} submitted twice")
        work_s = self.physics.work_s(spec)
        self._live[key] = self._make(
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
        del self._live[job.key]
        job.run += 1
        if self.foresight is not None:
            self.foresight.ended(job.spec)
        self._past.append(Ended(job.key, job.spec.user, job.spec.gpus, job.spec.run_s))
        self._outcomes.append(job.outcome(now_s))

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
        contenders = [j.contender() for j in jobs]
        self.decisions += 1
        grants = {
            g.key: g for g in self.allocation.grants(contenders, self.servers, now_s, self._past)
        }
        self._check(grants)
        for job in jobs:
            self._give(job, grants.get(job.key))
        if self.links is not None:
            self._respeed(self.links, [j for j in jobs if j.gpus])
        running = [j.contender() for j in jobs if j.gpus]
        if self.round_s:
            if running or grants:
                self._review(now_s + 1)
            return
        wait_s = self.allocation.review_in_s(running, self._past)
        if wait_s is not None:
            self._review(now_s + max(1, ceil(wait_s)))
        if isinstance(self.allocation, Wakes):
            wake_s = self.allocation.wake_s(contenders, self.servers, now_s, self._past)
            if wake_s is not None:
                self._review(max(now_s + 1, ceil(wake_s)))

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
            job.last_start_s = now_s
            job.nodes = tuple(self.names[s.server] for s in slices)
        if bool(slices) != bool(job.slices):
            job.since_s = now_s
        job.slices, job.active, job.run = slices, active, job.run + 1
        job.gpus = sum(s.gpus for s in slices)
        if slices and moved:
            job.placed(self.cost.restart(job.spec))
            if job.started_s is None:
                job.started_s = now_s
        if not slices:
            job.speed = self.physics.first_speed(job.spec)
            return
        job.speed = self.physics.speed(job.spec, slices, active or job.gpus)
        if job.speed <= 0:
            raise SimulationError(f"job {job.spec.job_id} does not advance on {job.gpus} GPUs")
        if not self.stamp_rounds:
            self.events.post(max(job.due_s(), now_s), Kind.END, (job, job.run))

    def _respeed(self, links: Places, jobs: list[Live]) -> None:
        """Where jobs lie now, and with whom they share uplinks."""
        speeds = links.speeds([
            (j.spec, [Part(self.names[s.server], self._types[s.server], s.gpus) for s in j.slices])
            for j in jobs
        ])  # fmt: skip
        for job, place_speed in zip(jobs, speeds, strict=True):
            plain = self.physics.speed(job.spec, job.slices, job.active or job.gpus)
            speed = plain * place_speed
            if speed != job.speed:
                job.speed, job.run = speed, job.run + 1
                if not self.stamp_rounds:
                    self.events.post(max(job.due_s(), self.events.now_s), Kind.END, (job, job.run))

    def _stop(self, job: Live) -> None:
        """Account for a run cut short."""
        done_s = job.work_s - job.left_s
        lost_s = self.cost.lost(job.spec, done_s)
        job.left_s += lost_s
        job.lost_s += lost_s + self.cost.restart(job.spec)
        job.restarts += 1
