"""How good predictions are: figures that mean something for run times from seconds to weeks.

Definitions: ARE = |p - r| / r; EA = mean of min(p, r) / max(p, r); under = share with p < r;
pinball = mean over p10, p50, p90 of the quantile loss of log run times (nats); coverage = share of
run times within p10 to p90 (.80 is right). Plain MAPE and R2 are left out: seconds-long jobs and
day-long tails decide them.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, fields
from math import nan

import numpy as np

from slurm_ext.accounting.weighted import Bools, Floats


@dataclass(frozen=True, slots=True)
class Metrics:
    """Seconds for ``mae_s`` and ``mdae_s``, else dimensionless; NaN where not defined.

    ``n``: jobs judged; ``missing``: jobs the predictor had no figure for.
    """

    n: int
    missing: int
    mae_s: float
    mdae_s: float
    mdare: float
    ea: float
    within20: float
    within50: float
    within2x: float
    geometric: float
    under: float
    pinball: float
    coverage: float
    tau: float = nan


def measure(runs: Floats, predictions: Floats, *, rank: bool = False) -> Metrics:
    """Figures of predictions (columns point, p10, p50, p90) of these run times, in seconds."""
    known: Bools = ~np.isnan(predictions[:, 0])
    r = np.maximum(runs[known], 1.0)
    p = np.maximum(predictions[known, 0], 1.0)
    if not len(r):
        return Metrics(0, len(runs), *(nan,) * (len(fields(Metrics)) - 3))
    error, ratio = np.abs(p - r), np.minimum(p, r) / np.maximum(p, r)
    return Metrics(
        n=len(r),
        missing=int(len(runs) - len(r)),
        mae_s=float(error.mean()),
        mdae_s=float(np.median(error)),
        mdare=float(np.median(error / r)),
        ea=float(ratio.mean()),
        within20=float((error <= 0.2 * r).mean()),
        within50=float((error <= 0.5 * r).mean()),
        within2x=float((ratio >= 0.5).mean()),
        geometric=float(np.exp(np.abs(np.log(p / r)).mean())),
        under=float((p < r).mean()),
        pinball=_pinball(r, predictions[known, 1:]),
        coverage=_coverage(r, predictions[known, 1:]),
        tau=_tau(r, p) if rank else nan,
    )


def _pinball(runs: Floats, quantiles: Floats) -> float:
    known = ~np.isnan(quantiles).any(axis=1)
    if not known.any():
        return nan
    error = np.log(runs[known, None]) - np.log(np.maximum(quantiles[known], 1.0))
    share = np.array((0.1, 0.5, 0.9))
    return float(np.maximum(share * error, (share - 1) * error).mean())


def _coverage(runs: Floats, quantiles: Floats) -> float:
    known = ~np.isnan(quantiles).any(axis=1)
    if not known.any():
        return nan
    low, high = quantiles[known, 0], quantiles[known, 2]
    return float(((runs[known] >= low) & (runs[known] <= high)).mean())


def _tau(runs: Floats, points: Floats) -> float:
    """Kendall's tau-b; NaN without scipy (extra ``learn``)."""
    try:
        stats = importlib.import_module("scipy.stats")
    except ImportError:
        return nan
    return float(stats.kendalltau(runs, points).statistic)
