"""A speed curve with communication beside computation, where the ring model does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slurm_ext.model.annotation import Speed

from .goodput import times
from .speed import rate
from .steptime import fit

LEAST_SIZES = 4
"""Sizes that must have been seen; fewer are met by any curve."""

GOOD = 0.05
"""Where the ring model misses the points by less (root mean square, relative) it stands."""

BETTER = 0.5
"""The other curve must miss them by at most so much of that."""

BEYOND = 2
"""The curve goes to so many times the largest size seen, and is level after that."""

_BATCH = 64.0


def overlapped(rates: Sequence[tuple[int, float]], ring: Speed) -> Speed | None:
    """The step time of Pollux (OSDI 2021) at a fixed batch, as a table; None: ``ring`` is as good.

    ``rates``: (GPUs, units per second), ascending, all taken to be on one node: reports do not tell
    the time of the gradient alone, nor where the GPUs were. None, too, where scipy is missing.
    """
    if len(rates) < LEAST_SIZES:
        return None
    off = _off(rates, ring)
    if off <= GOOD:
        return None
    gpus, units_per_s = np.array(rates, dtype=float).T
    longest_s = float((1 / units_per_s).max())
    ones = np.ones_like(gpus)
    scaled = 1 / units_per_s / longest_s
    try:
        step = fit(np.array([ones, gpus, _BATCH / gpus, ones * np.nan, scaled]).T)
    except ImportError:
        return None
    sizes = np.arange(1, BEYOND * rates[-1][0] + 1, dtype=float)
    took_s = times(step, np.array(False), sizes, _BATCH / sizes).step_s * longest_s
    found = replace(ring, theta=(), table=tuple(
        (int(size), float(1 / s)) for size, s in zip(sizes, took_s, strict=True)
    ))  # fmt: skip
    return found if _off(rates, found) <= BETTER * off else None


def _off(rates: Sequence[tuple[int, float]], speed: Speed) -> float:
    errors = [np.log(rate(speed, gpus) / seen) for gpus, seen in rates]
    return float(np.sqrt(np.mean(np.square(errors))))
