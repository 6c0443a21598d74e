"""The decision core alone: what decide() says to start starts at once, with no Slurm in between.

For comparison with published schedulers, which have no executor with a mind of its own. decide() is
called after all that happens in one second, or at the end of each round in which something did.
In a pool of one node (``ClusterSpec.count_only``) this is the count-only mode of the literature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter

from slurm_ext.engine.cycle import decide
from slurm_ext.engine.settings import Context
from slurm_ext.model.decision import Mode, Verdict
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import BaseState, Job, JobKey, JobState, NodeShare, Request
from slurm_ext.model.observation import Controller, Observation

from .cluster import Cluster, ClusterSpec
from .errors import SimulationError
from .events import EventQueue, Kind
from .foresee import Foresight
from .outcome import JobOutcome, SimResult
from .shortcut import Shortcut
from .workload import TraceJob, Workload, request_of

_PENDING = JobState(BaseState.PENDING)
_RUNNING = JobState(BaseState.RUNNING)


@dataclass(slots=True)
class _Run:
    """A started job."""

    spec: TraceJob
    start_s: int
    shares: tuple[NodeShare, ...]


class IdealDriver:
    """One run of a workload under a policy; ``context.mode`` is of no importance here.

    ``kill``: a job is ended at its limit, as Slurm does; else it runs to its true end and is taken
    to end within a minute once it is late (``engine.durations.OVERRUN_S``). ``round_s``: decisions
    at multiples of this only, 0: whenever something has changed. ``foresight``: gives jobs
    estimates of their run times when they are submitted. ``fast``: jobs that all fit are placed by
    the engine's search alone (``shortcut``).
    """

    def __init__(
        self,
        workload: Workload,
        spec: ClusterSpec,
        context: Context,
        *,
        kill: bool = False,
        round_s: int = 0,
        foresight: Foresight | None = None,
        fast: bool = False,
        label: str = "",
    ) -> None:
        self.workload = workload
        self.cluster = Cluster(spec)
        self.label = label or f"ideal {context.policy.name} {context.backfill.kind}"
        # Observe: nothing is reconciled, the plan itself is what is wanted.
        backfill = replace(context.backfill, forecast=False)
        self.context = replace(context, mode=Mode.OBSERVE, partition_modes={}, backfill=backfill)
        self.memory = self.context.memory
        self.kill = kill
        self.round_s = round_s
        self.foresight = foresight
        self.fast = fast
        self._estimates: dict[JobKey, Estimate] = {}
        self.events = EventQueue()
        self.decisions = 0
        self._due = False
        self._controller = Controller(
            (22, 5, 8), "sim",
            {"prioritytype": "priority/multifactor", "selecttypeparameters": "CR_CORE_MEMORY"},
        )  # fmt: skip
        self._shortcut = Shortcut(self.cluster, self._controller, context.policy.placement)
        self._requests: dict[tuple[object, ...], Request] = {}
        self._specs: dict[JobKey, TraceJob] = {}
        self._pending: dict[JobKey, Job] = {}
        self._running: dict[JobKey, Job] = {}
        self._runs: dict[JobKey, _Run] = {}
        self._outcomes: list[JobOutcome] = []
        for job in workload.jobs:
            self.events.post(job.submit_s, Kind.SUBMIT, job)

    def run(self, progress: Callable[[int, int], None] | None = None) -> SimResult:
        """Until every job has ended.

        :raises SimulationError: jobs wait that nothing will ever start.
        """
        began = perf_counter()
        total, every = len(self.workload.jobs), max(1, len(self.workload.jobs) // 200)
        while len(self.events):
            self._step()
            if progress is not None and len(self._outcomes) % every == 0:
                progress(len(self._outcomes), total)
        if self._pending:
            waiting = sorted(k.job_id for k in self._pending)[:5]
            raise SimulationError(f"{len(self._pending)} jobs never started, such as {waiting}")
        return SimResult(
            label=self.label,
            gpus=self.cluster.spec.gpus,
            jobs=tuple(sorted(self._outcomes, key=lambda o: o.spec.job_id)),
            events=self.events.taken,
            wall_s=perf_counter() - began,
            counters={"cycles": self.decisions},
        )

    def _step(self) -> None:
        now_s, kind, subject = self.events.take()
        if kind is Kind.DAEMON:  # sorts after all else of its second
            self._due = False
            if self._pending:
                self._decide()
            return
        if kind is Kind.SUBMIT:
            self._submit(subject)
        else:
            self._end(subject)
        if not self._due:
            self._due = True
            step_s = self.round_s or 1
            self.events.post(-(-now_s // step_s) * step_s, Kind.DAEMON)

    def _submit(self, spec: TraceJob) -> None:
        key = JobKey(spec.job_id, spec.submit_s)
        if key in self._specs:
            raise SimulationError(f"job id {spec.job_id} submitted twice")
        self._specs[key] = spec
        if self.foresight is not None:
            found = self.foresight.estimate(spec)
            if found is not None:
                self._estimates[key] = found
        self._pending[key] = Job(
            key=key,
            name=spec.model or f"job{spec.job_id}",
            user=spec.user or "user0",
            account="sim",
            partitions=(spec.partition,),
            state=_PENDING,
            request=self._request(spec),
            reason="Priority",
            priority=max(1, 1_000_000_000 - len(self._specs)),
            limit_s=spec.limit_s,
        )

    def _request(self, spec: TraceJob) -> Request:
        key = (spec.gpus, spec.nodes, spec.cpus, spec.mem_mib, spec.gpu_type)
        if key not in self._requests:
            self._requests[key] = request_of(spec, self.cluster.spec.node_size(spec.gpu_type))
        return self._requests[key]

    def _decide(self) -> None:
        self.decisions += 1
        if self.fast and (places := self._shortcut.find(self._pending.values())):
            for key, shares in places.items():
                self._start(key, shares)
            return
        obs = Observation(
            now_s=self.events.now_s,
            controller=self._controller,
            jobs=(*self._running.values(), *self._pending.values()),
            nodes=self.cluster.records(),
            partitions=self.cluster.partitions,
        )
        context = replace(self.context, memory=self.memory, estimates=self._estimates)
        step = decide(obs, context)
        plan, self.memory = step.plan, step.memory
        for key in plan.order:
            decision = plan.decisions[key]
            if decision.verdict is Verdict.START:
                assert decision.placement is not None
                self._start(key, decision.placement.shares)

    def _start(self, key: JobKey, planned: tuple[NodeShare, ...]) -> None:
        now_s, spec = self.events.now_s, self._specs[key]
        shares = self.cluster.take(planned)
        self._shortcut.change(shares, -1)
        job = self._pending.pop(key)
        limit_s = job.limit_s
        self._running[key] = replace(
            job,
            state=_RUNNING,
            start_s=now_s,
            end_s=None if limit_s is None else now_s + limit_s,
            alloc=shares,
        )
        self._runs[key] = _Run(spec, now_s, shares)
        stays_s = spec.run_s
        if self.kill and limit_s is not None:
            stays_s = min(stays_s, limit_s)
        self.events.post(now_s + stays_s, Kind.END, key)

    def _end(self, key: JobKey) -> None:
        run = self._runs.pop(key)
        if self.foresight is not None:
            self.foresight.ended(run.spec)
            self._estimates.pop(key, None)
        del self._running[key]
        self.cluster.give(run.shares)
        self._shortcut.change(run.shares, +1)
        whole = self.events.now_s - run.start_s == run.spec.run_s
        self._outcomes.append(
            JobOutcome(
                spec=run.spec,
                first_start_s=run.start_s,
                start_s=run.start_s,
                end_s=self.events.now_s,
                nodes=tuple(s.node for s in run.shares),
                state="COMPLETED" if whole else "TIMEOUT",
            )
        )
