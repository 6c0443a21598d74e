"""GPUs along the slopes of speed curves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.engine.allocation import Contender, Servers, Slice
from slurm_ext.engine.parts.slope import Slopes
from slurm_ext.model.annotation import Annotation, Scaling, Speed
from slurm_ext.model.job import JobKey


def job(
    number: int,
    gpus: int = 1,
    held: int = 0,
    speeds: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0),
    restarts: int = 0,
) -> Contender:
    """Wants ``gpus``, holds ``held`` of the only server; ``speeds`` on 1, 2, 3, … GPUs."""
    note = Annotation(Scaling("elastic", 1, len(speeds)), speed=Speed(tuple(enumerate(speeds, 1))))
    return Contender(
        JobKey(number, 0), number, "u", gpus, 100.0, 100.0, (Slice(0, held),) if held else (),
        restarts=restarts, annotation=note,
    )  # fmt: skip


def sizes(rule: Slopes, *jobs: Contender, gpus: int = 8) -> dict[int, int]:
    servers = Servers((gpus,), (64,), (0,))
    return {g.key.job_id: g.gpus for g in rule.grants(jobs, servers, 50, ())}


FLAT = (1.0, 1.1, 1.2, 1.3)


def test_what_is_left_goes_to_the_steepest() -> None:
    assert sizes(Slopes(), job(1, speeds=FLAT), job(2), gpus=5) == {1: 1, 2: 4}


def test_a_newcomer_takes_what_is_beyond_the_request_of_the_flattest() -> None:
    held = job(1, held=4, speeds=FLAT), job(2, held=4)
    assert sizes(Slopes(), *held, job(3, gpus=2)) == {1: 2, 2: 4, 3: 2}


def test_a_promised_request_is_not_touched() -> None:
    held = job(1, gpus=4, held=4, speeds=FLAT), job(2, gpus=4, held=4)
    assert sizes(Slopes(), *held, job(3)) == {1: 4, 2: 4}
    assert sizes(Slopes(guarantee=False), *held, job(3)) == {1: 3, 2: 4, 3: 1}


@pytest.mark.parametrize(("restarts", "size"), [(4, 4), (5, 1)])
def test_a_job_that_was_restarted_too_often_keeps_its_size(restarts: int, size: int) -> None:
    assert sizes(Slopes(), job(1, held=1, restarts=restarts)) == {1: size}


def test_a_curve_that_is_level_for_a_while_is_climbed_in_larger_steps() -> None:
    assert sizes(Slopes(), job(1, held=1, speeds=(1.0, 1.0, 1.0, 1.0, 5.0))) == {1: 5}


def test_an_old_job_is_served_first() -> None:
    rule = Slopes(old_s=40.0)
    young = Contender(
        **{f: getattr(job(2), f) for f in Contender.__slots__} | {"key": JobKey(2, 45)}
    )
    assert sizes(rule, job(1, speeds=FLAT), young, gpus=4) == {1: 3, 2: 1}


JOBS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 4), st.floats(0.3, 1.0), st.integers(0, 6)),
    min_size=1, max_size=8,
)  # fmt: skip


@given(rows=JOBS, guarantee=st.booleans())
def test_promises_budgets_and_the_cluster_hold(
    rows: list[tuple[int, int, float, int]], guarantee: bool
) -> None:
    jobs, left = [], 12
    for number, (gpus, held, power, restarts) in enumerate(rows):
        held = max(held, gpus) if 0 < held <= left and max(held, gpus) <= left else 0
        left -= held
        speeds = tuple(g**power for g in range(1, 5))
        jobs.append(job(number, gpus, held, speeds, restarts))
    found = sizes(Slopes(guarantee=guarantee), *jobs, gpus=12)
    assert sum(found.values()) <= 12
    for j in jobs:
        got = found.get(j.key.job_id, 0)
        assert got <= 4
        if j.held:
            assert got >= (min(j.gpus, j.gpus_held) if guarantee else 1)
            if j.restarts >= 5:
                assert got == j.gpus_held
        else:
            assert got == 0 or got >= (j.gpus if guarantee else 1)
