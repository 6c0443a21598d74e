"""Predictors to compare with, and the common form of all: learn what ended, predict what comes.

A predictor may look at ``Trial.job`` and ``submit_s`` when predicting, never at how it went.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from dataclasses import replace
from math import nan
from typing import NamedTuple, Protocol

import numpy as np

from slurm_ext.accounting.predict import Samples, Settings
from slurm_ext.accounting.trials import Trial
from slurm_ext.accounting.weighted import nearest


class Prediction(NamedTuple):
    """Seconds; NaN where the predictor has no such figure, or no history yet."""

    point_s: float
    p10_s: float = nan
    p50_s: float = nan
    p90_s: float = nan


class Predictor(Protocol):
    """See the module text."""

    def learn(self, trial: Trial) -> None: ...

    def predict(self, trial: Trial) -> Prediction: ...


def capped(run_s: float, trial: Trial) -> float:
    return run_s if trial.job.limit_s is None else min(run_s, float(trial.job.limit_s))


class Site:
    """The last runs of everybody: what to say of a user without history."""

    def __init__(self, keep: int = 1000) -> None:
        self.runs: deque[float] = deque(maxlen=keep)
        self._median, self._age = nan, 0

    def add(self, run_s: float) -> None:
        self.runs.append(run_s)
        self._age += 1

    def fallback(self, trial: Trial) -> Prediction:
        """The limit, else the site's median."""
        if trial.job.limit_s is not None:
            return Prediction(float(trial.job.limit_s))
        if self.runs and (self._age >= 20 or self._median != self._median):
            self._median, self._age = float(np.median(self.runs)), 0
        return Prediction(self._median)


class Limit:
    """The user's own limit."""

    def learn(self, trial: Trial) -> None:
        pass

    def predict(self, trial: Trial) -> Prediction:
        return Prediction(nan if trial.job.limit_s is None else float(trial.job.limit_s))


class LimitRatio:
    """Limit x the site's median share of the limit that is used."""

    def __init__(self, keep: int = 500) -> None:
        self.ratios: deque[float] = deque(maxlen=keep)

    def learn(self, trial: Trial) -> None:
        if trial.job.limit_s:
            self.ratios.append(trial.run_s / trial.job.limit_s)

    def predict(self, trial: Trial) -> Prediction:
        if not trial.job.limit_s:
            return Prediction(nan)
        ratio = float(np.median(self.ratios)) if self.ratios else 1.0
        return Prediction(trial.job.limit_s * min(1.0, ratio))


class LastTwo:
    """Mean of the user's last two runs, capped by the limit (Tsafrir et al., TPDS 2007)."""

    def __init__(self) -> None:
        self.runs: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=2))
        self.site = Site()

    def learn(self, trial: Trial) -> None:
        self.runs[trial.job.user].append(trial.run_s)
        self.site.add(trial.run_s)

    def predict(self, trial: Trial) -> Prediction:
        runs = self.runs[trial.job.user]
        if len(runs) < 2:
            return self.site.fallback(trial)
        return Prediction(capped(sum(runs) / 2, trial))


class UserMean:
    """Mean of all runs of the user, capped by the limit."""

    def __init__(self) -> None:
        self.sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.site = Site()

    def learn(self, trial: Trial) -> None:
        pair = self.sums[trial.job.user]
        pair[0] += trial.run_s
        pair[1] += 1
        self.site.add(trial.run_s)

    def predict(self, trial: Trial) -> Prediction:
        total, count = self.sums[trial.job.user]
        return Prediction(capped(total / count, trial)) if count else self.site.fallback(trial)


Level = Callable[[Trial], Hashable]

USER_SIZE: tuple[Level, ...] = (lambda t: (t.job.user, t.job.size), lambda t: t.job.user)
HIERARCHY: tuple[Level, ...] = (
    lambda t: (t.job.user, t.job.stem, t.job.size, t.job.limit_s),
    lambda t: (t.job.user, t.job.stem, t.job.size),
    lambda t: (t.job.user, t.job.size),
    lambda t: t.job.user,
    lambda t: (t.job.account, t.job.partition),
)


class Backoff:
    """Empirical quantiles of the first level with enough samples; ``point``: p50 or nearest."""

    def __init__(
        self, levels: tuple[Level, ...], *, keep: int = 20, least: int = 1, near: bool = False
    ) -> None:
        self.levels, self.least, self.near = levels, least, near
        self.runs: defaultdict[Hashable, deque[float]] = defaultdict(lambda: deque(maxlen=keep))
        self.site = Site()

    def learn(self, trial: Trial) -> None:
        for number, level in enumerate(self.levels):
            self.runs[number, level(trial)].append(max(1.0, trial.run_s))
        self.site.add(trial.run_s)

    def predict(self, trial: Trial) -> Prediction:
        for number, level in enumerate(self.levels):
            found = self.runs.get((number, level(trial)))
            if found is not None and len(found) >= self.least:
                runs = np.sort(np.minimum(found, capped(np.inf, trial)))
                p10, p50, p90 = (float(q) for q in np.quantile(runs, (0.1, 0.5, 0.9)))
                point = nearest(runs, np.full(len(runs), 1 / len(runs))) if self.near else p50
                return Prediction(point, p10, p50, p90)
        return self.site.fallback(trial)


class Learned:
    """Ours, with the settings given; ``median``: judged by p50 instead of the nearest point."""

    def __init__(self, settings: Settings | None = None, *, median: bool = False) -> None:
        self.samples, self.median = Samples(settings), median

    def learn(self, trial: Trial) -> None:
        self.samples.learn(trial.job, trial.run_s, ended=trial.ended)

    def predict(self, trial: Trial) -> Prediction:
        found = self.samples.estimate(trial.job)
        if found is None:
            return Prediction(nan)
        point = found.p50_s if self.median else found.point_s
        return Prediction(point, found.p10_s, found.p50_s, found.p90_s)


PREDICTORS: dict[str, Callable[[], Predictor]] = {
    "limit": Limit,
    "limit x site ratio": LimitRatio,
    "last two (Tsafrir)": LastTwo,
    "user mean": UserMean,
    "user+size median of 20": lambda: Backoff(USER_SIZE),
    "hierarchy, median": lambda: Backoff(HIERARCHY, least=3),
    "hierarchy, nearest": lambda: Backoff(HIERARCHY, least=3, near=True),
    "weighted, median": lambda: Learned(median=True),
    "weighted, nearest": Learned,
    "weighted, nearest, censored": lambda: Learned(replace(Settings(), censored=True)),
}
