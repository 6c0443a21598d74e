"""Estimates: levels, recency, censoring, elapsed time, limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_ext.accounting.features import Features
from slurm_ext.accounting.predict import COLUMNS, Ring, Samples, Settings
from slurm_ext.accounting.record import BY_USER, FROM_OUTSIDE, ITSELF
from slurm_ext.accounting.weighted import masses, nearest, quantile
from slurm_ext.model.estimate import Estimate

JOB = Features("ann", "lab", "gpu", "normal", "train_#", gpus=2, limit_s=36000)


def taught(*runs: float, job: Features = JOB, **settings: object) -> Samples:
    samples = Samples(replace(Settings(), **settings))
    for run_s in runs:
        samples.learn(job, run_s)
    return samples


def asked(samples: Samples, job: Features = JOB, elapsed_s: float = 0.0) -> Estimate:
    found = samples.estimate(job, elapsed_s)
    assert found is not None
    return found


def test_nothing_known_and_no_limit_is_no_estimate() -> None:
    assert Samples().estimate(JOB._replace(limit_s=None)) is None


def test_nothing_known_is_the_limit() -> None:
    assert asked(Samples()) == Estimate(0.0, 36000.0, 36000.0, 36000.0, 0, "limit")


def test_same_work_again() -> None:
    found = asked(taught(100, 110, 105))
    assert (found.point_s, found.p50_s) == (105, 105)
    assert (found.level, found.n) == ("user+size+limit+stem+place", 3)


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({"stem": "other"}, "user+size+limit+place"),
        ({"gpus": 8}, "user+limit+stem+place"),
        ({"limit_s": 7200}, "user+size+stem+place"),
        ({"partition": "late"}, "user+size+limit+stem"),
        ({"stem": "other", "gpus": 8, "limit_s": 7200, "qos": "x"}, "user"),
        ({"user": "bob"}, "account"),
        ({"user": "bob", "account": "other"}, "site"),
    ],
)
def test_falls_back_level_by_level(change: dict[str, object], level: str) -> None:
    # Account and site hold the same runs here: let them count only where nothing else does.
    samples = taught(*(100,) * 10, account=1e-6, site=1e-9)
    found = asked(samples, JOB._replace(**change))
    assert (found.level, found.n) == (level, 10)


def test_what_is_shared_outweighs_what_is_newer() -> None:
    samples = taught(*(1000,) * 5)
    for _ in range(20):
        samples.learn(JOB._replace(stem="debug"), 10)
    assert asked(samples).p50_s == 1000


def test_newer_samples_outweigh_older() -> None:
    assert asked(taught(*(10,) * 12, *(1000,) * 12)).p50_s == 1000


def test_strangers_count_by_the_share_of_their_limit() -> None:
    samples = taught(*(1800,) * 5, job=JOB._replace(limit_s=3600))
    stranger = Features("bob", "x", gpus=1, limit_s=7200)
    assert asked(samples, stranger).p50_s == 3600


def test_limit_caps_everything() -> None:
    found = asked(taught(5000, 6000, rescale=False), JOB._replace(limit_s=600))
    assert (found.p50_s, found.p90_s) == (600, 600)


def test_own_runs_under_another_limit_count_by_their_share_of_it() -> None:
    assert asked(taught(*(3600,) * 5), JOB._replace(limit_s=7200)).p50_s == 720


def test_elapsed_time_leaves_only_what_ran_longer() -> None:
    samples = taught(10, 10, 10, 10, 5000)
    assert asked(samples).p50_s == 10
    later = asked(samples, elapsed_s=60)
    assert (later.p10_s, later.p50_s, later.n, later.beyond) == (5000, 5000, 1, False)


def test_longer_than_anything_known_is_said() -> None:
    found = asked(taught(10, 20), elapsed_s=100)
    assert (found.beyond, found.p50_s, found.level) == (True, 200, "elapsed")


def test_beyond_everything_stays_within_the_limit() -> None:
    found = asked(taught(10, 20), elapsed_s=30000)
    assert (found.p50_s, found.p90_s) == (36000, 36000)


def test_elapsed_past_the_limit_is_not_shortened() -> None:
    assert asked(taught(10), elapsed_s=40000).p50_s == 40000


@pytest.mark.parametrize(
    ("ended", "censored", "p50_s"),
    [
        (FROM_OUTSIDE, False, 1000),
        (FROM_OUTSIDE, True, 1000),
        (BY_USER, False, 10),
        (BY_USER, True, 1000),
        (ITSELF, True, 10),
    ],
)
def test_runs_that_were_cut_off_only_say_at_least(
    ended: float, censored: bool, p50_s: float
) -> None:
    samples = Samples(Settings(censored=censored, site=1e-9))
    samples.learn(JOB, 1000)
    for _ in range(5):
        samples.learn(JOB, 10, ended=ended)
    assert asked(samples).p50_s == p50_s


def test_kaplan_meier_by_hand() -> None:
    runs, weights = np.array([1.0, 2.0, 3.0, 4.0]), np.ones(4)
    ended = np.array([True, False, True, True])
    x, mass = masses(runs, weights, ended, None)
    assert x.tolist() == [1, 2, 3, 4]
    assert mass == pytest.approx([0.25, 0, 0.375, 0.375])


def test_survivors_lie_at_the_limit() -> None:
    x, mass = masses(np.array([5.0, 9.0]), np.ones(2), np.array([True, False]), 20.0)
    assert (x.tolist(), mass.tolist()) == ([5, 9, 20], [0.5, 0, 0.5])


def test_quantile_is_a_sample() -> None:
    x, mass = np.array([1.0, 2.0, 3.0]), np.array([0.2, 0.3, 0.5])
    assert [quantile(x, mass, q) for q in (0.1, 0.2, 0.5, 0.51, 1.0)] == [1, 1, 2, 3, 3]


def test_nearest_maximises_the_mean_ratio() -> None:
    runs, mass = np.array([1.0, 10.0, 11.0, 100.0]), np.full(4, 0.25)
    score = [float((mass * np.minimum(p, runs) / np.maximum(p, runs)).sum()) for p in runs]
    assert nearest(runs, mass) == runs[int(np.argmax(score))]


def test_ring_keeps_the_newest() -> None:
    ring = Ring(5)
    for i in range(23):
        ring.add((float(i),) * COLUMNS)
    assert ring.newest()[:, 0].tolist() == [22, 21, 20, 19, 18]


def test_declared_work_scales_runs_of_the_same_kind() -> None:
    samples = Samples()
    for steps in (1000, 2000, 4000):
        job = Features("ann", gpus=1, stem="train_#", family="bert", work=steps)
        for _ in range(5):
            samples.learn(job, steps / 10)
    found = samples.estimate(Features("ann", gpus=1, stem="train_#", family="bert", work=8000))
    assert found is not None
    assert (found.point_s, found.p50_s) == (800, 800)


def test_families_under_one_name_are_apart() -> None:
    samples = Samples()
    for i in range(20):
        family, run_s = (("bert", 100), ("gpt", 5000))[i % 2]
        samples.learn(Features("ann", gpus=1, stem="train_#", family=family), run_s)
    for family, run_s in (("bert", 100), ("gpt", 5000)):
        found = samples.estimate(Features("ann", gpus=1, stem="train_#", family=family))
        assert found is not None
        assert found.p50_s == run_s
