"""The decision core alone: what decide() says to start starts at once, with no Slurm in between.

For comparison with published schedulers, which have no executor with a mind of its own. decide() is
called after all that happens in one second, or at the end of each round in which something did.
In a pool of one node (``ClusterSpec.count_only``) this is the count-only mode of the literature.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil

from slurm_ext.engine.cycle import decide
from slurm_ext.engine.settings import Context
from slurm_ext.model.decision import Mode, Verdict
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import BaseState, Job, JobKey, JobState, NodeShare, Request
from slurm_ext.model.observation import Controller, Observation

from .cluster import Cluster, ClusterSpec
from .direct import Direct
from .errors import SimulationError
from .events import Kind
from .foresee import Foresight
from .links import Part, Places
from .outcome import JobOutcome
from .shortcut import Shortcut
from .workload import TraceJob, Workload, request_of

_PENDING = JobState(BaseState.PENDING)
_RUNNING = JobState(BaseState.RUNNING)


@dataclass(slots=True)
class _Run:
    """A started job; ``left_s`` of its work are still to do, ``number`` counts its speeds."""

    spec: TraceJob
    start_s: int
    shares: tuple[NodeShare, ...]
    left_s: float
    updated_s: int
    speed: float = 1.0
    number: int = 0

    def advance(self, now_s: int) -> None:
        self.left_s -= (now_s - self.updated_s) * self.speed
        self.updated_s = now_s


class IdealDriver(Direct):
    """One run of a workload under a policy; ``context.mode`` is of no importance here.

    With ``guard.max_starts_per_cycle`` a decision that used it up is followed by another at once.

    ``kill``: a job is ended at its limit, as Slurm does; else it runs to its true end and is taken
    to end within a minute once it is late (``engine.durations.OVERRUN_S``). That a job outlives
    what was expected of it is seen at the next event. ``round_s``: decisions at multiples of this
    only, 0: whenever something has changed. ``foresight``: gives jobs
    estimates of their run times when they are submitted. ``fast``: jobs that all fit are placed by
    the engine's search alone (``shortcut``). ``links``: what the place costs.
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
        links: Places | None = None,
        label: str = "",
    ) -> None:
        label = label or f"ideal {context.policy.name} {context.backfill.kind}"
        super().__init__(workload, round_s, 0, label)
        self.cluster = Cluster(spec)
        # Observe: nothing is reconciled, the plan itself is what is wanted.
        backfill = replace(context.backfill, forecast=False)
        self.context = replace(context, mode=Mode.OBSERVE, partition_modes={}, backfill=backfill)
        self.memory = self.context.memory
        self.kill = kill
        self.foresight = foresight
        self.fast = fast
        self.links = links
        self._estimates: dict[JobKey, Estimate] = {}
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

    def _unfinished(self) -> Iterable[JobKey]:
        return self._pending

    def _gpus(self) -> int:
        return self.cluster.spec.gpus

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

    def _decide(self, now_s: int) -> None:
        if self._pending:
            self._start_some(now_s)
        if self.links is not None:
            self._respeed(self.links, now_s)

    def _respeed(self, links: Places, now_s: int) -> None:
        """Jobs come and go on the uplinks of others."""
        runs = list(self._runs.items())
        speeds = links.speeds(
            [
                (run.spec, [Part(s.node, s.gpu_type, s.gpus, s.gpu_mask) for s in run.shares])
                for _, run in runs
            ]
        )
        for (key, run), speed in zip(runs, speeds, strict=True):
            if speed != run.speed:
                run.advance(now_s)
                run.speed = speed
                run.number += 1
                self._post_end(key, run)

    def _post_end(self, key: JobKey, run: _Run) -> None:
        end_s = run.updated_s + ceil(max(0.0, run.left_s) / run.speed - 1e-6)
        limit_s = self._running[key].limit_s
        if self.kill and limit_s is not None:
            end_s = min(end_s, run.start_s + limit_s)
        self.events.post(max(end_s, self.events.now_s), Kind.END, (key, run.number))

    def _start_some(self, now_s: int) -> None:
        self.decisions += 1
        if self.fast and (places := self._shortcut.find(self._pending.values())):
            for key, shares in places.items():
                self._start(key, shares)
            return
        obs = Observation(
            now_s=now_s,
            controller=self._controller,
            jobs=(*self._running.values(), *self._pending.values()),
            nodes=self.cluster.records(),
            partitions=self.cluster.partitions,
        )
        context = replace(self.context, memory=self.memory, estimates=self._estimates)
        step = decide(obs, context)
        plan, self.memory = step.plan, step.memory
        started = 0
        for key in plan.order:
            decision = plan.decisions[key]
            if decision.verdict is Verdict.START:
                assert decision.placement is not None
                self._start(key, decision.placement.shares)
                started += 1
        if started and started == self.context.guard.max_starts_per_cycle:
            self._review(now_s)  # there may be more in the same second

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
        self._runs[key] = _Run(spec, now_s, shares, float(spec.run_s), now_s)
        self._post_end(key, self._runs[key])

    def _finish(self, subject: tuple[JobKey, int]) -> bool:
        key, number = subject
        if key not in self._runs or self._runs[key].number != number:
            return False
        run = self._runs.pop(key)
        run.advance(self.events.now_s)
        if self.foresight is not None:
            self.foresight.ended(run.spec)
            self._estimates.pop(key, None)
        del self._running[key]
        self.cluster.give(run.shares)
        self._shortcut.change(run.shares, +1)
        self._outcomes.append(
            JobOutcome(
                spec=run.spec,
                first_start_s=run.start_s,
                start_s=run.start_s,
                end_s=self.events.now_s,
                nodes=tuple(s.node for s in run.shares),
                state="COMPLETED" if run.left_s <= 1e-6 else "TIMEOUT",
            )
        )
        return True
