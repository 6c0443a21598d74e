"""Speed curves learned from reports."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.daemon.curves import Curves, curve
from slurm_ext.daemon.journal import SPEEDS_OF_ONE, Journal
from slurm_ext.daemon.records import SeenSpeed
from slurm_ext.engine.parts.overlap import overlapped
from slurm_ext.engine.parts.speed import rate
from slurm_ext.model.annotation import Annotation, Speed
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.progress import Progress, Report
from tests.builders import NOW, job

RESNET = Annotation(family="resnet")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "journal.db") as opened:
        yield opened


def runs(job_id: int, gpus: int, **fields: object) -> Job:
    return job(job_id, gpus=gpus, type="a100", on={"n1": gpus}, **fields)


def at(units_per_s: float, gpus: int, claimed: int = 0) -> Progress:
    return Progress(tuple(
        Report(NOW + t, 0, units_per_s * t, gpus=claimed or gpus) for t in (0.0, 30.0, 60.0)
    ))  # fmt: skip


def learn(curves: Curves, journal: Journal | None, *told: tuple[Job, Progress]) -> None:
    jobs = [one for one, _ in told]
    curves.of(
        jobs, {j.key: RESNET for j in jobs}, {j.key: p for j, p in told}, journal, NOW
    )  # fmt: skip


def curve_of(curves: Curves, one: Job, annotation: Annotation = RESNET) -> Speed | None:
    return curves.of([one], {one.key: annotation}, {}, None, NOW).get(one.key)


def test_a_family_is_known_from_its_jobs_also_by_the_next_daemon(journal: Journal) -> None:
    learn(Curves(), journal, (runs(1, 2), at(2.0, 2)), (runs(2, 4), at(3.2, 4)))
    fresh = Curves()
    fresh.of([], {}, {}, journal, NOW)
    speed = curve_of(fresh, job(3, gpus=4))
    assert speed is not None
    assert rate(speed, 2) == pytest.approx(2.0, rel=0.01)
    assert rate(speed, 4) == pytest.approx(3.2, rel=0.01)
    assert 3.2 < rate(speed, 8) < 6.4


def test_one_size_promises_nothing_beyond_it() -> None:
    curves = Curves()
    learn(curves, None, (runs(1, 2), at(2.0, 2)))
    speed = curve_of(curves, job(3, gpus=4))
    assert speed is not None
    assert rate(speed, 8) == rate(speed, 2) == 2.0


@pytest.mark.parametrize(
    ("other", "annotation"),
    [
        (job(3, gpus=4, user="mallory"), RESNET),
        (job(3, gpus=4), Annotation(family="gpt")),
        (job(3, gpus=4), Annotation()),
        (job(3, gpus=4, type="h100"), RESNET),
        (job(3, gpus=4), Annotation(family="resnet", speed=Speed(table=((1, 1.0),)))),
    ],
    ids=["user", "family", "no-family", "gpu-type", "declared"],
)
def test_reports_count_for_jobs_of_the_same_kind_only(other: Job, annotation: Annotation) -> None:
    curves = Curves()
    learn(curves, None, (runs(1, 2), at(2.0, 2)))
    assert curve_of(curves, other, annotation) is None


def test_a_job_that_claims_other_gpus_is_not_believed() -> None:
    curves = Curves()
    learn(curves, None, (runs(1, 2), at(1e6, 2, claimed=8)))
    assert curve_of(curves, job(3, gpus=4)) is None


def test_a_job_without_a_family_has_its_own_speed() -> None:
    curves, one = Curves(), runs(1, 2)
    found = curves.of([one], {one.key: Annotation()}, {one.key: at(2.0, 2)}, None, NOW)
    assert found == {one.key: Speed(table=((2, 2.0),))}


def test_little_news_is_not_written(journal: Journal) -> None:
    curves = Curves()
    learn(curves, journal, (runs(1, 2), at(2.0, 2)))
    learn(curves, journal, (runs(1, 2), at(2.05, 2)))
    assert [one.units_per_s for one in journal.speeds()] == [2.0]
    learn(curves, journal, (runs(1, 2), at(2.5, 2)))
    assert [one.units_per_s for one in journal.speeds()] == [2.5]


def test_communication_beside_computation_is_fitted_where_the_ring_model_fails() -> None:
    """A step is the greater of computing 1/K and of bringing K GPUs together, nearly."""
    seconds = {k: ((1 / k + 0.02) ** 8 + (0.3 + 0.03 * (k - 2)) ** 8) ** 0.125 for k in (2, 4, 8)}
    seconds[1] = 1.02
    speed = curve(tuple((k, 1 / s) for k, s in sorted(seconds.items())))
    assert speed.table[-1][0] == 16
    assert all(rate(speed, k) * s == pytest.approx(1, abs=0.02) for k, s in seconds.items())


def test_the_ring_model_stands_where_it_fits() -> None:
    speed = curve(tuple((k, 1 / (1 / k + 0.01 * (k - 1) + 0.1)) for k in (1, 2, 4, 8)))
    assert not speed.table
    assert rate(speed, 8) == pytest.approx(1 / 0.295)


@pytest.mark.parametrize("rates", [
    ((1, 1e-12), (2, 1e12), (4, 1.0), (8, 1e-9)), ((1, 1e-15), (2, 1e-15), (3, 1e15), (4, 1e15)),
    tuple((k, 1.0) for k in range(1, 70)),
])  # fmt: skip
def test_any_reports_give_a_curve(rates: tuple[tuple[int, float], ...]) -> None:
    speed = curve(rates)
    assert all(math.isfinite(rate(speed, k)) and rate(speed, k) > 0 for k in (1, 2, 8, 64))


def test_without_scipy_there_is_the_ring_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    rates = ((1, 1.0), (2, 3.0), (4, 3.1), (8, 3.3))
    assert overlapped(rates, Speed(theta=(1.0, 0.0, 0.0, 0.0))) is None


def test_one_user_fills_no_more_than_his_own_part(journal: Journal) -> None:
    """The oldest of his own go; those of others stay."""
    journal.save_speeds([SeenSpeed("other", "f", "a100", 1, 1.0, NOW - 999)])
    journal.save_speeds([
        SeenSpeed("greedy", f"f{n}", "a100", 1, 1.0, NOW + n) for n in range(SPEEDS_OF_ONE + 5)
    ])  # fmt: skip
    kept = journal.speeds()
    assert len(kept) == SPEEDS_OF_ONE + 1
    assert {"f4", "f5"} & {one.family for one in kept} == {"f5"}


def test_a_stranger_is_nobody() -> None:
    assert Curves().of([job(1)], {JobKey(9, 9): RESNET}, {}, None, NOW) == {}
