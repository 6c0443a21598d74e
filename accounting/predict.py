"""Estimates of run times from what the same user, account and site ran before.

Each past attempt of the user is a sample. Samples are grouped by what they share with the new
request (name stem, size, limit, place); within a group the newest counts most, and each thing not
shared costs a factor. Account and site come in with a small weight, so that they decide only where
the user has nothing to say. Needs numpy alone: the daemon loads the fitted form.

Ideas: templates of similar jobs (Smith, Foster, Taylor 1998), recency (Tsafrir, Etsion, Feitelson
2007), censoring (Kaplan, Meier 1958). The weighting is our own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slurm_ext.accounting.features import Features, key
from slurm_ext.accounting.record import BY_USER, ITSELF
from slurm_ext.accounting.weighted import Bools, Floats, masses, nearest, quantile
from slurm_ext.model.estimate import Estimate

COLUMNS = 7
"""Of a sample: run time, how it ended (:func:`~slurm_ext.accounting.record.ending`), size, limit
(0: none), kind of work, place, declared amount of work (0: none)."""

ENOUGH = 20
"""Samples of account or site that have half of their weight."""

SHARED = ("size", "limit", "stem", "place")


@dataclass(frozen=True, slots=True)
class Settings:
    """Numbers of the weighting, as bench/history_settings.py chose them on the first 30 % of three
    traces; dimensionless but for ``keep*`` (samples).

    ``fade``: newer samples of a group after which one counts exp(-1). ``size`` … ``place``: factor
    for a sample that differs in it, together not below ``least``. ``account``, ``site``: weight of
    all their samples together (one fresh sample of the user with everything shared has 1).
    ``rescale``: runs under another limit count by the share of it that they used. ``low``,
    ``high``: quantiles shown as p10 and p90; wider, as few samples are too sure of themselves.
    ``censored``: runs that the user or the limit ended count as "at least", as those that were
    cut short from outside always do; else as run times, since so long they held what they had.
    """

    keep: int = 300
    keep_account: int = 200
    keep_site: int = 300
    fade: float = 12.0
    size: float = 0.2
    limit: float = 0.2
    stem: float = 0.05
    place: float = 0.5
    least: float = 0.01
    account: float = 0.1
    site: float = 0.4
    rescale: bool = True
    low: float = 0.05
    high: float = 0.95
    censored: bool = False


class Ring:
    """The newest samples of one user, newest first on reading."""

    __slots__ = ("_end", "_keep", "_rows")

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._rows = np.empty((0, COLUMNS))
        self._end = 0

    def add(self, sample: Sequence[float]) -> None:
        if self._end == len(self._rows):
            kept = self._rows[max(0, self._end - self._keep) : self._end]
            # Twice as many rows as samples: one copy for many additions.
            self._rows = np.empty((max(8, min(2 * self._keep, 2 * len(kept) + 8)), COLUMNS))
            self._rows[: len(kept)] = kept
            self._end = len(kept)
        self._rows[self._end] = sample
        self._end += 1

    def newest(self) -> Floats:
        """Rows of samples, newest first."""
        return self._rows[max(0, self._end - self._keep) : self._end][::-1]


def sample(job: Features, run_s: float, *, ended: float) -> tuple[float, ...]:
    """The row kept of an attempt."""
    return (
        max(1.0, run_s), float(ended), job.size, float(job.limit_s or 0), key(job.kind),
        key(job.place), job.work,
    )  # fmt: skip


class Samples:
    """What has been learnt: rings of users, accounts and the site."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.users: dict[str, Ring] = {}
        self.accounts: dict[str, Ring] = {}
        self.site = Ring(self.settings.keep_site)

    def learn(self, job: Features, run_s: float, *, ended: float = ITSELF) -> None:
        """Add one attempt that is over; call in order of the ends."""
        row = sample(job, run_s, ended=ended)
        self._ring(self.users, job.user, self.settings.keep).add(row)
        if job.account:
            self._ring(self.accounts, job.account, self.settings.keep_account).add(row)
        self.site.add(row)

    def estimate(self, job: Features, elapsed_s: float = 0.0) -> Estimate | None:
        """Run time in all of a job that has run for ``elapsed_s``; None without any history."""
        user, account = self.users.get(job.user), self.accounts.get(job.account)
        none = np.empty((0, COLUMNS))
        return estimate(
            self.settings, job, elapsed_s,
            none if user is None else user.newest(),
            none if account is None else account.newest(),
            self.site.newest(),
        )  # fmt: skip

    @staticmethod
    def _ring(rings: dict[str, Ring], name: str, keep: int) -> Ring:
        if name not in rings:
            rings[name] = Ring(keep)
        return rings[name]


def estimate(
    settings: Settings, job: Features, elapsed_s: float, user: Floats, account: Floats, site: Floats
) -> Estimate | None:
    """See :meth:`Samples.estimate`; the rows newest first."""
    limit_s = float(job.limit_s) if job.limit_s else None
    parts = _weighted_user(settings, job, user)
    if len(account):
        parts.append(_spread(_to_limit(account, limit_s), settings.account, "account"))
    if len(site):
        parts.append(_spread(_to_limit(site, limit_s), settings.site, "site"))
    parts = [part for part in parts if part.weights.sum() > 0]
    if not parts:
        return _by_limit(limit_s, elapsed_s)
    runs = np.concatenate([p.rows[:, 0] for p in parts])
    ended = np.concatenate([p.rows[:, 1] for p in parts]) >= (
        ITSELF if settings.censored else BY_USER
    )
    weights = np.concatenate([p.weights for p in parts])
    if limit_s is not None:
        runs = np.minimum(runs, limit_s)
    alive = runs > elapsed_s
    if not alive.any():
        return _beyond(limit_s, elapsed_s)
    level, count = _basis(parts, elapsed_s, limit_s)
    made = masses(runs[alive], weights[alive], ended[alive], limit_s)
    return _summary(settings, *made, level, count)


class _Part(NamedTuple):
    rows: Floats
    weights: Floats
    level: str


def _weighted_user(settings: Settings, job: Features, rows: Floats) -> list[_Part]:
    """One part for each pattern of what is shared, the newest of each first."""
    if not len(rows):
        return []
    wanted = np.array((job.size, float(job.limit_s or 0), key(job.kind), key(job.place)))
    same: Bools = rows[:, 2:6] == wanted
    pattern = same @ np.array((1, 2, 4, 8))
    costs = (settings.size, settings.limit, settings.stem, settings.place)
    parts = []
    for value in np.unique(pattern):
        chosen = rows[pattern == value]
        factor, names = 1.0, ["user"]
        for bit, (name, cost) in enumerate(zip(SHARED, costs, strict=True)):
            if int(value) >> bit & 1:
                names.append(name)
            else:
                factor *= cost
        if int(value) & 4:
            chosen = _to_work(chosen, job.work)
        if settings.rescale and not int(value) & 2:
            chosen = _to_limit(chosen, job.limit_s)
        weights = max(settings.least, factor) * np.exp(-np.arange(len(chosen)) / settings.fade)
        parts.append(_Part(chosen, weights, "+".join(names)))
    return parts


def _spread(rows: Floats, weight: float, level: str) -> _Part:
    # A handful of samples of others is no evidence yet.
    share = weight / (len(rows) + ENOUGH)
    return _Part(rows, np.full(len(rows), share), level)


def _to_limit(rows: Floats, limit_s: float | None) -> Floats:
    """Samples of other work tell more by the share of their limit that they used."""
    if not limit_s:
        return rows
    limited = rows[:, 3] > 0
    scaled = rows.copy()
    scaled[limited, 0] = np.maximum(1.0, rows[limited, 0] / rows[limited, 3] * limit_s)
    return scaled


def _to_work(rows: Floats, work: float) -> Floats:
    """The same kind of work takes time in proportion to its steps or epochs."""
    if work <= 0:
        return rows
    declared = rows[:, 6] > 0
    scaled = rows.copy()
    scaled[declared, 0] = np.maximum(1.0, rows[declared, 0] / rows[declared, 6] * work)
    return scaled


def _basis(parts: list[_Part], elapsed_s: float, limit_s: float | None) -> tuple[str, int]:
    """Level and number of the samples that weigh most among those still possible."""
    best, level, count = -1.0, "", 0
    cap = np.inf if limit_s is None else limit_s
    for part in parts:
        alive = np.minimum(part.rows[:, 0], cap) > elapsed_s
        mass = float(part.weights[alive].sum())
        if mass > best:
            best, level, count = mass, part.level, int(alive.sum())
    return level, count


def _summary(settings: Settings, runs: Floats, mass: Floats, level: str, count: int) -> Estimate:
    shares = (settings.low, 0.5, settings.high)
    p10, p50, p90 = (quantile(runs, mass, share) for share in shares)
    return Estimate(p10, p50, p90, nearest(runs, mass), count, level)


def _by_limit(limit_s: float | None, elapsed_s: float) -> Estimate | None:
    if limit_s is None:
        return None
    top = max(limit_s, elapsed_s)
    return Estimate(elapsed_s, top, top, top, 0, "limit")


def _beyond(limit_s: float | None, elapsed_s: float) -> Estimate:
    """Nothing known ran so long: as long again (Gott 1993), at most the limit."""
    cap: Callable[[float], float] = (
        (lambda s: s) if limit_s is None else (lambda s: max(elapsed_s, min(s, limit_s)))
    )
    return Estimate(
        cap(elapsed_s * 10 / 9), cap(elapsed_s * 2), cap(elapsed_s * 10), cap(elapsed_s * 2),
        0, "elapsed", True,
    )  # fmt: skip
