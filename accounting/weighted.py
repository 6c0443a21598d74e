"""Weighted samples of run times: censoring, quantiles, the point that is nearest by ratio."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def masses(runs: Floats, weights: Floats, ended: Bools, top: float | None) -> tuple[Floats, Floats]:
    """Sorted run times and their probabilities (weighted Kaplan-Meier, 1958).

    A censored sample hands its weight to everything longer. What is left beyond the longest sample
    lies at ``top`` (the limit) or, without one, at the longest.
    """
    # At a tie what ended comes before what was only cut off there.
    order = np.lexsort((~ended, runs))
    runs, weights, ended = runs[order], weights[order], ended[order]
    total = float(weights.sum())
    if ended.all():
        return runs, weights / total
    at_risk = np.cumsum(weights[::-1])[::-1]
    hazard = np.where(ended, weights / np.maximum(at_risk, 1e-300), 0.0)
    # Rounding must not bring forth a survivor below zero.
    survival = np.cumprod(np.clip(1.0 - hazard, 0.0, 1.0))
    before = np.concatenate(([1.0], survival[:-1]))
    mass = before * hazard
    rest = float(survival[-1])
    if rest <= 1e-12:
        return runs, mass
    end = max(float(runs[-1]), top or 0.0)
    return np.append(runs, end), np.append(mass, rest)


def quantile(runs: Floats, mass: Floats, share: float) -> float:
    """The smallest run time that is not exceeded with this probability (runs sorted)."""
    sums = np.cumsum(mass)
    return float(runs[min(int(np.searchsorted(sums, share * sums[-1] - 1e-12)), len(runs) - 1)])


def nearest(runs: Floats, mass: Floats) -> float:
    """The sample with the highest mean of min(p, r) / max(p, r) (runs sorted and positive)."""
    below = np.cumsum(mass * runs)
    above = np.cumsum((mass / runs)[::-1])[::-1]
    score = below / runs
    score[:-1] += above[1:] * runs[:-1]
    return float(runs[int(np.argmax(score))])
