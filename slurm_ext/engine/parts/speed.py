"""Speed of a job against its number of GPUs: reading what was declared, fitting what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np

from slurm_ext.model.annotation import Speed


def rate(speed: Speed, gpus: int) -> float:
    """Units of work per second on ``gpus`` GPUs; 0.0 on none, or if nothing was declared.

    The table where there is one, linear between its points, level beyond the last and in
    proportion before the first; else the ring model 1 / (t0/w + t1(w-1) + t2(w-1)/w + t3).
    """
    if gpus <= 0:
        return 0.0
    if speed.table:
        return _from_table(speed.table, gpus)
    if not speed.theta:
        return 0.0
    seconds = float(np.dot(regressors(gpus), speed.theta))
    return 1.0 / seconds if seconds > 0 else 0.0


def _from_table(table: Sequence[tuple[int, float]], gpus: int) -> float:
    first, last = table[0], table[-1]
    if gpus <= first[0]:
        return first[1] * gpus / first[0]
    if gpus >= last[0]:
        return last[1]
    for (g0, r0), (g1, r1) in pairwise(table):
        if g0 <= gpus <= g1:
            return r0 + (r1 - r0) * (gpus - g0) / (g1 - g0)
    raise AssertionError("an ascending table has an interval for every count between its ends")


def regressors(gpus: int) -> tuple[float, float, float, float]:
    """The terms of the ring model at one GPU count (Capes et al. 2018): 1/w, w-1, (w-1)/w, 1."""
    return 1 / gpus, gpus - 1.0, (gpus - 1) / gpus, 1.0


def fit_theta(points: Sequence[tuple[int, float]]) -> tuple[float, float, float, float]:
    """Ring model through (GPUs, seconds per unit of work) by non-negative least squares.

    :raises ValueError: no points.
    """
    if not points:
        raise ValueError("no points to fit")
    matrix = np.array([regressors(gpus) for gpus, _ in points])
    t0, t1, t2, t3 = nnls(matrix, np.array([seconds for _, seconds in points]))
    return t0, t1, t2, t3


def nnls(matrix: np.ndarray, target: np.ndarray) -> tuple[float, ...]:
    """Non-negative least squares for a handful of columns, exact: every support is tried.

    ``matrix`` (rows, columns), ``target`` (rows). The best non-negative solution is the ordinary
    one on its support (Lawson and Hanson, 1974), so with 4 columns 15 small fits find it. Among
    equal residuals the smallest support wins.
    """
    columns = matrix.shape[1]
    scale = np.linalg.norm(matrix, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    best = np.zeros(columns)
    best_error = float(np.sum(target**2))
    slack = 1e-12 * max(1.0, best_error)
    for size in range(1, columns + 1):
        for support in combinations(range(columns), size):
            found, *_ = np.linalg.lstsq(
                matrix[:, support] / scale[list(support)], target, rcond=None
            )
            found = found / scale[list(support)]
            if (found < 0).any():
                continue
            error = float(np.sum((matrix[:, support] @ found - target) ** 2))
            if error < best_error - slack:
                best_error, best = error, np.zeros(columns)
                best[list(support)] = found
    return tuple(float(b) for b in best)
