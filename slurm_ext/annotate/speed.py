"""From a job's own reports to its speed at each size, and to the work that is left.

The curve through these points is fitted elsewhere; here is only what one job has shown.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from slurm_ext.model.annotation import Annotation
from slurm_ext.model.progress import Progress, Report

MIN_SPAN_S = 10.0
"""Seconds that must have been seen at a size before its speed is believed."""
_SHORTEST_S = 0.001  # the clock of reports has milliseconds


def observed(reports: Sequence[Report], min_span_s: float = MIN_SPAN_S) -> dict[int, float]:
    """GPUs -> units of work per second, from reports in the order they were written.

    The median over stretches of equal GPUs within one run, each weighted by its seconds, so that
    a slow start or a checkpoint does not count as the speed. Reports without GPUs are not used,
    nor stretches in which clock or work go backwards.
    """
    rates: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for before, after in pairwise(reports):
        span_s = after.at_s - before.at_s
        same = before.run == after.run and before.gpus == after.gpus > 0
        rate = (after.step - before.step) / span_s if span_s >= _SHORTEST_S else 0.0
        if same and rate > 0:
            rates[after.gpus].append((rate, span_s))
    return {
        gpus: weighted_median(seen)
        for gpus, seen in sorted(rates.items())
        if sum(span_s for _, span_s in seen) >= min_span_s
    }


def weighted_median(pairs: Iterable[tuple[float, float]]) -> float:
    """The value at which half of the weight is reached; pairs are (value, weight > 0).

    :raises ValueError: no pairs.
    """
    ordered = sorted(pairs)
    if not ordered:
        raise ValueError("no values")
    half, reached = math.fsum(weight for _, weight in ordered) / 2, 0.0
    for value, weight in ordered:
        reached += weight
        if reached >= half:
            return value
    return ordered[-1][0]


def seconds_per_unit(progresses: Iterable[Progress]) -> list[tuple[int, float]]:
    """Points for a fit over several jobs of one family and GPU type: (GPUs, seconds per unit).

    One point a size, the median over the jobs that were seen at it; ascending.
    """
    seen: dict[int, list[float]] = defaultdict(list)
    for progress in progresses:
        for gpus, rate in observed(progress.reports).items():
            seen[gpus].append(1 / rate)
    return [(gpus, median(times)) for gpus, times in sorted(seen.items())]


def remaining(annotation: Annotation, progress: Progress) -> float | None:
    """Units of work left by the newest report; None if the total or the progress is not known."""
    if annotation.work <= 0 or not progress.reports:
        return None
    return max(0.0, annotation.work - progress.reports[-1].step)


def lost_on_stop(progress: Progress) -> float:
    """Units of work since the newest checkpoint: what a stop without a signal throws away."""
    if not progress.reports:
        return 0.0
    saved = progress.last_checkpoint
    return max(0.0, progress.reports[-1].step - (saved.step if saved is not None else 0.0))
