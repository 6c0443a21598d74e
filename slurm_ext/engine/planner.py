"""Walking the ordered queue once: who starts, who is promised a start, who waits and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from slurm_ext.model.decision import Decision, Fence, Placement, Reason, Stage, Term, Verdict
from slurm_ext.model.job import JobKey, NodeShare
from slurm_ext.model.observation import Observation
from slurm_ext.model.units import EpochS

from .allow import Allowance, Allowed
from .asked import Asked, Shape
from .blocked import Blocked
from .bounds import bounds_of
from .earliest import earliest
from .explain import bandwidth, reason
from .failed import Failure, Hole
from .policy import Policy
from .pool import Demand, Free, Pool
from .profile import Profile, Token
from .promises import Promises
from .search import place, repeated
from .settings import BackfillSettings, Promise
from .steps import Release
from .view import JobView

ALTERNATIVES = 2

Taken = tuple[Profile, Token]
"""What a start took, so that it can be given back."""


@dataclass(slots=True)
class Planner:
    """State of one walk; made anew each cycle. ``prior``: promises of the last one."""

    obs: Observation
    pool: Pool
    policy: Policy
    settings: BackfillSettings
    timeline: list[Release]
    max_starts: int = 0
    prior: Mapping[JobKey, Promise] = field(default_factory=dict)
    profile: Profile = field(init=False)
    promises: Promises = field(init=False)
    allowance: Allowance = field(init=False)
    blocked: Blocked = field(init=False)
    _asked: Asked = field(init=False)
    decisions: dict[JobKey, Decision] = field(default_factory=dict)
    fences: list[Fence] = field(default_factory=list)
    starts: int = 0
    started: list[tuple[JobView, tuple[NodeShare, ...]]] = field(default_factory=list)
    _failed: dict[tuple[int, int], Failure] = field(default_factory=dict)
    _blocked_partitions: dict[str, JobKey] = field(default_factory=dict)
    _throttles: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.allowance = Allowance(self.pool, self.obs)
        self.profile = Profile(self.pool, self.obs.now_s, self.timeline)
        for nodes, start_s, end_s in self.allowance.closures(self.obs.now_s):
            self.profile.close(nodes, start_s, end_s)
        self.promises = Promises(
            self.profile, self.settings, self.prior,
            bounds_of(self.pool, self.obs, self.allowance, self.settings),
        )  # fmt: skip
        self.blocked = Blocked(self.pool, self.profile, self.allowance, self.promises)
        self._asked = Asked(self.pool, self.allowance, self.settings.default_limit_s)
        for job in self.obs.jobs:
            if job.array_job_id and job.state.occupies:
                running = self._throttles.get(job.array_job_id, 0)
                self._throttles[job.array_job_id] = running + 1

    def asked(self, view: JobView) -> tuple[Shape, Allowed]:
        """What the job asks for, and where it may run if it starts when it becomes eligible."""
        return self._asked.of(view)

    def shape(self, view: JobView) -> Shape:
        return self._asked.of(view)[0]

    def allowed(self, view: JobView) -> Allowed:
        return self._asked.of(view)[1]

    def keep_place(self, view: JobView) -> None:
        """Reserve the place of a job let go earlier, where it is still free.

        Where it is not, the job has most likely just started: jobs and nodes are not read in the
        same moment. It stays let go until the grace is over.
        """
        entry = view.entry
        if entry is None:
            return
        shape, allowed = self.asked(view)
        demand = shape.demand
        nodes = allowed.nodes
        if entry.planned_nodes:
            nodes = nodes.copy()
            for i, node in enumerate(self.pool.nodes):
                nodes[i] &= node.name in entry.planned_nodes
        # Slurm starts every task of an array that fits: it was let go whole.
        _, found, _ = self._fill(
            view, demand, replace(allowed, nodes=nodes, required=()),
            self._most_tasks(view), view.duration_s, lambda: self.pool.free,
        )  # fmt: skip
        age_s = self.obs.now_s - (entry.released_s or self.obs.now_s)
        self.decisions[view.key] = Decision(
            view.key, Verdict.STARTING, (reason("let_go", Stage.RECONCILE, ago_s=age_s),),
            placement=found[0] if found else None, start_s=self.obs.now_s,
        )  # fmt: skip

    def walk(self, ordered: Sequence[tuple[JobView, tuple[Term, ...]]]) -> None:
        """Give every job of the ordered queue its one decision."""
        if self.prior:
            self.promises.stand(
                (v, self._usable(v, p.held_s, p.shares), self._usable(v, p.bound_s, p.bound_shares))
                for v, _ in ordered
                if (p := self.prior.get(v.key)) is not None
            )
        for rank, (view, terms) in enumerate(ordered):
            self.decisions[view.key] = self._decide(view, rank, terms)

    def _usable(self, view: JobView, start_s: EpochS, shares: tuple[NodeShare, ...]) -> bool:
        """Whether promised nodes may still be used at the promised time."""
        allowed = self.allowance.of(view.job, start_s, self.blocked.limit_s(view)).nodes
        where = [self.pool.index.get(s.node, -1) for s in shares]
        return all(i >= 0 and allowed[i] for i in where)

    # -- one job -------------------------------------------------------------------------

    def _decide(self, view: JobView, rank: int, terms: tuple[Term, ...]) -> Decision:
        shape, allowed = self.asked(view)
        memo = (shape.number, allowed.number)
        failed = self._failed.get(memo)
        hole = Hole(view.duration_s, self.blocked.limit_s(view))
        if (
            failed is not None
            and hole.covers(failed.hole)
            and (failed.hopeless or not self.promises.wanted)
            and not self.promises.stands(view.key)
            and self.settings.kind != "none"
        ):
            return Decision(view.key, _verdict_of(failed.reasons), failed.reasons, rank, terms)
        blocked_by = self._strict_block(view)
        if blocked_by is not None:
            why = reason("behind_blocked", Stage.BACKFILL, blocked_job=blocked_by.job_id)
            return Decision(view.key, Verdict.WAIT, (why,), rank, terms)
        if self.max_starts and self.starts >= self.max_starts:
            why = reason("start_budget", Stage.GUARD, limit=self.max_starts)
            return Decision(view.key, Verdict.WAIT, (why,), rank, terms)
        token, given_back = self.promises.turn(view.key)
        if given_back:
            self._failed.clear()  # its room is free again for whoever comes now
        tasks, placements, short = self._place_tasks(view, shape.demand, allowed, hole)
        if tasks:
            self.starts += tasks
            first = placements[0]
            return Decision(
                view.key, Verdict.START,
                (reason("fits", Stage.PLACE, nodes=",".join(first.nodes)),
                 *bandwidth(self.pool, first)), rank, terms,
                placement=first, alternatives=tuple(placements[1:]),
                start_s=view.eligible_s, tasks=tasks,
            )  # fmt: skip
        if short is not None:
            return Decision(view.key, Verdict.WAIT, (short,), rank, terms)
        decision = self._wait(view, shape, allowed, token)
        if decision.start_s is None:
            hopeless = self.promises.wanted or decision.verdict is Verdict.NEVER
            self._failed[memo] = Failure(hole, hopeless, decision.reasons)
        return replace(decision, rank=rank, terms=terms)

    def _strict_block(self, view: JobView) -> JobKey | None:
        if self.settings.kind != "none":
            return None
        for name in view.job.partitions:
            if name in self._blocked_partitions:
                return self._blocked_partitions[name]
        return None

    def _occupy(self, view: JobView, placement: Placement, duration_s: int) -> list[Taken]:
        end_s = view.eligible_s + duration_s
        now_s, shares = self.obs.now_s, placement.shares
        taken = [(self.profile, self.profile.add(now_s, end_s, shares, started=True))]
        bounds = self.promises.bounds
        bound = bounds.started(view.eligible_s + self.blocked.limit_s(view), shares)
        if bound is not None and bounds.profile is not None:
            taken.append((bounds.profile, bound))
        self.pool.take(shares)
        self.timeline.append(Release(end_s, shares))
        self.started.append((view, shares))
        return taken

    def _open(self, view: JobView, hole: Hole, *, due: bool) -> Free:
        """What may be taken without putting anybody off further than allowed."""
        limits = self.promises.bounds.window(view.eligible_s + hole.limit_s)
        if due and limits is not None:
            return limits
        planned = self.profile.window(view.eligible_s + hole.planned_s)
        if limits is None or limits is self.pool.free:  # nobody is promised more than is free now
            return planned
        return limits if planned is self.pool.free else planned.minimum(limits)

    def _place_tasks(
        self, view: JobView, demand: Demand, allowed: Allowed, hole: Hole
    ) -> tuple[int, list[Placement], Reason | None]:
        """Place the job, or as many tasks of an array as Slurm would start together.

        An array is let go whole, so either all of its tasks that fit may start, or none.
        """
        count = self._most_tasks(view)
        if not count:
            throttle = view.job.array_throttle
            return 0, [], reason("array_throttled", Stage.VIEW, throttle=throttle)
        mark = self.pool.checkpoint() if count > 1 else None
        for due in dict.fromkeys((False, count == 1 and self.promises.due(view.key))):
            placed, first, taken = self._fill(
                view, demand, allowed, count, hole.planned_s,
                partial(self._open, view, hole, due=due), ALTERNATIVES,
            )  # fmt: skip
            if placed:
                break
        if 0 < placed < count and self.blocked.held_back(demand, allowed):
            assert mark is not None
            self.pool.rollback(mark)
            for profile, token in taken:
                profile.remove(token)
            steps = sum(profile is self.profile for profile, _ in taken)
            del self.timeline[-steps:]
            del self.started[-steps:]
            key, _ = self.blocked.by(view, demand, allowed)
            return 0, [], reason(
                "array_behind_fence", Stage.BACKFILL, fit=placed,
                fence_job=key.job_id if key else None,
            )  # fmt: skip
        return placed, first, None

    def _most_tasks(self, view: JobView) -> int:
        """Tasks that may start together; 1 for a job that is no array."""
        job = view.job
        count = max(1, job.array_count)
        if job.array_throttle:
            running = self._throttles.get(job.array_job_id or job.job_id, 0)
            count = min(count, max(0, job.array_throttle - running))
        return count

    def _fill(
        self,
        view: JobView,
        demand: Demand,
        allowed: Allowed,
        count: int,
        duration_s: int,
        free_now: Callable[[], Free],
        alternatives: int = 0,
    ) -> tuple[int, list[Placement], list[Taken]]:
        """Occupy room for up to ``count`` tasks: how many fit, the first one's placements, what
        was taken of the profile."""
        first: list[Placement] = []
        placed, used = 0, list[Taken]()
        while placed < count:
            free = free_now()
            found = place(
                self.pool, free, demand, allowed.nodes, self.policy.placement,
                required=allowed.required, alternatives=0 if placed else alternatives,
            )  # fmt: skip
            if not found:
                break
            first = first or found
            taken, placement = repeated(self.pool, free, demand, found[0], count - placed)
            used += self._occupy(view, placement, duration_s)
            placed += taken
        return placed, first, used

    # -- a job that cannot start ---------------------------------------------------------

    def _wait(self, view: JobView, shape: Shape, allowed: Allowed, token: Token | None) -> Decision:
        never = self.blocked.never(shape.number, shape.demand, allowed)
        if never is not None:
            return Decision(view.key, Verdict.NEVER, (never,))
        for name in view.job.partitions:
            self._blocked_partitions.setdefault(name, view.key)
        why = self.blocked.why(view, shape.demand, allowed)
        if not self.promises.wanted and token is None:
            return Decision(view.key, Verdict.WAIT, (why,))
        limit_s = self.blocked.limit_s(view)
        search = partial(
            earliest, self.profile, self.allowance, self.policy.placement, view, shape.demand,
            view.duration_s, limit_s,
        )  # fmt: skip
        bounds = self.promises.bounds.profile or self.profile
        search_bound = partial(
            earliest, bounds, self.allowance, self.policy.placement, view, shape.demand,
            limit_s, limit_s,
        )  # fmt: skip
        made = self.promises.make(view, token, search, search_bound)
        if made is None:
            return Decision(
                view.key, Verdict.WAIT, (why, reason("no_release_helps", Stage.BACKFILL))
            )
        promise, placement = made
        self.fences.append(Fence(view.key, promise.start_s, placement, promise.held_s))
        fenced = reason(
            "fenced", Stage.BACKFILL,
            in_s=promise.start_s - self.obs.now_s, nodes=",".join(placement.nodes),
        )  # fmt: skip
        return Decision(view.key, Verdict.WAIT, (why, fenced), placement=placement,
                        start_s=promise.start_s)  # fmt: skip


def _verdict_of(reasons: tuple[Reason, ...]) -> Verdict:
    never = reasons and reasons[0].code in ("never_fits", "no_such_node")
    return Verdict.NEVER if never else Verdict.WAIT
