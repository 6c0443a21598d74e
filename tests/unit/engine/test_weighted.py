"""The weighted order: each factor alone, the lane's budget, and the bound on waiting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_ext.engine.cycle import decide
from slurm_ext.engine.parts.weighted import NAMES, SLURM_NAMES, WeightedFactors
from slurm_ext.engine.policy import Policy, reads_factors
from slurm_ext.engine.settings import Context
from slurm_ext.engine.view import JobView, look_at
from slurm_ext.errors import PolicyError
from slurm_ext.model.annotation import Annotation, Checkpoint
from slurm_ext.model.decision import Mode
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import Job, SlurmFactors
from slurm_ext.policies import get
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.ideal import IdealDriver
from slurm_ext.sim.workload import TraceJob, Workload
from tests.builders import NOW, context, job, node, observation

HOUR_S = 3600
NONE = dict.fromkeys((f"weight_{name}" for name in NAMES), 0.0) | {"max_wait_s": 0.0}


def only(**parameters: float) -> Policy:
    """The policy with all weights 0 but those given."""
    return get("multifactor").with_parameters({**NONE, **parameters})


def order(jobs: list[Job], policy: Policy, **fields: object) -> list[int]:
    ctx = replace(context(**fields), policy=policy)
    plan = decide(observation([node("n1")], jobs), ctx).plan
    return [key.job_id for key in plan.order]


def estimate(seconds: float) -> Estimate:
    return Estimate(seconds, seconds, seconds, seconds, 9, "user")


def test_without_new_weights_the_order_is_slurms() -> None:
    jobs = [
        job(1, priority=10), job(2, priority=30), job(3, priority=20, limit=60),
        job(4, priority=30, submit=NOW - 5000),
    ]  # fmt: skip
    assert order(jobs, only(weight_priority=1.0)) == [4, 2, 3, 1]
    assert order(jobs, only()) == [4, 2, 3, 1]


@pytest.mark.parametrize(
    ("weight", "first", "second"),
    [
        pytest.param("age", {"submit": NOW - 50}, {"submit": NOW - 10}, id="age"),
        pytest.param("short", {"limit": 600}, {"limit": 601}, id="short-limit"),
        pytest.param("short", {"gpus": 1}, {"gpus": 2}, id="short-counts-gpus"),
        pytest.param("gang", {"gpus": 8}, {"gpus": 2}, id="gang"),
        pytest.param("deadline", {"deadline_s": NOW + 7200}, {"deadline_s": NOW + 9000}, id="near"),
        pytest.param("deadline", {"deadline_s": NOW + 9000}, {}, id="some-before-none"),
        pytest.param("deadline", {"deadline_s": NOW + 9000}, {"deadline_s": NOW - 1}, id="over"),
    ],
)
def test_each_factor_alone(weight: str, first: dict, second: dict) -> None:  # type: ignore[type-arg]
    jobs = [job(1, **second), job(2, **first)]
    assert order(jobs, only(**{f"weight_{weight}": 1.0})) == [2, 1]


@pytest.mark.parametrize("name", SLURM_NAMES)
def test_each_of_slurms_factors_alone(name: str) -> None:
    field = "age" if name == "slurm_age" else name
    jobs = [job(1, factors=SlurmFactors()), job(2, factors=SlurmFactors(**{field: 0.5})), job(3)]
    assert order(jobs, only(**{f"weight_{name}": 1.0})) == [2, 1, 3]


def test_slurms_factors_are_told_where_one_has_a_weight() -> None:
    views = [_view(job(1, factors=SlurmFactors(fair_share=0.25, qos=1.0)))]
    ordering = only(weight_fair_share=2.0).ordering
    assert isinstance(ordering, WeightedFactors)
    (factors,) = ordering.factors(views, NOW)
    told = {f.name: f.contribution for f in factors}
    assert told["fair_share"] == 0.5
    assert told["qos"] == 0.0
    assert set(told) == {*NAMES, *SLURM_NAMES}


def test_without_a_weight_nobody_asks_for_slurms_factors() -> None:
    assert not reads_factors(get("multifactor").ordering)
    assert not reads_factors(get("fifo").ordering)
    assert reads_factors(only(weight_size=0.1).ordering)


def test_an_estimate_counts_in_place_of_the_limit() -> None:
    jobs = [job(1, gpus=1, limit=600), job(2, gpus=1, limit=9000)]
    known = {jobs[1].key: estimate(60)}
    assert order(jobs, only(weight_short=1.0), estimates=known) == [2, 1]


def test_what_was_done_before_a_requeue_counts_only_with_a_checkpoint() -> None:
    jobs = [job(1, gpus=1, limit=5000), job(2, gpus=1, limit=6000), job(3, gpus=1, limit=6000)]
    had = {jobs[1].key: 3000.0, jobs[2].key: 3000.0}
    saves = {jobs[2].key: Annotation(checkpoint=Checkpoint(interval_s=600))}
    found = order(jobs, only(weight_short=1.0), attained_gpu_s=had, annotations=saves)
    assert found == [3, 1, 2]


def test_who_has_had_least_comes_first() -> None:
    jobs = [job(1, gpus=1), job(2, gpus=1)]
    assert order(jobs, only(weight_attained=1.0), attained_gpu_s={jobs[0].key: 50.0}) == [2, 1]


def test_the_nearer_of_two_deadlines_counts() -> None:
    jobs = [job(1, deadline_s=NOW + 8000), job(2, deadline_s=NOW + 9000)]
    said = {jobs[1].key: Annotation(deadline_s=NOW + 7000)}
    assert order(jobs, only(weight_deadline=1.0), annotations=said) == [2, 1]


@pytest.mark.parametrize(
    ("held", "expected"), [(0, [2, 3, 1, 4, 5]), (2, [2, 1, 3, 4, 5]), (4, [1, 2, 3, 4, 5])]
)
def test_the_lane_has_a_budget_that_running_jobs_use_up(held: int, expected: list[int]) -> None:
    """Two of three debug jobs fit into four GPUs; one is too long for the lane."""
    jobs = [
        job(1, gpus=1), job(2, gpus=2, limit=600), job(3, gpus=2, limit=600),
        job(4, gpus=2, limit=600), job(5, gpus=1, limit=2 * HOUR_S),
    ]  # fmt: skip
    running = job(9, on={"n1": held}, gpus=held, limit=600) if held else None
    asks = {j.key: Annotation(debug=True) for j in jobs[1:]}
    if running is not None:
        asks[running.key] = Annotation(debug=True)
    queue = [*jobs, running] if running is not None else jobs
    assert order(queue, only(weight_lane=1.0), annotations=asks) == expected


def test_an_array_uses_the_lane_with_all_its_tasks() -> None:
    array = job(2, gpus=1, limit=600, array_job_id=2, array_tasks="0-9", array_count=10)
    asks = {array.key: Annotation(debug=True)}
    assert order([job(1, gpus=1), array], only(weight_lane=1.0), annotations=asks) == [1, 2]


def test_a_job_that_waited_too_long_is_first_whatever_the_rest_says() -> None:
    old = [job(i, gpus=8, limit=90_000, priority=1, submit=NOW - 5000 + i) for i in (1, 2)]
    young = job(3, gpus=1, limit=60, priority=10**9, deadline_s=NOW + 70)
    policy = get("multifactor").with_parameters({"max_wait_s": 4000.0})
    assert order([young, old[1], old[0]], policy) == [1, 2, 3]


def trace_with_a_wide_job() -> Workload:
    """Short 1-GPU jobs that alone keep 8 GPUs more than full for an hour, and one 8-GPU job."""
    small = [
        TraceJob(job_id=i, submit_s=12 * i, run_s=120, gpus=1, limit_s=120)
        for i in range(1, 301)
    ]  # fmt: skip
    return Workload.of("stream", [*small, TraceJob(job_id=5000, submit_s=60, run_s=600, gpus=8,
                                                   limit_s=4 * HOUR_S)])  # fmt: skip


@pytest.mark.parametrize(("max_wait_s", "starts_in_time"), [(1200.0, True), (0.0, False)])
def test_waiting_is_bounded_only_by_the_guard(max_wait_s: float, starts_in_time: bool) -> None:
    """After ``max_wait_s`` the job is first and waits for what runs: at most the longest limit."""
    policy = get("multifactor").with_parameters({"max_wait_s": max_wait_s, "weight_age": 0.0})
    ctx = Context(policy=policy, mode=Mode.OBSERVE)
    driver = IdealDriver(trace_with_a_wide_job(), ClusterSpec.parse("1x8"), ctx, kill=True)
    wide = next(o for o in driver.run().jobs if o.spec.job_id == 5000)
    assert (wide.start_s - wide.spec.submit_s <= 1200 + 120) is starts_in_time


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weight_age", -1.0),
        ("half_gpu_s", 0.0),
        ("lane_gpus", -1),
        ("weight_age", 1e308),
        ("half_gpu_s", 5e-324),
        ("max_wait_s", float("nan")),
        ("max_age_s", float("inf")),
    ],
)
def test_parameters_that_cannot_be(name: str, value: float) -> None:
    with pytest.raises(PolicyError, match=name):
        get("multifactor").with_parameters({name: value})


def test_the_score_is_the_sum_of_the_factors() -> None:
    jobs = [job(1, gpus=2, priority=5), job(2, gpus=1, priority=9)]
    part = WeightedFactors()
    views = [_view(j) for j in jobs]
    terms, factors = part.terms(views, NOW), part.factors(views, NOW)
    for mine, made_of in zip(terms, factors, strict=True):
        assert dict(mine)["neg_score"] == pytest.approx(-sum(f.contribution for f in made_of))
        assert all(0 <= f.value <= 1 for f in made_of)


def _view(waiting: Job) -> JobView:
    found = look_at(waiting, observation([node("n1")], [waiting]), context("multifactor"))
    assert isinstance(found, JobView)
    return found


def test_a_whole_number_beyond_all_floats_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"weight_age: too large"):
        get("multifactor").with_parameters({"weight_age": 10**400})
