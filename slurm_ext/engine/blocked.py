"""Why a job cannot start now: never, for want of room, or because somebody was promised it."""

from __future__ import annotations

from dataclasses import dataclass, field

from slurm_ext.model.decision import Reason, Stage
from slurm_ext.model.job import JobKey
from slurm_ext.model.units import EpochS

from .allow import Allowance, Allowed
from .durations import limit_of
from .explain import reason, why_not_placed
from .pool import Demand, Pool
from .profile import Profile
from .promises import Promises
from .search import possible
from .view import JobView


@dataclass(slots=True)
class Blocked:
    """Reasons for one walk."""

    pool: Pool
    profile: Profile
    allowance: Allowance
    promises: Promises
    _never: dict[tuple[int, int], Reason | None] = field(default_factory=dict)

    def limit_s(self, view: JobView) -> int:
        """Slurm goes by the limit where a reservation is ahead, whatever we expect."""
        return limit_of(view.job, self.promises.settings.default_limit_s)

    def never(self, shape: int, demand: Demand, allowed: Allowed) -> Reason | None:
        """Why the job can never run on this cluster as asked, or None."""
        key = shape, allowed.number
        if key not in self._never:
            ever = possible(self.pool, self.pool.capacity, demand, allowed.static, allowed.required)
            if allowed.missing_required:
                self._never[key] = reason("no_such_node", Stage.PLACE, "name existing nodes")
            elif ever:
                self._never[key] = None
            else:
                self._never[key] = reason(
                    "never_fits", Stage.PLACE, "ask for less per node, or another partition"
                )
        return self._never[key]

    def held_back(self, demand: Demand, allowed: Allowed) -> bool:
        """Whether the demand fits into what is free, and only promises are in its way."""
        return bool(
            self.promises.made or self.promises.tokens or self.promises.bounds.tokens
        ) and possible(self.pool, self.pool.free, demand, allowed.nodes, allowed.required)

    def by(self, view: JobView, demand: Demand, allowed: Allowed) -> tuple[JobKey | None, EpochS]:
        """Whose promise the job would break first, and when that is due: by the planned run time,
        else by its limit the bound of one."""
        end_s, bounds = view.eligible_s + view.duration_s, self.promises.bounds
        free = self.profile.window(end_s)
        if bounds.profile is not None and possible(
            self.pool, free, demand, allowed.nodes, allowed.required
        ):
            limit_end_s = view.eligible_s + self.limit_s(view)
            at_s = self._first(bounds.profile, demand, allowed, limit_end_s)
            return bounds.owner(at_s), at_s
        at_s = self._first(self.profile, demand, allowed, end_s)
        return self.promises.owner(at_s), at_s

    def _first(self, profile: Profile, demand: Demand, allowed: Allowed, end_s: EpochS) -> EpochS:
        """The first drop of a profile before ``end_s`` that a job must not run into."""
        drops = profile.drops(end_s)
        low, high, step = 0, len(drops) - 1, 1
        # What fits until a drop only shrinks with the next: gallop, for it is mostly the first
        # ones, then search by halves.
        while low < high:
            middle = min(low + step - 1, (low + high) // 2) if step else (low + high) // 2
            free = profile.window(drops[middle] + 1)
            if possible(self.pool, free, demand, allowed.nodes, allowed.required):
                low, step = middle + 1, 2 * step
            else:
                high, step = middle, 0
        return drops[low] if drops else profile.now_s

    def why(self, view: JobView, demand: Demand, allowed: Allowed) -> Reason:
        """What is in the way now, with the numbers."""
        now_s = self.profile.now_s
        if self.held_back(demand, allowed):
            key, at_s = self.by(view, demand, allowed)
            return reason(
                "behind_fence", Stage.BACKFILL, f"a limit of at most {at_s - now_s} s",
                fence_job=key.job_id if key else None, fence_in_s=at_s - now_s,
            )  # fmt: skip
        capacity = self.pool.capacity
        if not possible(self.pool, capacity, demand, allowed.nodes, allowed.required):
            window = self.allowance.next_window(view.job, view.eligible_s, self.limit_s(view))
            if window is not None:
                return reason(
                    "reservation_window", Stage.PLACE,
                    reservation=window.name, limit_s=max(0, window.start_s - now_s),
                )  # fmt: skip
            down = int((allowed.static & ~allowed.nodes).sum())
            return reason("nodes_unavailable", Stage.PLACE, down=down)
        return why_not_placed(self.pool, self.pool.free, view.job, demand, allowed)
