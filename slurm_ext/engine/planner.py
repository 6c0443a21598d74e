"""Walking the ordered queue once: who starts, who is promised a start, who waits and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from slurm_ext.model.decision import Decision, Fence, Placement, Reason, Stage, Term, Verdict
from slurm_ext.model.job import JobKey
from slurm_ext.model.observation import Observation

from .allow import Allowance, Allowed
from .explain import reason, why_not_placed
from .policy import Policy
from .pool import Demand, Free, Pool, demand_of
from .search import place, possible, repeated
from .settings import BackfillSettings
from .timeline import Barrier, Release, shadow
from .view import JobView

ALTERNATIVES = 2


@dataclass(frozen=True, slots=True)
class Shape:
    """A demand and its number within this walk: a small key for everything remembered."""

    number: int
    demand: Demand


@dataclass(slots=True)
class Planner:
    """State of one walk; made anew each cycle."""

    obs: Observation
    pool: Pool
    policy: Policy
    settings: BackfillSettings
    timeline: list[Release]
    max_starts: int = 0
    allowance: Allowance = field(init=False)
    decisions: dict[JobKey, Decision] = field(default_factory=dict)
    fences: list[Fence] = field(default_factory=list)
    starts: int = 0
    _barriers: list[Barrier] = field(default_factory=list)
    _shapes: dict[int, Shape] = field(default_factory=dict)
    _shape_of_value: dict[object, Shape] = field(default_factory=dict)
    _failed: dict[object, tuple[Reason, ...]] = field(default_factory=dict)
    _possible: dict[object, Reason | None] = field(default_factory=dict)
    _blocked_partitions: dict[str, JobKey] = field(default_factory=dict)
    _throttles: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.allowance = Allowance(self.pool, self.obs)
        for job in self.obs.jobs:
            if job.array_job_id and job.state.occupies:
                running = self._throttles.get(job.array_job_id, 0)
                self._throttles[job.array_job_id] = running + 1

    def shape(self, view: JobView) -> Shape:
        """The demand of a job with its number, shared between equal requests."""
        request = view.job.request
        # By identity first: the adapters share equal requests, and hashing one is dear.
        found = self._shapes.get(id(request))
        if found is None:
            found = self._shape_of_value.get(request)
            if found is None:
                demand = demand_of(request, memory_counts=self.pool.memory_counts)
                found = Shape(len(self._shape_of_value), demand)
                self._shape_of_value[request] = found
            self._shapes[id(request)] = found
        return found

    def allowed(self, view: JobView) -> Allowed:
        """Where the job may run if it starts when it becomes eligible."""
        return self.allowance.of(view.job, view.eligible_s, view.duration_s)

    def keep_place(self, view: JobView) -> None:
        """Reserve the place of a job let go earlier, where it is still free.

        Where it is not, the job has most likely just started: jobs and nodes are not read in the
        same moment. It stays let go until the grace is over.
        """
        entry = view.entry
        if entry is None:
            return
        demand, allowed = self.shape(view).demand, self.allowed(view)
        nodes = allowed.nodes
        if entry.planned_nodes:
            nodes = nodes.copy()
            for i, node in enumerate(self.pool.nodes):
                nodes[i] &= node.name in entry.planned_nodes
        found = place(self.pool, self.pool.free, demand, nodes, self.policy.placement)
        if found:
            self._occupy(view, found[0])
        age_s = self.obs.now_s - (entry.released_s or self.obs.now_s)
        self.decisions[view.key] = Decision(
            view.key, Verdict.STARTING, (reason("let_go", Stage.RECONCILE, ago_s=age_s),),
            placement=found[0] if found else None, start_s=self.obs.now_s,
        )  # fmt: skip

    def walk(self, ordered: Sequence[tuple[JobView, tuple[Term, ...]]]) -> None:
        """Give every job of the ordered queue its one decision."""
        for rank, (view, terms) in enumerate(ordered):
            shape, allowed = self.shape(view), self.allowed(view)
            memo = (shape.number, allowed.number, self._crossing(view))
            failed = self._failed.get(memo)
            if failed is not None and self.settings.kind != "none":
                decision = Decision(view.key, self._verdict_of(failed), failed, rank, terms)
            else:
                found = self._decide(view, shape, allowed, memo)
                decision = replace(found, rank=rank, terms=terms)
            self.decisions[view.key] = decision

    # -- one job -------------------------------------------------------------------------

    def _decide(
        self, view: JobView, shape: Shape, allowed: Allowed, memo: tuple[object, ...]
    ) -> Decision:
        blocked_by = self._strict_block(view)
        if blocked_by is not None:
            return self._wait(view, reason("behind_blocked", Stage.BACKFILL,
                                           blocked_job=blocked_by.job_id))  # fmt: skip
        if self.max_starts and self.starts >= self.max_starts:
            return self._wait(view, reason("start_budget", Stage.GUARD, limit=self.max_starts))
        tasks, placements, short = self._place_tasks(view, shape.demand, allowed)
        if tasks:
            self.starts += tasks
            first = placements[0]
            return Decision(
                view.key, Verdict.START,
                (reason("fits", Stage.PLACE, nodes=",".join(first.nodes)),),
                placement=first, alternatives=tuple(placements[1:]),
                start_s=view.eligible_s, tasks=tasks,
            )  # fmt: skip
        if short is not None:
            return self._wait(view, short)
        decision = self._blocked(view, shape, allowed)
        if decision.start_s is None:
            self._failed[memo] = decision.reasons
        return decision

    def _verdict_of(self, reasons: tuple[Reason, ...]) -> Verdict:
        never = reasons and reasons[0].code in ("never_fits", "no_such_node")
        return Verdict.NEVER if never else Verdict.WAIT

    def _crossing(self, view: JobView) -> tuple[bool, ...]:
        if not self._barriers:
            return ()
        end_s = view.eligible_s + view.duration_s
        return tuple(end_s > b.start_s for b in self._barriers)

    def _free_for(self, view: JobView) -> Free:
        free = self.pool.free
        for barrier, crosses in zip(self._barriers, self._crossing(view), strict=True):
            if crosses:
                free = free.minimum(barrier.extra)
        return free

    def _strict_block(self, view: JobView) -> JobKey | None:
        if self.settings.kind != "none":
            return None
        for name in view.job.partitions:
            if name in self._blocked_partitions:
                return self._blocked_partitions[name]
        return None

    def _occupy(self, view: JobView, placement: Placement) -> None:
        self.pool.take(placement.shares)
        for barrier, crosses in zip(self._barriers, self._crossing(view), strict=True):
            if crosses:
                for share in placement.shares:
                    self.pool.apply(barrier.extra, share, -1)
        end_s = view.eligible_s + view.duration_s
        self.timeline.append(Release(end_s, placement.shares))

    def _place_tasks(
        self, view: JobView, demand: Demand, allowed: Allowed
    ) -> tuple[int, list[Placement], Reason | None]:
        """Place the job, or as many tasks of an array as Slurm would start together.

        An array is let go whole, so either all of its tasks that fit may start, or none.
        """
        job = view.job
        count = max(1, job.array_count)
        if job.array_throttle:
            running = self._throttles.get(job.array_job_id or job.job_id, 0)
            count = min(count, max(0, job.array_throttle - running))
            if not count:
                return 0, [], reason("array_throttled", Stage.VIEW, throttle=job.array_throttle)
        first: list[Placement] = []
        mark = self.pool.checkpoint() if count > 1 else None
        kept = [b.extra.copy() for b in self._barriers] if count > 1 else []
        placed, rounds = 0, 0
        while placed < count:
            found = place(
                self.pool, self._free_for(view), demand, allowed.nodes, self.policy.placement,
                required=allowed.required, alternatives=0 if placed else ALTERNATIVES,
            )  # fmt: skip
            if not found:
                break
            first = first or found
            taken, placement = repeated(
                self.pool, self._free_for(view), demand, found[0], count - placed
            )
            self._occupy(view, placement)
            placed += taken
            rounds += 1
        if 0 < placed < count and self._barriers and self._fits_raw(demand, allowed):
            assert mark is not None
            self.pool.rollback(mark)
            for barrier, extra in zip(self._barriers, kept, strict=True):
                barrier.extra = extra
            del self.timeline[-rounds:]
            return 0, [], reason(
                "array_behind_fence", Stage.BACKFILL, fit=placed,
                fence_job=self.fences[0].key.job_id,
            )  # fmt: skip
        return placed, first, None

    def _fits_raw(self, demand: Demand, allowed: Allowed) -> bool:
        return possible(self.pool, self.pool.free, demand, allowed.nodes, allowed.required)

    # -- a job that cannot start ---------------------------------------------------------

    def _wait(self, view: JobView, why: Reason) -> Decision:
        return Decision(view.key, Verdict.WAIT, (why,))

    def _wants_fence(self) -> bool:
        return self.settings.kind == "easy" and len(self._barriers) < self.settings.fences

    def _blocked(self, view: JobView, shape: Shape, allowed: Allowed) -> Decision:
        demand = shape.demand
        never = self._never(shape, allowed)
        if never is not None:
            return Decision(view.key, Verdict.NEVER, (never,))
        for name in view.job.partitions:
            self._blocked_partitions.setdefault(name, view.key)
        why = self._why(view, demand, allowed)
        if not self._wants_fence():
            return self._wait(view, why)
        found = shadow(
            self.pool, sorted(self.timeline, key=lambda r: r.end_s), view.job, demand,
            view.duration_s, self.allowance, self.policy.placement, self._barriers,
            self.obs.now_s,
        )  # fmt: skip
        if found is None:
            return Decision(
                view.key, Verdict.WAIT, (why, reason("no_release_helps", Stage.BACKFILL))
            )
        start_s, placement, extra = found
        self._barriers.append(Barrier(start_s, extra))
        self.fences.append(Fence(view.key, start_s, placement))
        self._failed.clear()  # what fitted before may now cross the fence, and the other way round
        fenced = reason(
            "fenced", Stage.BACKFILL,
            in_s=start_s - self.obs.now_s, nodes=",".join(placement.nodes),
        )  # fmt: skip
        return Decision(view.key, Verdict.WAIT, (why, fenced), placement=placement, start_s=start_s)

    def _never(self, shape: Shape, allowed: Allowed) -> Reason | None:
        key, demand = (shape.number, allowed.number), shape.demand
        if key not in self._possible:
            ever = possible(self.pool, self.pool.capacity, demand, allowed.static, allowed.required)
            if allowed.missing_required:
                self._possible[key] = reason("no_such_node", Stage.PLACE, "name existing nodes")
            elif ever:
                self._possible[key] = None
            else:
                self._possible[key] = reason(
                    "never_fits", Stage.PLACE, "ask for less per node, or another partition"
                )
        return self._possible[key]

    def _why(self, view: JobView, demand: Demand, allowed: Allowed) -> Reason:
        now_s = self.obs.now_s
        if self._barriers and self._fits_raw(demand, allowed):
            fence = self.fences[0]
            in_s = fence.start_s - now_s
            return reason(
                "behind_fence", Stage.BACKFILL, f"a limit of at most {max(0, in_s)} s",
                fence_job=fence.key.job_id, fence_in_s=in_s,
            )  # fmt: skip
        capacity = self.pool.capacity
        if not possible(self.pool, capacity, demand, allowed.nodes, allowed.required):
            window = self.allowance.next_window(view.job, view.eligible_s, view.duration_s)
            if window is not None:
                return reason(
                    "reservation_window", Stage.PLACE,
                    reservation=window.name, limit_s=max(0, window.start_s - now_s),
                )  # fmt: skip
            down = int((allowed.static & ~allowed.nodes).sum())
            return reason("nodes_unavailable", Stage.PLACE, down=down)
        return why_not_placed(self.pool, self.pool.free, view.job, demand, allowed)
