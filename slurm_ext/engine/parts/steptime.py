"""The time of a training step, fitted to what was seen of it.

As the agent of Pollux (Qiao et al., OSDI 2021): least root mean square error of the logarithms,
with priors where nothing was seen yet.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from slurm_ext.model.goodput import StepTime

from .goodput import NEVER

FloatArray = npt.NDArray[np.float64]

AC, BC, AN, BN, AR, BR, GAMMA = range(7)

START = (0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001)
GAMMA_MAX = 10.0


def fit(rows: FloatArray) -> StepTime:
    """The model through all that was seen, at least one row.

    ``rows``: nodes, GPUs, samples a GPU, seconds of the gradient alone (NaN: not known), seconds of
    a step. Terms of which nothing was seen are held at next to nothing, so that the job is taken
    to scale until it has been tried; of several nodes at least as much as of one.

    :raises ImportError: scipy is missing.
    """
    nodes, gpus, local, gradient_s, step_s = rows.T
    known_s = np.where(np.isfinite(gradient_s), gradient_s, step_s)
    low, high = np.array([NEVER] * 6 + [1.0]), np.array([np.inf] * 6 + [GAMMA_MAX])
    start = np.array(START)
    fixed = {}
    if len(set(local)) == 1:
        fixed[AC] = float(known_s.mean()) / 2
    if not (nodes > 1).any():
        fixed[AN] = fixed[BN] = NEVER
    if not ((nodes == 1) & (gpus > 1)).any():
        fixed[AR] = fixed[BR] = NEVER
    if not (gpus > 2).any():
        fixed[BN] = fixed[BR] = NEVER
    for i, value in fixed.items():
        start[i] = low[i] = high[i] = value
    found = _minimise(start, low, high, rows)
    if not (nodes > 1).any():
        found[AN] = max(found[AN], found[AR] * 1.1)
        found[BN] = max(found[BN], found[BR] * 1.1)
    return StepTime(*(float(v) for v in found))


def _minimise(start: FloatArray, low: FloatArray, high: FloatArray, rows: FloatArray) -> FloatArray:
    optimize: Any = import_module("scipy.optimize")
    found = optimize.minimize(
        loss,
        start,
        args=(rows,),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(low, high, strict=True)),
    )
    best: FloatArray = np.clip(found.x, low, high)
    return best


def loss(p: FloatArray, rows: FloatArray) -> tuple[float, FloatArray]:
    """What is minimised, and its gradient. ``rows``: as in :func:`fit`."""
    nodes, gpus, local, gradient_s, step_s = rows.T
    several, pair = nodes > 1, (nodes <= 1) & (gpus > 1)
    beyond = np.maximum(gpus - 2, NEVER)
    compute = p[AC] + p[BC] * local
    network = np.where(
        several,
        p[AN] + p[BN] * beyond,
        np.where(pair, p[AR] + p[BR] * beyond, NEVER * (1 + beyond)),
    )
    gamma = p[GAMMA]
    most = np.maximum(compute, network)
    a, b = compute / most, network / most
    a_g, b_g = a**gamma, b**gamma
    both = a_g + b_g
    log_step = np.log(most) + np.log(both) / gamma
    slope = np.zeros((7, len(rows)))  # of log_step by each parameter
    by_compute, by_network = a_g / (a * both * most), b_g / (b * both * most)
    slope[AC], slope[BC] = by_compute, by_compute * local
    slope[AN], slope[BN] = by_network * several, by_network * several * beyond
    slope[AR], slope[BR] = by_network * pair, by_network * pair * beyond
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = np.nan_to_num(a_g * np.log(a)) + np.nan_to_num(b_g * np.log(b))
    slope[GAMMA] = powers / (both * gamma) - np.log(both) / gamma**2
    first = np.zeros_like(slope)
    first[AC], first[BC] = 1 / compute, local / compute
    told = np.isfinite(gradient_s)
    error1, grad1 = _rms(np.log(compute[told]) - np.log(gradient_s[told]), first[:, told])
    error2, grad2 = _rms(log_step - np.log(step_s), slope)
    value, grad = error1 + error2, grad1 + grad2
    value += 1e-3 * (gamma - 1) ** 2
    grad[GAMMA] += 2e-3 * (gamma - 1)
    for alpha, beta in ((AN, BN), (AR, BR)):
        ratio = p[beta] / p[alpha]
        value += 1e-2 * ratio**2
        grad[beta] += 2e-2 * ratio / p[alpha]
        grad[alpha] -= 2e-2 * ratio**2 / p[alpha]
    return value, grad


def _rms(off: FloatArray, slope: FloatArray) -> tuple[float, FloatArray]:
    size = float(np.sqrt((off**2).mean())) if len(off) else 0.0
    if size == 0:
        return 0.0, np.zeros(len(slope))
    return size, (slope * off).mean(axis=1) / size
