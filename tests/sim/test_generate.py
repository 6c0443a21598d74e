"""Synthetic workloads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.errors import TraceError
from slurm_ext.sim.generate import Shape, generate

SPEC = ClusterSpec.uniform(8)
MANY = Shape(jobs=4000)


def test_the_seed_decides() -> None:
    shape = Shape(jobs=50)
    assert generate(shape, SPEC, 1) == generate(shape, SPEC, 1)
    assert generate(shape, SPEC, 1).jobs != generate(shape, SPEC, 2).jobs


def test_limits_are_two_to_ten_times_too_long_up_to_the_next_step() -> None:
    ratios = [j.limit_s / j.run_s for j in generate(MANY, SPEC, 3).jobs
              if j.limit_s is not None and j.run_s > 3600]  # fmt: skip
    assert min(ratios) >= 2
    assert 3 < float(np.median(ratios)) < 8


def test_durations_are_heavy_tailed() -> None:
    run = np.array([j.run_s for j in generate(MANY, SPEC, 3).jobs])
    assert run.mean() > 10 * np.median(run)


def test_the_load_is_as_asked() -> None:
    workload = generate(replace(MANY, load=0.7), SPEC, 3)
    work = sum(j.gpus * j.run_s for j in workload.jobs)
    span = workload.jobs[-1].submit_s - workload.jobs[0].submit_s
    assert work / (SPEC.gpus * span) == pytest.approx(0.7, rel=0.02)


def test_arrivals_follow_the_day() -> None:
    hours = np.array([j.submit_s // 3600 % 24 for j in generate(MANY, SPEC, 3).jobs])
    day, night = ((hours >= 12) & (hours < 18)).sum(), (hours < 6).sum()
    assert day > 1.8 * night


def test_sizes_follow_the_mix_and_fit_the_cluster() -> None:
    workload = generate(replace(MANY, sizes=((1, 0.5), (4, 0.5), (1024, 9.0))), SPEC, 3)
    assert {j.gpus for j in workload.jobs} == {1, 4}


def test_wide_jobs_run_longer() -> None:
    found = generate(replace(MANY, jobs=8000), SPEC, 3).jobs
    one, wide = (
        np.log([j.run_s for j in found if (j.gpus > 1) is w]).mean() for w in (False, True)
    )
    assert wide > one + 0.4


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"jobs": 0}, "jobs"),
        ({"load": 0.0}, "load"),
        ({"swing": 1.0}, "swing"),
        ({"limit_min": 0.5}, "limit_min"),
        ({"run_min_s": 0}, "run_min_s"),
        ({"sizes": ((0, 1.0),)}, "sizes"),
        ({"sizes": ((512, 1.0),)}, "none fits 64 GPUs"),
        ({"users": 0}, "users"),
    ],
)
def test_shapes_that_cannot_be(change: dict[str, object], match: str) -> None:
    with pytest.raises(TraceError, match=match):
        generate(replace(Shape(), **change), SPEC, 1)  # type: ignore[arg-type]
