"""Figures of one run, defined as in the literature it is compared with.

JCT = end - submit. Wait = JCT - run time (so time lost to restarts counts as wait). Bounded
slowdown = JCT / max(run time, 10 s), at least 1 (Feitelson 2001). Utilisation = sum of GPUs x run
time over GPUs x makespan. Percentiles interpolate linearly. A job killed at its limit counts with
the time it ran.

Finish-time fairness (after Mahajan et al., Themis, NSDI 2020) = JCT over the JCT with an equal
share: run time x mean, over the job's life, of the GPUs that all jobs in the system ask for over
the GPUs there are, at least 1. Above 1.05 counts as unfair. Jain's index is that of run time over
JCT. Stranded: GPU time idle while jobs waited, at most what those asked for; fragmentation: its
part of all GPU time with jobs waiting. Idle GPUs that are too few for the one job that waits count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random

import numpy as np

from .errors import SimulationError
from .outcome import SimResult
from .series import series

SLOWDOWN_FLOOR_S = 10


@dataclass(frozen=True, slots=True)
class Metrics:
    """Figures of one run. ``killed``: ended at their limit. ``deadlines``: jobs that have one, of
    which ``missed`` ended later or were killed. ``lost_gpu_h``: work done twice.

    ``ftf_worst``, ``ftf_unfair``: worst finish-time fairness, share of jobs above 1.05.
    """

    jobs: int
    jct_mean_s: float
    jct_median_s: float
    jct_p95_s: float
    jct_p99_s: float
    wait_mean_s: float
    wait_median_s: float
    wait_p95_s: float
    wait_p99_s: float
    slowdown_mean: float
    makespan_s: float
    utilisation: float
    killed: int
    deadlines: int
    missed: int
    restarts: int
    lost_gpu_h: float
    stranded_gpu_h: float
    fragmentation: float
    ftf_worst: float
    ftf_unfair: float
    jain: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def measure(result: SimResult) -> Metrics:
    """Figures of one run.

    :raises SimulationError: no job.
    """
    jobs = result.jobs
    if not jobs:
        raise SimulationError("no job ended, so there is nothing to measure")
    submit = np.array([o.spec.submit_s for o in jobs], dtype=np.float64)
    end = np.array([o.end_s for o in jobs], dtype=np.float64)
    start = np.array([o.start_s for o in jobs], dtype=np.float64)
    run = np.array([o.spec.run_s for o in jobs], dtype=np.float64)
    cut = np.array([o.state != "COMPLETED" for o in jobs])
    run = np.where(cut, np.minimum(run, end - start), run)
    gpus = np.array([o.spec.gpus for o in jobs], dtype=np.float64)
    jct = end - submit
    wait = jct - run
    deadline = np.array([o.spec.deadline_s for o in jobs], dtype=np.float64)
    with_deadline = deadline > 0
    makespan = float(end.max() - submit.min())
    course = series(result)
    idle = result.gpus - course.used
    stranded = course.integral(np.minimum(idle, course.wanted))
    crowded = course.integral(np.where(course.waiting > 0, float(result.gpus), 0.0))
    contention = course.mean_between(course.asked / result.gpus, submit, end)
    fairness = jct / np.maximum(1.0, run * np.maximum(1.0, contention))
    progress = run / np.maximum(jct, 1.0)
    p_jct, p_wait = np.percentile(jct, (50, 95, 99)), np.percentile(wait, (50, 95, 99))
    return Metrics(
        jobs=len(jobs),
        jct_mean_s=float(jct.mean()),
        jct_median_s=float(p_jct[0]),
        jct_p95_s=float(p_jct[1]),
        jct_p99_s=float(p_jct[2]),
        wait_mean_s=float(wait.mean()),
        wait_median_s=float(p_wait[0]),
        wait_p95_s=float(p_wait[1]),
        wait_p99_s=float(p_wait[2]),
        slowdown_mean=float(np.maximum(1.0, jct / np.maximum(run, SLOWDOWN_FLOOR_S)).mean()),
        makespan_s=makespan,
        utilisation=float((gpus * run).sum() / (result.gpus * makespan)) if makespan else 0.0,
        killed=int(cut.sum()),
        deadlines=int(with_deadline.sum()),
        missed=int((with_deadline & (cut | (end > deadline))).sum()),
        restarts=sum(o.restarts for o in jobs),
        lost_gpu_h=sum(o.lost_s * o.spec.gpus for o in jobs) / 3600,
        stranded_gpu_h=stranded / 3600,
        fragmentation=stranded / crowded if crowded else 0.0,
        ftf_worst=float(fairness.max()),
        ftf_unfair=float((fairness > 1.05).mean()),
        jain=float(progress.sum() ** 2 / (len(jobs) * (progress**2).sum())),
    )


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence interval; both bounds equal the mean for a single value."""

    mean: float
    low: float
    high: float


def bootstrap(
    values: Sequence[float], *, seed: int = 0, rounds: int = 2000, level: float = 0.95
) -> Interval:
    """Percentile bootstrap of the mean (Efron 1979); deterministic by ``seed``.

    :raises ValueError: no values.
    """
    if not values:
        raise ValueError("no values to resample")
    mean = sum(values) / len(values)
    if len(values) == 1:
        return Interval(mean, mean, mean)
    rng = Random(seed)
    means = [sum(rng.choices(values, k=len(values))) / len(values) for _ in range(rounds)]
    tail = (1 - level) / 2 * 100
    low, high = np.percentile(means, (tail, 100 - tail))
    return Interval(mean, float(low), float(high))


def intervals(rows: Sequence[Metrics], *, seed: int = 0) -> Mapping[str, Interval]:
    """Mean and interval of every figure over several seeds."""
    names = rows[0].as_dict() if rows else {}
    return {name: bootstrap([r.as_dict()[name] for r in rows], seed=seed) for name in names}
