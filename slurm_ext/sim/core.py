"""The simulated controller: the life of jobs, and when its schedulers run."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from slurm_ext.engine.pool import Demand, demand_of
from slurm_ext.model.job import BaseState, JobKey, NodeShare, Request
from slurm_ext.model.ledger import UndoNote, with_note
from slurm_ext.model.observation import Reservation
from slurm_ext.model.units import EpochS

from .cluster import BoolArray, Cluster, ClusterSpec
from .errors import SimulationError
from .events import EventQueue, Kind
from .record import Phase, SimJob
from .settings import SlurmSettings
from .waiting import WaitingJobs
from .workload import TraceJob, request_of

TOP_PRIORITY = 1_000_000_000
"""Priority of the first job; each later one has one less, as priority/basic and age have it."""


class SlurmCore:
    """Jobs, nodes and the event queue; the schedulers are in ``mainsched`` and ``backfill``."""

    def __init__(self, spec: ClusterSpec, settings: SlurmSettings, events: EventQueue) -> None:
        self.settings = settings
        self.events = events
        self.cluster = Cluster(spec)
        self.jobs: dict[int, SimJob] = {}  # not ended
        self.ended: dict[int, SimJob] = {}
        self.waiting = WaitingJobs()
        self.running: dict[int, SimJob] = {}  # on nodes, completing ones too
        self.ends: list[tuple[EpochS, int, SimJob]] = []  # running ones, by expected end
        self.reservations: dict[str, Reservation] = {}
        self.changed = False  # since the last backfill pass
        self._main_at_s: EpochS | None = None
        self._grid = {Kind.FULL: False, Kind.BACKFILL: False}
        self._demands: dict[tuple[object, ...], tuple[Request, Demand]] = {}
        self._shapes: dict[tuple[object, ...], int] = {}
        self._submitted = 0

    # -- life of a job -------------------------------------------------------------------

    def submit(self, spec: TraceJob) -> SimJob:
        now_s = self.events.now_s
        request, demand = self._shape(spec)
        job = SimJob(
            spec=spec,
            key=JobKey(spec.job_id, now_s),
            request=request,
            demand=demand,
            limit_s=spec.limit_s or self.settings.default_limit_s,
            base_priority=TOP_PRIORITY + self._priority(request),
            remaining_s=spec.run_s,
        )
        if spec.job_id in self.jobs or spec.job_id in self.ended:
            raise SimulationError(f"job id {spec.job_id} submitted twice")
        self._submitted += 1
        self.jobs[spec.job_id] = job
        if self.settings.submit_lease_s:
            job.begin_s = now_s + self.settings.submit_lease_s
            job.admin_comment = with_note("", UndoNote(lease_until_s=job.begin_s))
        self.line_up(job)
        self.wake(self.settings.submit_delay_s)
        return job

    def _priority(self, request: Request) -> int:
        """By size, as priority/multifactor (22.05) counts it, ids break ties; or by submission."""
        weight, spec = self.settings.size_weight, self.cluster.spec
        if not weight:
            return -self._submitted
        return int(weight * (request.nodes_min / spec.nodes + request.cpus / spec.cpus) / 2)

    def _shape(self, spec: TraceJob) -> tuple[Request, Demand]:
        """Request and demand, shared between jobs that ask the same."""
        key = (spec.gpus, spec.nodes, spec.cpus, spec.mem_mib, spec.gpu_type)
        found = self._demands.get(key)
        if found is None:
            request = request_of(spec, self.cluster.spec.node_size(spec.gpu_type))
            found = self._demands[key] = (request, demand_of(request))
        return found

    def _shape_of(self, job: SimJob) -> int:
        key = (job.demand, job.spec.partition, job.required, job.excluded)
        return self._shapes.setdefault(key, len(self._shapes))

    def line_up(self, job: SimJob) -> None:
        """Put a pending job where its hold and begin time say."""
        job.seen = None
        job.shape = self._shape_of(job)
        self.waiting.remove(job)
        if job.begin_s > self.events.now_s:
            self.events.post(job.begin_s, Kind.BEGIN, (job, job.begin_s))
        elif not job.held:
            self.waiting.add(job)
            self._keep_grid()
            self.changed = True

    def begin(self, job: SimJob, begin_s: EpochS) -> None:
        """A begin time has come; an older one, overwritten since, means nothing."""
        if job.phase is Phase.PENDING and job.begin_s == begin_s:
            self.line_up(job)
            self.wake(0)

    def start(self, job: SimJob, shares: Sequence[NodeShare]) -> None:
        now_s, settings = self.events.now_s, self.settings
        self.waiting.remove(job)
        job.shares = self.cluster.take(shares)
        job.where = tuple(s.node for s in job.shares)
        job.phase, job.start_s, job.seen = Phase.RUNNING, now_s, None
        job.begin_s = 0
        if job.first_start_s is None:
            job.first_start_s = now_s
        job.run += 1
        self.running[job.key.job_id] = job
        insort(self.ends, (job.expected_end_s, job.key.job_id, job))
        stays_s = settings.start_latency_s + job.remaining_s
        if settings.kill and stays_s > job.limit_s:
            stays_s = job.limit_s
        self.events.post(now_s + stays_s, Kind.END, (job, job.run))

    def end(self, job: SimJob, run: int) -> None:
        """The process is done, or at its limit."""
        if job.run != run or job.phase is not Phase.RUNNING:
            return
        now_s, settings = self.events.now_s, self.settings
        assert job.start_s is not None
        short = now_s - job.start_s < settings.start_latency_s + job.remaining_s
        job.ended_as = BaseState.TIMEOUT if short else BaseState.COMPLETED
        self._complete(job, self._term_s() if short else 0)

    def requeue(self, job: SimJob) -> None:
        """``scontrol requeue Incomplete``: terminate, and line up again after the delay."""
        assert job.start_s is not None
        worked_s = self.events.now_s - job.start_s - self.settings.start_latency_s
        job.stop_early(max(0, worked_s))
        job.back = True
        self._complete(job, self._term_s())

    def _term_s(self) -> int:
        return min(self.settings.term_s, self.settings.kill_wait_s)

    def _complete(self, job: SimJob, dying_s: int) -> None:
        now_s = self.events.now_s
        job.phase, job.seen = Phase.COMPLETING, None
        job.run += 1
        job.end_s = now_s + dying_s
        wait_s = dying_s + self.settings.epilog_s
        if wait_s:
            self.events.post(now_s + wait_s, Kind.FREED, (job, job.run))
        else:
            self.free(job, job.run)

    def free(self, job: SimJob, run: int) -> None:
        """The nodes of a job are clean: they are free, and the job is over or waits again."""
        if job.run != run:
            return
        self.cluster.give(job.shares)
        job.shares, job.seen = (), None
        del self.running[job.key.job_id]
        del self.ends[bisect_left(self.ends, (job.expected_end_s, job.key.job_id))]
        self.changed = True
        if job.back:
            self._again(job)
        else:
            job.phase = Phase.ENDED
            self.ended[job.key.job_id] = self.jobs.pop(job.key.job_id)
        self.wake(self.settings.end_delay_s)

    def _again(self, job: SimJob) -> None:
        now_s = self.events.now_s
        job.back, job.phase = False, Phase.PENDING
        job.start_s = job.end_s = None
        job.restarts += 1
        job.key = JobKey(job.key.job_id, now_s)  # a requeue rewrites the submit time
        job.begin_s = now_s + self.settings.requeue_delay_s + 1
        self.line_up(job)

    # -- when the schedulers run ---------------------------------------------------------

    def wake(self, delay_s: int) -> None:
        """Have the main scheduler look soon."""
        at_s = self.events.now_s + delay_s
        if len(self.waiting) and (self._main_at_s is None or at_s < self._main_at_s):
            self._main_at_s = at_s
            self.events.post(at_s, Kind.MAIN)

    def main_due(self) -> bool:
        """Whether this MAIN event is the one that counts (an earlier one may have run)."""
        if self._main_at_s is None or self._main_at_s > self.events.now_s:
            return False
        self._main_at_s = None
        return True

    def _keep_grid(self) -> None:
        """Periodic passes run on a fixed grid, and only while somebody waits."""
        for kind, posted in self._grid.items():
            if not posted:
                self._grid[kind] = True
                step_s = self._step_s(kind)
                self.events.post((self.events.now_s // step_s + 1) * step_s, kind)

    def _step_s(self, kind: Kind) -> int:
        if kind is Kind.FULL:
            return self.settings.sched_interval_s
        return self.settings.bf_interval_s

    def forget_reservations(self) -> None:
        """Drop those that are over."""
        over = [n for n, r in self.reservations.items() if r.end_s <= self.events.now_s]
        for name in over:
            del self.reservations[name]
            self.changed = True

    def tick(self, kind: Kind) -> bool:
        """Whether this periodic pass has anything to look at; posts the next one if so."""
        self._grid[kind] = bool(len(self.waiting))
        if self._grid[kind]:
            self.events.post(self.events.now_s + self._step_s(kind), kind)
        return self._grid[kind]

    # -- for the schedulers --------------------------------------------------------------

    def allowed(self, job: SimJob, start_s: EpochS) -> BoolArray:
        """Nodes of its partition, its node lists and the reservations; not to be changed."""
        mask = self.cluster.in_partition[job.spec.partition]
        if not (job.required or job.excluded or self.reservations):
            return mask
        mask = mask.copy()
        if job.required and len(job.required) >= job.demand.nodes_min:
            mask[:] = False
            mask[list(job.required)] = self.cluster.in_partition[job.spec.partition][
                list(job.required)
            ]
        if job.excluded:
            mask[list(job.excluded)] = False
        for held in self.reservations.values():
            # a magnetic one draws the jobs of its users in: to them its nodes are open
            drawn = "MAGNETIC" in held.flags and (job.spec.user or "user0") in held.users
            if not drawn and held.start_s < start_s + job.limit_s and held.end_s > start_s:
                mask[[self.cluster.index[n] for n in held.nodes]] = False
        return mask
