"""The latest start of each promised job, kept free in a profile that goes by time limits.

Where jobs are planned with learned run times a promise can slip, and many small delays add up. So
each promise is given a second place, at the earliest ``max_slip_s`` after the first promise, in a
profile in which everything that runs takes its whole limit. Nobody may start who does not fit
there, with its own limit, beside all of these. So however many pass a promised job, and however
wrong all predictions are, its place is free by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from slurm_ext.model.decision import Placement
from slurm_ext.model.job import JobKey, NodeShare
from slurm_ext.model.observation import Observation
from slurm_ext.model.units import EpochS

from .allow import Allowance
from .pool import Free, Pool
from .profile import Profile, Token
from .settings import BackfillSettings, Promise
from .timeline import releases

Search = Callable[[EpochS], tuple[EpochS, Placement] | None]
"""The earliest start from a moment on, with nodes."""


@dataclass(slots=True)
class Bounds:
    """The bounds of one walk. ``profile`` None: limits are planned with, and no promise slips.

    ``max_slip_s``: after the first promise, in so far as what runs leaves room.
    """

    profile: Profile | None
    max_slip_s: int
    tokens: dict[JobKey, Token] = field(default_factory=dict)

    def stand(self, key: JobKey, promise: Promise, limit_s: int) -> None:
        """Keep the place of an earlier cycle, if it can still be kept."""
        token = self._token(promise, limit_s)
        if token is not None:
            assert self.profile is not None
            self.profile.again(token)
            self.tokens[key] = token

    def _token(self, promise: Promise, limit_s: int) -> Token | None:
        if self.profile is None or not promise.bound_shares:
            return None
        start_s = max(promise.bound_s, self.profile.now_s)
        token = self.profile.planned(start_s, start_s + limit_s, promise.bound_shares)
        complete = len(token.nodes) == len(promise.bound_shares)
        return token if complete and self.profile.holds(token) else None

    def give_back(self, keys: Iterable[JobKey]) -> None:
        """These jobs start, or are given another place."""
        for key in list(keys):
            token = self.tokens.pop(key, None)
            if token is not None:
                assert self.profile is not None
                self.profile.remove(token)

    def keep(
        self, key: JobKey, promise: Promise, prior: Promise | None, limit_s: int, search: Search
    ) -> Promise:
        """The promise with its bound: the one it had, a new one where that cannot be kept."""
        if self.profile is None:
            return promise
        token = self._token(prior, limit_s) if prior is not None else None
        if token is not None and prior is not None:
            self.profile.again(token)
            self.tokens[key] = token
            return promise._replace(bound_s=prior.bound_s, bound_shares=prior.bound_shares)
        found = search(max(promise.held_s, promise.first_s + self.max_slip_s))
        if found is None:
            return promise
        bound_s, placement = found
        self.tokens[key] = self.profile.add(bound_s, bound_s + limit_s, placement.shares)
        return promise._replace(bound_s=bound_s, bound_shares=placement.shares)

    def window(self, end_s: EpochS) -> Free | None:
        """What a job whose limit ends then may take now; None: whatever is free."""
        return self.profile.window(end_s) if self.profile is not None else None

    def started(self, end_s: EpochS, shares: tuple[NodeShare, ...]) -> Token | None:
        """A job has started that runs until then at the latest."""
        if self.profile is None:
            return None
        return self.profile.add(self.profile.now_s, end_s, shares, started=True)

    def owner(self, start_s: EpochS) -> JobKey | None:
        """Whose place is kept from this moment on."""
        return next((k for k, t in self.tokens.items() if t.start_s == start_s), None)


def bounds_of(
    pool: Pool, obs: Observation, allowance: Allowance, settings: BackfillSettings
) -> Bounds:
    """The bounds of a walk that begins, with no place kept yet."""
    if settings.durations == "limit" or not settings.promised:
        return Bounds(None, 0)
    limits = replace(settings, durations="limit")
    running = [j for j in obs.jobs if j.state.occupies]
    profile = Profile(pool, obs.now_s, releases(running, obs.now_s, limits, {}))
    for nodes, start_s, end_s in allowance.closures(obs.now_s):
        profile.close(nodes, start_s, end_s)
    return Bounds(profile, settings.max_slip_s)
