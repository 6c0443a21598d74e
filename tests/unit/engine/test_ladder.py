"""Ranking by SiteFactor: as few writes as possible, and never over jobs that are not ours."""

from __future__ import annotations

from dataclasses import replace

from slurm_ext.engine.ladder import MAX_PRIORITY, STEP, rungs
from slurm_ext.engine.view import JobView
from slurm_ext.model.decision import Mode
from slurm_ext.model.ledger import LedgerEntry
from tests.builders import NOW, job


def view(job_id: int, priority: int, factor: int = 0) -> JobView:
    found = job(job_id, priority=priority + factor)
    entry = LedgerEntry(found.key, str(job_id), site_factor=factor) if factor else None
    return JobView(found, Mode.ENFORCE, 60, NOW, priority, entry)


def written(front: list[JobView], rest: list[JobView]) -> dict[int, int]:
    return {r.view.job.job_id: r.site_factor for r in rungs(front, rest)}


def after(front: list[JobView], rest: list[JobView]) -> list[int]:
    """Job ids in the order Slurm would take them after the writes."""
    factors = written(front, rest)
    shown = {
        v.job.job_id: v.natural_priority + factors[v.job.job_id]
        if v.job.job_id in factors
        else v.job.priority
        for v in (*front, *rest)
    }
    return sorted(shown, key=lambda i: (-shown[i], i))


def test_slurms_own_order_needs_no_write() -> None:
    assert written([view(1, 30), view(2, 20)], [view(3, 10)]) == {}


def test_equal_priorities_go_by_job_id_as_in_slurm() -> None:
    assert written([view(1, 10), view(2, 10)], [view(3, 10)]) == {}


def test_another_order_is_written_once() -> None:
    front, rest = [view(3, 10), view(2, 20)], [view(1, 30)]
    assert after(front, rest)[:2] == [3, 2]


def test_written_order_is_stable() -> None:
    front, rest = [view(3, 10), view(2, 20)], [view(1, 30)]
    factors = written(front, rest)
    again = [view(v.job.job_id, v.natural_priority, factors[v.job.job_id]) for v in front]
    assert written(again, rest) == {}


def test_boosts_stay_near_the_highest_of_ours() -> None:
    front = [view(i, 10) for i in (5, 4, 3)]
    assert max(written(front, [view(1, 30)]).values()) <= 30 - 10 + 3 * STEP


def test_a_boost_is_taken_back_when_the_job_leaves_the_front() -> None:
    assert written([view(1, 30)], [view(2, 10, factor=500)])[2] == 0


def test_boosts_that_climbed_on_each_other_start_afresh() -> None:
    front = [view(1, 10), view(2, 10, factor=100_000)]
    factors = written(front, [view(3, 10)])
    assert max(factors.values()) <= 4 * STEP
    assert after(front, [view(3, 10)]) == [1, 2, 3]


def test_priorities_stay_below_slurms_special_values() -> None:
    front = [view(2, MAX_PRIORITY - 5)]
    found = rungs(front, [view(1, MAX_PRIORITY - 5)])
    assert all(r.view.natural_priority + r.site_factor <= MAX_PRIORITY for r in found)


def test_unmanaged_boosts_are_left_alone() -> None:
    foreign = view(2, 10)
    foreign = replace(foreign, job=replace(foreign.job, priority=500))
    assert written([view(1, 30)], [foreign]) == {}
