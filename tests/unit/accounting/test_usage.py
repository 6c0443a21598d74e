"""Decayed usage, service across requeues, advice on limits."""

from __future__ import annotations

import pytest

from slurm_ext.accounting.record import Attempt
from slurm_ext.accounting.report import limit_advice, overestimate, totals
from slurm_ext.accounting.usage import (
    HALF_LIFE_S,
    Restarts,
    Service,
    attained,
    cut_short,
    restarts,
    usage,
)
from tests.unit.accounting.helpers import T0, attempt


@pytest.mark.parametrize(("age_s", "share"), [(0, 1), (HALF_LIFE_S, 0.5), (2 * HALF_LIFE_S, 0.25)])
def test_usage_halves_with_its_half_life(age_s: int, share: float) -> None:
    one = attempt(run_s=100, gpus_alloc=4, end_s=T0)
    found = usage([one], T0 + age_s)["ann"]
    assert (found.decayed_gpu_s, found.gpu_s) == (pytest.approx(400 * share), 400)


def test_usage_by_account_leaves_out_what_held_no_gpu() -> None:
    rows = [attempt(), attempt(job_id=2, account="other", gpus_alloc=0)]
    assert set(usage(rows, T0, by="account")) == {"lab"}


def test_running_attempt_counts_in_full() -> None:
    assert usage([attempt(end_s=None)], T0 + 9 * HALF_LIFE_S)["ann"].decayed_gpu_s == 120


def tries(*states: str) -> list[Attempt]:
    return [
        attempt(
            submit_s=T0 + i * 1000, run_s=100 * (i + 1), state=state,
            outcome="ended" if state == "COMPLETED" else "censored",
        )
        for i, state in enumerate(states)
    ]  # fmt: skip


def test_service_adds_up_across_requeues() -> None:
    found = attained(tries("REQUEUED", "PREEMPTED", "COMPLETED"))
    assert found["mini", 1] == Service(600, 1200, 2, 300)


@pytest.mark.parametrize(
    ("states", "gpu_s"),
    [
        (["REQUEUED", "PREEMPTED"], [200, 400]),
        (["REQUEUED", "COMPLETED"], []),
        (["COMPLETED", "REQUEUED"], [400]),
        (["CANCELLED"], []),
    ],
)
def test_attempts_that_may_go_on(states: list[str], gpu_s: list[int]) -> None:
    assert [row[3] for row in cut_short(tries(*states))] == gpu_s


def test_id_after_a_wrap_begins_anew() -> None:
    assert attained(tries("COMPLETED", "COMPLETED"))["mini", 1] == Service(200, 400, 0, 0)


def test_limit_advice_is_p95_and_a_fifth_in_quarters_of_an_hour() -> None:
    rows = [attempt(job_id=i, run_s=3600, limit_s=36000, gpus_alloc=2) for i in range(10)]
    (found,) = limit_advice(rows)
    assert (found.suggested_s, found.jobs, found.used_s) == (4500, 10, 3600)
    assert found.freed_gpu_h == pytest.approx(10 * 2 * (36000 - 4500) / 3600)


@pytest.mark.parametrize(
    ("count", "changes"),
    [(4, {}), (10, {"limit_s": None}), (10, {"outcome": "censored"})],
    ids=["too few", "no limit", "none ended"],
)
def test_no_advice_without_evidence(count: int, changes: dict[str, object]) -> None:
    base = {"run_s": 60, "limit_s": 36000} | changes
    assert limit_advice([attempt(job_id=i, **base) for i in range(count)]) == []


def test_no_shorter_limit_where_jobs_time_out() -> None:
    rows = [attempt(job_id=i, run_s=60, limit_s=36000) for i in range(10)]
    rows.append(attempt(job_id=99, run_s=36000, limit_s=36000, state="TIMEOUT", outcome="censored"))
    (found,) = limit_advice(rows)
    assert (found.suggested_s, found.timeouts, found.freed_gpu_h) == (None, 1, 0)


def test_overestimate() -> None:
    rows = [attempt(job_id=i, run_s=100, limit_s=100 * i) for i in range(1, 12)]
    found = overestimate(rows)
    assert found is not None
    assert (found.jobs, found.p50) == (11, 6)
    assert overestimate([]) is None


def test_restarts_cost_what_was_cut_short() -> None:
    found = restarts([*tries("REQUEUED", "PREEMPTED", "COMPLETED"), attempt(job_id=9)])
    # Each attempt ends 70 s after the first submit, the next starts 10 s after that.
    assert (found.jobs, found.restarts, found.lost_gpu_s) == (1, 2, 600)
    assert found.gap_s == 0


def test_no_restarts() -> None:
    assert restarts([attempt()]) == Restarts(0, 0, 0, None)


def test_totals_by_account() -> None:
    rows = [
        attempt(job_id=i, user=("ann", "bob")[i % 2], run_s=3600, limit_s=36000) for i in range(20)
    ]
    found = totals(limit_advice(rows), by="account")
    assert found["lab"].jobs == 20
    assert found["lab"].freed_gpu_h == pytest.approx(20 * 2 * (36000 - 4500) / 3600)
