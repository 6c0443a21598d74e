"""Gradient-boosted quantiles for comparison only (scikit-learn, extra ``learn``).

Causal: a job's inputs are made at its submit from jobs that had ended; the model is fitted again
whenever what has ended has grown by a quarter, and predicts until the next fit.
"""

from __future__ import annotations

import heapq
import importlib
from collections.abc import Sequence
from itertools import pairwise
from math import nan
from typing import Any

import numpy as np

from slurm_ext.accounting.baselines import (
    HIERARCHY,
    USER_SIZE,
    Backoff,
    LastTwo,
    Learned,
    Predictor,
)
from slurm_ext.accounting.features import key
from slurm_ext.accounting.trials import Trial
from slurm_ext.accounting.weighted import Floats

FIRST_FIT = 100
GROWTH = 1.25
QUANTILES = (0.1, 0.5, 0.9)


def available() -> bool:
    """Whether scikit-learn is installed."""
    try:
        importlib.import_module("sklearn.ensemble")
    except ImportError:
        return False
    return True


def predictions(trials: Sequence[Trial], *, stacked: bool, seed: int = 1) -> Floats:
    """Columns point (= p50), p10, p50, p90; ``stacked``: our own estimates are inputs too."""
    inputs, order = _inputs(trials, stacked)
    targets = np.log(np.maximum(1.0, [t.run_s for t in trials]))
    limits = np.array([t.job.limit_s or np.inf for t in trials], dtype=float)
    found = np.full((len(trials), 4), nan)
    for (fitted, begin), (_, end) in pairwise(order):
        rows = inputs[begin:end]
        for column, share in enumerate(QUANTILES, 1):
            # One thread: on a busy machine OpenMP's threads wait for each other for minutes.
            with importlib.import_module("threadpoolctl").threadpool_limits(1):
                model = _model(share, seed).fit(inputs[fitted], targets[fitted])
                logs = model.predict(rows)
            found[begin:end, column] = np.minimum(np.exp(logs), limits[begin:end])
    found[:, 1:] = np.sort(found[:, 1:], axis=1)
    found[:, 0] = found[:, 2]
    return found


def _model(share: float, seed: int) -> Any:
    ensemble = importlib.import_module("sklearn.ensemble")
    return ensemble.HistGradientBoostingRegressor(
        loss="quantile", quantile=share, max_iter=120, learning_rate=0.08, min_samples_leaf=20,
        random_state=seed,
    )  # fmt: skip


def _inputs(trials: Sequence[Trial], stacked: bool) -> tuple[Floats, list[tuple[list[int], int]]]:
    """Inputs of each trial, and the fits: (trials that had ended, first trial it serves)."""
    sources: list[Predictor] = [LastTwo(), Backoff(USER_SIZE), Backoff(HIERARCHY, keep=1)]
    if stacked:
        sources.append(Learned())
    users: dict[str, int] = {}
    seen: dict[str, int] = {}
    running: list[tuple[int, int]] = []
    ended: list[int] = []
    rows: list[list[float]] = []
    fits: list[tuple[list[int], int]] = []
    for number, trial in enumerate(trials):
        while running and running[0][0] <= trial.submit_s:
            done = heapq.heappop(running)[1]
            ended.append(done)
            user = trials[done].job.user
            seen[user] = seen.get(user, 0) + 1
            for source in sources:
                source.learn(trials[done])
        if len(ended) >= (GROWTH * len(fits[-1][0]) if fits else FIRST_FIT):
            fits.append((ended.copy(), number))
        job = trial.job
        rows.append(
            [
                job.size, job.limit_s or nan, trial.submit_s % 86400 / 3600.0,
                trial.submit_s // 86400 % 7, users.setdefault(job.user, len(users)),
                seen.get(job.user, 0), key(job.stem) % 1009, key(job.place) % 1009,
                *(value for source in sources for value in source.predict(trial)),
            ]
        )  # fmt: skip
        heapq.heappush(running, (trial.end_s, number))
    # -1 for unknown: scikit-learn cannot bin a column that is all NaN.
    filled = np.nan_to_num(np.array(rows, dtype=float), nan=-1.0)
    return filled, [*fits, ([], len(trials))]
