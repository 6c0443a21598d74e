"""A job inside the simulated Slurm: its record, and what remains of its work."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from slurm_ext.engine.pool import Demand
from slurm_ext.model.job import BaseState, Job, JobKey, JobState, NodeShare, Request
from slurm_ext.model.units import EpochS

from .workload import TraceJob


class Phase(Enum):
    """Where a job is in its life."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETING = "completing"  # the process has ended, its nodes are not clean yet
    ENDED = "ended"


_STATES = {
    Phase.PENDING: JobState(BaseState.PENDING),
    Phase.RUNNING: JobState(BaseState.RUNNING),
}


@dataclass(slots=True, eq=False)
class SimJob:
    """One job. ``base_priority`` is Slurm's own; ``priority`` what it sorts by.

    ``remaining_s``: run time still to do; ``begin_s`` 0: may start at once. ``run``: counts
    attempts, so that an event of an earlier attempt is known as such. ``lost_s``: run time done
    twice, and restarts. ``back``: requeued, so after completing it waits again.
    ``where``: nodes of the last attempt. ``shape``: equal for jobs that fit the same nodes.
    """

    spec: TraceJob
    key: JobKey
    request: Request
    demand: Demand
    limit_s: int
    base_priority: int
    remaining_s: int
    phase: Phase = Phase.PENDING
    site_factor: int = 0
    held: bool = False
    begin_s: EpochS = 0
    required: tuple[int, ...] = ()
    excluded: tuple[int, ...] = ()
    admin_comment: str = ""
    shares: tuple[NodeShare, ...] = ()
    first_start_s: EpochS | None = None
    start_s: EpochS | None = None
    end_s: EpochS | None = None
    ended_as: BaseState = BaseState.COMPLETED
    run: int = 0
    restarts: int = 0
    lost_s: int = 0
    back: bool = False
    where: tuple[str, ...] = ()
    shape: int = 0
    seen: Job | None = field(default=None, repr=False)

    @property
    def priority(self) -> int:
        return 0 if self.held else max(1, self.base_priority + self.site_factor)

    @property
    def expected_end_s(self) -> EpochS:
        """When Slurm will have ended it at the latest."""
        assert self.start_s is not None
        return self.start_s + self.limit_s

    def stop_early(self, worked_s: int) -> None:
        """Account for a run cut short after ``worked_s`` of work: back to the last checkpoint."""
        step_s = self.spec.checkpoint_s
        kept_s = worked_s // step_s * step_s if step_s else 0
        self.lost_s += worked_s - kept_s + self.spec.restart_s
        self.remaining_s = self.remaining_s - kept_s + self.spec.restart_s

    def shown(self, now_s: EpochS) -> Job:
        """The record as ``squeue`` and ``scontrol`` would show it."""
        if self.seen is None:
            self.seen = self._make(now_s)
        return self.seen

    def _make(self, now_s: EpochS) -> Job:
        ahead = self.begin_s > now_s
        pending = self.phase is Phase.PENDING
        return Job(
            key=self.key,
            name=self.spec.model or f"job{self.key.job_id}",
            user=self.spec.user or "user0",
            account="sim",
            partitions=(self.spec.partition,),
            state=self._state(),
            request=self.request,
            reason=self._reason(ahead) if pending else "",
            priority=self.priority,
            site_factor=self.site_factor,
            limit_s=self.limit_s,
            begin_s=self.begin_s if ahead and pending else None,
            start_s=None if pending else self.start_s,
            end_s=self._end_s(),
            alloc=self.shares,
            admin_comment=self.admin_comment,
            restarts=self.restarts,
            requeueable=True,
        )

    def _end_s(self) -> EpochS | None:
        if self.phase is Phase.PENDING:
            return None
        return self.expected_end_s if self.phase is Phase.RUNNING else self.end_s

    def _state(self) -> JobState:
        if self.phase is Phase.COMPLETING:
            base = BaseState.PENDING if self.back else self.ended_as
            return JobState(base, frozenset({"COMPLETING"}))
        return _STATES.get(self.phase) or JobState(self.ended_as)

    def _reason(self, ahead: bool) -> str:
        if self.held:
            return "JobHeldAdmin"
        return "BeginTime" if ahead else "Priority"
