"""Elastic allocations: doubling, the exact programme, marginal gains, speed fits."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.engine.allocation import Contender, Servers, Slice
from slurm_ext.engine.parts.doubling import Doubling, doubled
from slurm_ext.engine.parts.elastic import lay_out, relative_speed
from slurm_ext.engine.parts.speed import fit_theta, nnls, rate, regressors
from slurm_ext.engine.parts.throughput import MarginalGain, MaxThroughput, best_sizes
from slurm_ext.model.annotation import Annotation, Checkpoint, Scaling, Speed
from slurm_ext.model.job import JobKey

EPOCH_S = {1: 138.0, 2: 81.9, 4: 47.25, 8: 29.6}
TABLE = tuple((g, 1 / s) for g, s in EPOCH_S.items())


def elastic(
    line: int,
    left_s: float = 1000.0,
    most: int = 8,
    table: tuple[tuple[int, float], ...] = TABLE,
    held: int = 0,
    restart_s: int = 10,
    attained_s: float = 0.0,
) -> Contender:
    note = Annotation(Scaling("elastic", 1, most), Checkpoint(restart_s=restart_s), Speed(table))
    return Contender(
        JobKey(line, 0), line, "u", 1, left_s, left_s, (Slice(0, held),) if held else (),
        attained_s, annotation=note,
    )  # fmt: skip


def pool(gpus: int) -> Servers:
    return Servers((gpus,), (gpus,), (0,))


JOBS = st.lists(
    st.tuples(st.floats(1, 1e6), st.sampled_from([1, 2, 4, 8, 16])), min_size=1, max_size=20
)


@given(rows=JOBS, gpus=st.integers(1, 64), fit=st.booleans())
def test_doubling_gives_powers_of_two_within_all_limits(
    rows: list[tuple[float, int]], gpus: int, fit: bool
) -> None:
    jobs = [elastic(i, left_s, most) for i, (left_s, most) in enumerate(rows)]
    sizes = doubled(jobs, gpus, fit=fit)
    assert sum(sizes.values()) <= gpus
    assert [k.job_id for k in sizes] == list(range(min(gpus, len(jobs))))  # earliest first
    for key, size in sizes.items():
        assert size & (size - 1) == 0
        assert size <= rows[key.job_id][1]
    if len(jobs) >= gpus:
        assert set(sizes.values()) == {1}


@pytest.mark.parametrize(("gpus", "most", "size"), [(64, 8, 8), (64, 4, 4), (7, 8, 4), (1, 8, 1)])
def test_a_lone_job_gets_the_largest_power_of_two_it_can_use(
    gpus: int, most: int, size: int
) -> None:
    assert doubled([elastic(0, most=most)], gpus) == {JobKey(0, 0): size}


def test_doubling_stops_where_it_would_slow_a_job_down() -> None:
    slower = ((1, 1.0), (2, 1.5), (4, 1.2))
    assert doubled([elastic(0, table=slower)], 8, fit=False) == {JobKey(0, 0): 2}


def test_the_job_with_most_work_is_doubled_first() -> None:
    sizes = doubled([elastic(0, 100.0), elastic(1, 900.0)], 3)
    assert [sizes[JobKey(i, 0)] for i in (0, 1)] == [1, 2]


def sizes_of(grants: list, jobs: list[Contender]) -> list[int]:  # type: ignore[type-arg]
    by_key = {g.key: g.gpus for g in grants}
    return [by_key.get(j.key, 0) for j in jobs]


def test_sizes_stay_where_the_restarts_cost_more_than_they_save() -> None:
    jobs = [elastic(0, 60.0, held=4, restart_s=600), elastic(1, 60.0, held=2, restart_s=600)]
    kept = Doubling().grants(jobs, pool(12), 0, ())
    assert sizes_of(kept, jobs) == [4, 2]
    changed = Doubling(hysteresis=False).grants(jobs, pool(12), 0, ())
    assert sizes_of(changed, jobs) == [8, 4]


def test_a_waiting_job_is_let_in_whatever_the_restart_costs() -> None:
    jobs = [elastic(0, 60.0, held=8, restart_s=600), elastic(1, 60.0)]
    assert sizes_of(Doubling().grants(jobs, pool(8), 0, ()), jobs) == [4, 4]


@pytest.mark.parametrize(("attained_s", "active"), [(0, 1), (150, 2), (449, 4), (450, 8)])
def test_a_new_job_explores_with_its_largest_size_set_aside(attained_s: float, active: int) -> None:
    job = elastic(0, attained_s=attained_s)
    (grant,) = Doubling(explore_s=600.0).grants([job], pool(64), 0, ())
    assert (grant.gpus, grant.active) == (8, active)


def test_explored_jobs_keep_their_first_gpu_when_a_new_one_comes() -> None:
    old = [elastic(i, attained_s=600.0) for i in range(2)]
    new = elastic(2)
    grants = Doubling(explore_s=600.0).grants([*old, new], pool(9), 0, ())
    assert sizes_of(grants, [*old, new]) == [4, 4, 0]


def test_the_fit_of_the_recalled_epoch_times() -> None:
    """Ring model through 138 / 81.9 / 47.25 / 29.6 s: at most 8 % off, 24.1 s on 16 GPUs."""
    theta = fit_theta(list(EPOCH_S.items()))
    fitted = [float(np.dot(regressors(g), theta)) for g in (1, 2, 4, 8, 16)]
    assert fitted == pytest.approx([139.7, 78.0, 47.2, 31.8, 24.1], abs=0.1)


MATRIX = st.lists(st.tuples(*[st.floats(0, 10)] * 3, st.floats(-10, 10)), min_size=3, max_size=6)


@given(rows=MATRIX)
def test_nnls_meets_the_conditions_of_an_optimum(rows: list[tuple[float, ...]]) -> None:
    """Karush-Kuhn-Tucker: no negative part, no descent direction, none along what is used."""
    matrix, target = np.array([r[:3] for r in rows]), np.array([r[3] for r in rows])
    found = np.array(nnls(matrix, target))
    assert (found >= 0).all()
    slope = matrix.T @ (target - matrix @ found)
    scale = 1e-5 * (1 + float(np.abs(matrix).max() * np.abs(target).max() * len(rows)))
    assert (slope <= scale).all()
    assert abs(float(slope @ found)) <= scale * (1 + float(found.max()))


def test_a_fit_needs_points() -> None:
    with pytest.raises(ValueError, match="no points"):
        fit_theta([])


@pytest.mark.parametrize(("gpus", "per_s"), [(0, 0.0), (1, 1.0), (2, 1.5), (4, 2.0), (9, 2.0)])
def test_rates_between_and_beyond_the_points_of_a_table(gpus: int, per_s: float) -> None:
    assert rate(Speed(((2, 1.5), (4, 2.0))), gpus) == pytest.approx(per_s if gpus != 1 else 0.75)


GAINS = st.lists(st.lists(st.floats(0, 10), min_size=1, max_size=4), min_size=1, max_size=4)


@given(gains=GAINS, gpus=st.integers(1, 9))
def test_the_programme_is_as_good_as_trying_everything(gains: list[list[float]], gpus: int) -> None:
    everything = [
        sum(row[g - 1] for row, g in zip(gains, sizes, strict=True))
        for sizes in product(*(range(1, len(row) + 1) for row in gains))
        if sum(sizes) <= gpus
    ]
    if not everything:
        with pytest.raises(ValueError, match="not every job"):
            best_sizes(gains, gpus)
        return
    sizes = best_sizes(gains, gpus)
    assert sum(sizes) <= gpus
    found = sum(row[g - 1] for row, g in zip(gains, sizes, strict=True))
    assert found == pytest.approx(max(everything))


CURVES = st.lists(st.lists(st.floats(0.01, 1), min_size=0, max_size=7), min_size=1, max_size=6)


@given(curves=CURVES, gpus=st.integers(1, 24))
def test_with_concave_curves_one_gpu_at_a_time_is_as_good_as_the_programme(
    curves: list[list[float]], gpus: int
) -> None:
    tables = []
    for steps in curves:
        speeds = np.cumsum([1.0, *sorted(steps, reverse=True)])
        tables.append(tuple((g, float(s)) for g, s in enumerate(speeds, 1)))
    jobs = [elastic(i, most=len(t), table=t) for i, t in enumerate(tables)]
    exact = MaxThroughput().grants(jobs, pool(gpus), 0, ())
    total = _speed_up(jobs, exact)
    for other in (MarginalGain(), MarginalGain(by_share=True)):
        assert _speed_up(jobs, other.grants(jobs, pool(gpus), 0, ())) <= total + 1e-6
    greedy = _greedy(tables, gpus)
    assert greedy == pytest.approx(total)


def _speed_up(jobs: list[Contender], grants: list) -> float:  # type: ignore[type-arg]
    by_key = {j.key: j for j in jobs}
    return sum(
        relative_speed(by_key[g.key], g.gpus) / relative_speed(by_key[g.key], 1) for g in grants
    )


def _greedy(tables: list[tuple[tuple[int, float], ...]], gpus: int) -> float:
    chosen = tables[:gpus]
    steps = [b[1] - a[1] for t in chosen for a, b in pairwise(t)]
    return len(chosen) + sum(sorted(steps, reverse=True)[: gpus - len(chosen)])


def test_marginal_gain_gives_a_gpu_to_whom_it_saves_most_time() -> None:
    jobs = [elastic(0, 100.0), elastic(1, 900.0)]
    assert sizes_of(MarginalGain().grants(jobs, pool(3), 0, ()), jobs) == [1, 2]


def test_who_keeps_its_size_keeps_its_place() -> None:
    servers = Servers((4, 4), (4, 4), (0, 0))
    stays = elastic(0, held=2)
    stays = Contender(stays.key, 0, "u", 1, 10.0, 10.0, (Slice(1, 2),))
    grants = lay_out([(stays, 2), (elastic(1), 4)], servers)
    assert [g.slices for g in grants] == [(Slice(1, 2),), (Slice(0, 4),)]
