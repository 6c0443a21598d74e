"""Promised starts: kept from cycle to cycle, moved only by rule, their slips counted.

Rule: a job keeps its promise unless it can start earlier, or what runs makes it impossible. So an
early end never puts off anybody who was promised a start (compression: Mu'alem, Feitelson 2001).
With ``easy`` the order of now rules: a newcomer ahead takes the promises of those behind it away.
With ``conservative`` and ``slack`` they stand against newcomers, too. ``slack`` keeps the room only
from the latest allowed start on (after Talby, Feitelson 1999; differs: a fixed slack per job, and
the first fit is taken, not the cheapest schedule).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slurm_ext.model.decision import Placement
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.units import EpochS

from .bounds import Bounds, Search
from .durations import limit_of
from .profile import Profile, Token
from .settings import BackfillSettings, Kept, Promise
from .view import JobView


@dataclass(slots=True)
class Promises:
    """The promises of one walk.

    ``prior``: as the last cycle left them. ``made``: those of this cycle. ``tokens``: room kept in
    the profile for jobs whose turn has not come; ``taken``: for those of ``made``.
    """

    profile: Profile
    settings: BackfillSettings
    prior: Mapping[JobKey, Promise]
    bounds: Bounds
    made: dict[JobKey, Promise] = field(default_factory=dict)
    tokens: dict[JobKey, Token] = field(default_factory=dict)
    taken: list[Token] = field(default_factory=list)
    moved: int = 0

    @property
    def wanted(self) -> bool:
        """Whether the next blocked job is to be promised a start."""
        return len(self.made) < self.settings.promised

    def stand(self, views: Iterable[tuple[JobView, bool, bool]]) -> None:
        """Keep the room of earlier promises that can still be held.

        ``views`` in order, each with whether its nodes, and those of its bound, may still be used.
        """
        for view, usable, bound_usable in views:
            if len(self.tokens) >= self.settings.promised:
                return
            promise = self.prior.get(view.key)
            if promise is None or promise.request != view.job.request:
                continue
            if bound_usable:
                limit_s = limit_of(view.job, self.settings.default_limit_s)
                self.bounds.stand(view.key, promise, limit_s)
            if not usable:
                continue
            start_s = max(promise.held_s, self.profile.now_s)
            token = self.profile.planned(start_s, start_s + view.duration_s, promise.shares)
            if len(token.nodes) == len(promise.shares) and self.profile.holds(token):
                self.profile.again(token)
                self.tokens[view.key] = token

    def turn(self, key: JobKey) -> tuple[Token | None, bool]:
        """It is the job's turn: its own room is given back, and with ``easy`` that of all behind it
        if it had none itself. Also, whether anything was given back."""
        token = self.tokens.pop(key, None)
        if token is not None:
            self.profile.remove(token)
        self.bounds.give_back([key])
        if token is not None:
            return token, True
        earlier = [k for k in self.bounds.tokens if k not in self.made]
        if not (self.tokens or earlier) or self.settings.kind != "easy":
            return None, False
        for other in self.tokens.values():
            self.profile.remove(other)
        self.bounds.give_back(earlier)
        self.tokens.clear()
        return None, True

    def stands(self, key: JobKey) -> bool:
        """Whether any room is kept for the job from an earlier cycle."""
        return key in self.tokens or key in self.bounds.tokens

    def due(self, key: JobKey) -> bool:
        """Whether the job's bound is reached: then predictions keep it from its place no more."""
        promise = self.prior.get(key)
        if promise is None or not promise.bound_shares:
            return False
        return promise.bound_s <= self.profile.now_s

    def owner(self, held_s: EpochS) -> JobKey | None:
        """Whose room is kept from this moment on."""
        for key, promise in self.made.items():
            if max(promise.held_s, self.profile.now_s) == held_s:
                return key
        return next((k for k, t in self.tokens.items() if t.start_s == held_s), None)

    def make(
        self, view: JobView, token: Token | None, search: Search, search_bound: Search
    ) -> tuple[Promise, Placement] | None:
        """Promise a blocked job its earliest start; ``token``: the room it had until now.

        ``search_bound``: the same for the place that bounds its slip.
        """
        prior = self.prior.get(view.key)
        found = search(self.profile.now_s)
        if token is not None and prior is not None and self._keeps(found, prior, token):
            found = token.start_s, Placement(prior.shares)
        if found is None:
            return None
        start_s, placement = found
        first_s = prior.first_s if prior is not None else start_s
        held_s, held = self._held(view, first_s, found, prior, token, search)
        promise = self.bounds.keep(
            view.key, Promise(first_s, start_s, held_s, held.shares, view.job.request), prior,
            limit_of(view.job, self.settings.default_limit_s), search_bound,
        )  # fmt: skip
        self.taken.append(self.profile.add(held_s, held_s + view.duration_s, held.shares))
        self.made[view.key] = promise
        if prior is not None and start_s > max(prior.start_s, self.profile.now_s):
            self.moved += 1
        return promise, placement

    def _keeps(self, found: tuple[EpochS, Placement] | None, prior: Promise, token: Token) -> bool:
        if self.settings.kind == "slack" and prior.held_s > prior.start_s:
            return found is None
        return found is None or found[0] >= token.start_s

    def _held(
        self,
        view: JobView,
        first_s: EpochS,
        found: tuple[EpochS, Placement],
        prior: Promise | None,
        token: Token | None,
        search: Search,
    ) -> tuple[EpochS, Placement]:
        """From when on room is kept, and where."""
        slack_s = self._slack_s(view, first_s)
        latest_s = first_s + slack_s
        if not slack_s or latest_s <= found[0]:
            return found
        if token is not None and prior is not None and token.start_s <= latest_s:
            return token.start_s, Placement(prior.shares)
        later = search(latest_s)
        return later if later is not None and later[0] == latest_s else found

    def _slack_s(self, view: JobView, first_s: EpochS) -> int:
        settings = self.settings
        if settings.kind != "slack":
            return 0
        if not settings.slack_fraction:
            return settings.max_slip_s
        wait_s = max(0, first_s - view.key.submit_s)
        return min(settings.max_slip_s, int(settings.slack_fraction * wait_s))

    def guards(self, promise: Promise) -> bool:
        """Whether it has slipped as far as anybody may put it off: limits count around it."""
        settings = self.settings
        return settings.durations != "limit" and promise.slip_s >= max(1, settings.max_slip_s)

    # -- from cycle to cycle -------------------------------------------------------------

    def left(self, waiting: Iterable[JobKey]) -> dict[JobKey, Promise]:
        """Promises for the next cycle: those made now, and those of jobs about to start."""
        starting = {k: self.prior[k] for k in waiting if k in self.prior and k not in self.made}
        return {**starting, **self.made}

    def stats(self) -> dict[str, float]:
        slips = [p.slip_s for p in self.made.values()]
        return {
            "promises": len(self.made),
            "promises_moved": self.moved,
            "promises_guarded": sum(self.guards(p) for p in self.made.values()),
            "slip_max_s": max(slips, default=0),
            "slip_sum_s": sum(slips),
        }


def settled(jobs: Iterable[Job], prior: Mapping[JobKey, Promise], kept: Kept) -> Kept:
    """The count of kept promises with those jobs that are seen running now."""
    for job in jobs:
        promise = prior.get(job.key)
        if promise is None or job.start_s is None:
            continue
        late_s = job.start_s - promise.first_s
        if late_s <= 0:
            kept = kept._replace(on_time=kept.on_time + 1)
        else:
            kept = Kept(
                kept.on_time, kept.late + 1, kept.late_s + late_s, max(kept.worst_s, late_s)
            )
    return kept
