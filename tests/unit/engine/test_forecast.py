"""When jobs will probably start."""

from __future__ import annotations

import pytest

from slurm_ext.engine.cycle import decide
from slurm_ext.engine.settings import BackfillSettings, Context
from slurm_ext.model.decision import Forecast
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.node import Node
from slurm_ext.model.observation import Partition
from tests.builders import NOW, context, job, node, observation


def found(nodes: list[Node], jobs: list[Job], ctx: Context | None = None) -> dict[int, Forecast]:
    """Job id -> forecast, in seconds from now."""
    plan = decide(observation(nodes, jobs), ctx or context()).plan
    return {k.job_id: Forecast(*(s - NOW for s in f)) for k, f in plan.forecasts.items()}


def busy(gpus: int = 8, end: int = 600) -> tuple[list[Node], list[Job]]:
    """One node on which a job holds so many GPUs until so many seconds from now."""
    return [node("n1", used=range(gpus))], [job(99, gpus=gpus, on={"n1": gpus}, end=NOW + end)]


def guess(p50_s: float, p90_s: float) -> Estimate:
    return Estimate(p50_s / 2, p50_s, p90_s, p50_s, 9, "user")


def test_a_job_that_starts_is_forecast_for_now() -> None:
    assert found([node("n1")], [job(1, gpus=8)]) == {1: Forecast(0, 0)}


def test_jobs_in_line_start_one_after_the_other() -> None:
    nodes, jobs = busy()
    jobs += [job(i, gpus=8, limit=100 * i, submit=NOW - 100 + i) for i in (1, 2, 3)]
    assert {k: f.p50_s for k, f in found(nodes, jobs).items()} == {1: 600, 2: 700, 3: 900}


def test_without_estimates_both_quantiles_are_by_limits() -> None:
    nodes, jobs = busy()
    assert found(nodes, [*jobs, job(1, gpus=8)])[1] == Forecast(600, 600)


def test_quantiles_of_what_runs_and_waits_ahead() -> None:
    nodes, jobs = busy(end=6000)
    jobs += [job(i, gpus=8, limit=9000, submit=NOW - 100 + i) for i in (1, 2)]
    estimates = {jobs[0].key: guess(160, 1060)}  # it has run for 60 s
    estimates |= {j.key: guess(100, 500) for j in jobs[1:]}
    ctx = context(estimates=estimates, backfill=BackfillSettings(durations="p50"))
    assert found(nodes, jobs, ctx) == {1: Forecast(100, 1000), 2: Forecast(200, 1500)}


def test_a_promise_bounds_the_forecast() -> None:
    """The estimate of what runs is past its limit; the promise is not."""
    nodes, jobs = busy()
    jobs.append(job(1, gpus=8))
    ctx = context(estimates={jobs[0].key: guess(9000, 90_000)})
    assert found(nodes, jobs, ctx)[1] == Forecast(600, 600)


def test_small_jobs_fill_the_hole_before_a_large_one() -> None:
    nodes, jobs = busy(gpus=4)
    jobs += [job(1, gpus=8, limit=100, submit=NOW - 90)]
    jobs += [job(2, gpus=8, limit=100, submit=NOW - 80), job(3, gpus=5, limit=50, submit=NOW - 70)]
    jobs += [job(4, gpus=2, limit=1000, submit=NOW - 60)]
    assert {k: f.p50_s for k, f in found(nodes, jobs).items()} == {1: 600, 2: 700, 3: 800, 4: 800}


def test_partitions_without_a_common_node_do_not_wait_for_each_other() -> None:
    nodes = [node("n1", used=range(8)), node("n2", used=range(8))]
    jobs = [job(98 + i, gpus=8, on={f"n{i}": 8}, end=NOW + 100 * i) for i in (1, 2)]
    jobs += [job(i, gpus=8, partitions=(f"p{i}",), submit=NOW - i) for i in (1, 2)]
    parts = [Partition("p1", ("n1",)), Partition("p2", ("n2",))]
    plan = decide(observation(nodes, jobs, partitions=parts), context()).plan
    assert {k.job_id: f.p50_s - NOW for k, f in plan.forecasts.items()} == {1: 100, 2: 200}


def test_whole_nodes_are_waited_for() -> None:
    """Eight GPUs are free, four on each node: that is no node for a job of eight."""
    nodes = [node(f"n{i}", used=range(4)) for i in (1, 2)]
    jobs = [job(90 + i, gpus=4, on={f"n{i}": 4}, end=NOW + 300 * i) for i in (1, 2)]
    assert found(nodes, [*jobs, job(1, gpus=8)])[1].p50_s == 300


@pytest.mark.parametrize(("count", "counted"), [(1, 1), (33, 33), (40, 41), (3000, 3009)])
def test_an_array_is_work_for_all_its_tasks(count: int, counted: int) -> None:
    """In 32 parts at most, so that a few tasks too many may be counted."""
    nodes, jobs = busy()
    jobs.append(job(1, gpus=8, limit=10, submit=NOW - 9, array_job_id=1, array_tasks="x",
                    array_count=count))  # fmt: skip
    jobs.append(job(2, gpus=8, limit=10, submit=NOW - 8))
    assert found(nodes, jobs)[2].p50_s == 600 + 10 * counted


def test_every_waiting_job_that_can_run_has_one() -> None:
    nodes, jobs = busy()
    jobs += [job(i, gpus=i % 3 + 1, submit=NOW - i) for i in range(1, 30)]
    jobs += [job(50, gpus=9), job(51, gpus=1, reason="QOSMaxGRESPerUser")]
    plan = decide(observation(nodes, jobs), context()).plan
    assert set(plan.forecasts) == {j.key for j in jobs if 1 <= j.job_id < 30}
    assert all(NOW <= f.p50_s <= f.p90_s for f in plan.forecasts.values())
    assert JobKey(50, NOW - 1000) not in plan.forecasts
