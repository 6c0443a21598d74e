"""Who may pass whom: promises, slack, learned run times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.engine.cycle import Step, decide
from slurm_ext.engine.settings import BackfillSettings, Memory, Promise
from slurm_ext.model.decision import Verdict
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import Job, JobKey, NodeShare
from slurm_ext.model.node import Node
from slurm_ext.model.observation import Observation, Reservation
from slurm_ext.model.plain import from_plain, to_plain
from tests.builders import NOW, context, job, node, observation


def look(jobs: list[Job], used: int, *, now: int = NOW, **fields: Any) -> Observation:
    return observation([node("n1", used=range(used))], jobs, now=now, **fields)


def running(gpus: int, end: int) -> Job:
    return job(99, gpus=gpus, on={"n1": gpus}, end=NOW + end)


def whole(job_id: int, limit: int = 100, **fields: Any) -> Job:
    """A job of the whole node; lower ids came first."""
    return job(job_id, gpus=8, limit=limit, submit=NOW - 1000 + job_id, **fields)


def small(job_id: int, limit: int, gpus: int = 2) -> Job:
    return job(job_id, gpus=gpus, limit=limit, submit=NOW - 500 + job_id)


def starts(step: Step) -> dict[int, int | None]:
    """Job id -> planned start in seconds from NOW; None: waits without a promise."""
    return {
        k.job_id: None if d.start_s is None else d.start_s - NOW
        for k, d in step.plan.decisions.items()
        if d.verdict is not Verdict.RUNNING
    }


def plan(jobs: list[Job], used: int, kind: str = "easy", **settings: Any) -> Step:
    ctx = context(backfill=BackfillSettings(kind=kind, **settings))
    return decide(look(jobs, used), ctx)


# -- promises ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "settings", "expected"),
    [
        ("easy", {"fences": 1}, {1: 600, 2: None, 3: None}),
        ("easy", {"fences": 2}, {1: 600, 2: 700, 3: None}),
        ("conservative", {"depth": 3}, {1: 600, 2: 700, 3: 800}),
        ("best_effort", {}, {1: None, 2: None, 3: None}),
    ],
)
def test_a_promise_ends_with_its_job(
    kind: str, settings: dict[str, int], expected: dict[int, int | None]
) -> None:
    jobs = [running(8, 600), whole(1), whole(2), whole(3)]
    assert starts(plan(jobs, 8, kind, **settings)) == expected


def test_a_hole_between_two_promises_is_promised() -> None:
    """Job 3 fits beside job 1, before job 2."""
    jobs = [running(8, 600), job(1, gpus=4, limit=100, submit=NOW - 1100), whole(2),
            job(3, gpus=4, limit=100, submit=NOW - 800)]  # fmt: skip
    assert starts(plan(jobs, 8, "conservative")) == {1: 600, 2: 700, 3: 600}


def beside_two() -> list[Job]:
    """One GPU is free, a second one from 100 s on, all from 900 s on."""
    jobs = [running(6, 900), job(98, gpus=1, on={"n1": 1}, end=NOW + 100), whole(1)]
    return [*jobs, job(2, gpus=2, limit=800, submit=NOW - 700), small(3, 300, gpus=1)]


def test_easy_lets_pass_what_conservative_does_not() -> None:
    """Job 3 ends before job 1 is due but would put off job 2, which waits for one GPU only."""
    jobs = beside_two()
    assert starts(plan(jobs, 7, "easy"))[3] == 0
    assert starts(plan(jobs, 7, "conservative")) == {1: 900, 2: 100, 3: 1000}


def test_the_fence_in_the_way_is_named() -> None:
    jobs = beside_two()
    step = plan(jobs, 7, "conservative")
    reason = step.plan.decisions[jobs[-1].key].reasons[0]
    assert (reason.code, dict(reason.facts)) == (
        "behind_fence", {"fence_job": 2, "fence_in_s": 100},
    )  # fmt: skip
    assert reason.would_change == "a limit of at most 100 s"


def urgent(kind: str) -> Step:
    """Two cycles; before the second a job comes that the policy puts first."""
    jobs = [running(8, 600), whole(1, priority=10), whole(2, priority=10)]
    ctx = context("multifactor", backfill=BackfillSettings(kind=kind, fences=2))
    memory = decide(look(jobs, 8), ctx).memory
    again = [*jobs, whole(3, priority=99)]
    return decide(look(again, 8, now=NOW + 30), replace(ctx, memory=memory))


def test_with_easy_the_order_of_now_rules() -> None:
    step = urgent("easy")
    assert starts(step) == {3: 600, 1: 700, 2: None}
    assert step.plan.stats["slip_max_s"] == 100


def test_with_conservative_a_promise_stands_against_newcomers() -> None:
    step = urgent("conservative")
    assert starts(step) == {1: 600, 2: 700, 3: 800}
    assert step.plan.stats["promises_moved"] == 0


def test_a_promise_moves_forward_when_something_ends_early() -> None:
    jobs = [running(8, 600), whole(1)]
    ctx = context()
    memory = decide(look(jobs, 8), ctx).memory
    jobs[0] = replace(jobs[0], end_s=NOW + 200)
    step = decide(look(jobs, 8, now=NOW + 30), replace(ctx, memory=memory))
    assert starts(step) == {1: 200}
    assert step.memory.promises[jobs[1].key].first_s == NOW + 600


def test_the_promised_nodes_stay_the_same() -> None:
    """Both nodes come free at the same time; meanwhile the other has become the tighter one."""
    jobs = [job(90 + i, gpus=8, on={f"n{i}": 8}, end=NOW + 600) for i in (1, 2)]
    jobs.append(job(1, gpus=2, limit=100))
    nodes = [node(f"n{i}", used=range(8)) for i in (1, 2)]
    ctx = context()
    first = decide(observation(nodes, jobs), ctx)
    promised = first.plan.fences[0].placement.nodes
    others = [replace(n, cpus=16) if n.name not in promised else n for n in nodes]
    second = decide(observation(others, jobs, now=NOW + 30), replace(ctx, memory=first.memory))
    fresh = decide(observation(others, jobs, now=NOW + 30), ctx)
    assert fresh.plan.fences[0].placement.nodes != promised
    assert second.plan.fences[0].placement.nodes == promised


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"states": frozenset({"DOWN"})}, id="node down"),
        pytest.param({"cpus": 0}, id="node smaller"),
    ],
)
def test_a_promise_on_a_lost_node_is_made_anew(change: dict[str, object]) -> None:
    jobs = [job(90 + i, gpus=8, on={f"n{i}": 8}, cpus=0, end=NOW + 600) for i in (1, 2)]
    jobs.append(job(1, gpus=2, limit=100))
    nodes: list[Node] = [node(f"n{i}", used=range(8)) for i in (1, 2)]
    first = decide(observation(nodes, jobs), context())
    (lost,) = first.plan.fences[0].placement.nodes
    others = [replace(n, **change) if n.name == lost else n for n in nodes]  # type: ignore[arg-type]
    step = decide(observation(others, jobs), context(memory=first.memory))
    assert step.plan.fences[0].placement.nodes != (lost,)


def test_a_job_that_asks_for_something_else_is_promised_anew() -> None:
    jobs = [running(8, 600), whole(1)]
    memory = decide(look(jobs, 8), context()).memory
    jobs[1] = replace(jobs[1], request=replace(jobs[1].request, gpus_per_node=4))
    step = decide(look(jobs, 8), context(memory=memory))
    assert step.memory.promises[jobs[1].key].shares[0].gpus == 4


@pytest.mark.parametrize(("started", "late"), [(600, 0), (650, 50)])
def test_how_promises_ended_is_counted(started: int, late: int) -> None:
    jobs = [running(8, 600), whole(1)]
    memory = decide(look(jobs, 8), context()).memory
    runs = replace(jobs[1], **{  # type: ignore[arg-type]
        f: getattr(job(1, on={"n1": 8}), f) for f in ("state", "alloc", "reason")
    }, start_s=NOW + started, end_s=NOW + 9999)  # fmt: skip
    step = decide(look([runs], 8, now=NOW + 700), context(memory=memory))
    assert step.memory.kept == (int(not late), int(bool(late)), late, late)
    assert step.memory.promises == {}
    assert step.plan.stats["promises_late_s"] == late


def test_promises_survive_a_snapshot() -> None:
    memory = decide(look([running(8, 600), whole(1)], 8), context()).memory
    assert memory.promises
    assert from_plain(Memory, to_plain(memory)) == memory


# -- slack -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "settings", "verdict"),
    [
        (600, {"max_slip_s": 200}, Verdict.START),
        (800, {"max_slip_s": 200}, Verdict.START),
        (801, {"max_slip_s": 200}, Verdict.WAIT),
        (601, {"max_slip_s": 0}, Verdict.WAIT),
        # promised 1599 s after its submit: a tenth of that
        (759, {"max_slip_s": 900, "slack_fraction": 0.1}, Verdict.START),
        (760, {"max_slip_s": 900, "slack_fraction": 0.1}, Verdict.WAIT),
    ],
)
def test_slack(limit: int, settings: dict[str, float], verdict: Verdict) -> None:
    jobs = [running(4, 600), whole(1), small(2, limit)]
    step = plan(jobs, 4, "slack", **settings)
    assert step.plan.decisions[jobs[2].key].verdict is verdict
    assert starts(step)[1] == 600


def test_slack_is_used_up_once() -> None:
    """The bound is from the first promise, however often it has moved since."""
    jobs = [running(4, 600), whole(1)]
    ctx = context(backfill=BackfillSettings(kind="slack", max_slip_s=200))
    memory = decide(look(jobs, 4), ctx).memory
    other = job(98, gpus=2, on={"n1": 2}, end=NOW + 800)
    later = decide(look([*jobs, other], 6, now=NOW + 10), replace(ctx, memory=memory))
    assert starts(later)[1] == 800
    step = decide(look([*jobs, other, small(3, 785)], 6, now=NOW + 20),
                  replace(ctx, memory=later.memory))  # fmt: skip
    assert starts(step)[3] != 20
    assert step.memory.promises[jobs[1].key].held_s == NOW + 800


# -- learned run times -------------------------------------------------------------------


def guess(p50_s: float, p90_s: float) -> Estimate:
    return Estimate(p50_s / 2, p50_s, p90_s, p50_s, 9, "user")


@pytest.mark.parametrize(
    ("durations", "verdict"),
    [("limit", Verdict.WAIT), ("p50", Verdict.START), ("p90", Verdict.WAIT)],
)
def test_holes_are_planned_on_the_chosen_quantile(durations: str, verdict: Verdict) -> None:
    jobs = [running(4, 600), whole(1), small(2, 9000)]
    ctx = context(
        estimates={jobs[2].key: guess(300, 1000)}, backfill=BackfillSettings(durations=durations)
    )
    assert decide(look(jobs, 4), ctx).plan.decisions[jobs[2].key].verdict is verdict


@pytest.mark.parametrize(("slip", "limit", "verdict"), [
    (99, 9000, Verdict.START), (100, 9000, Verdict.WAIT), (100, 600, Verdict.START),
])  # fmt: skip
def test_after_its_slip_limits_count_around_a_promise(
    slip: int, limit: int, verdict: Verdict
) -> None:
    jobs = [running(4, 600), whole(1), small(2, limit)]
    prior = Promise(
        NOW + 600 - slip, NOW + 590, NOW + 590, (NodeShare("n1", 1, 0, 8),), jobs[1].request
    )
    ctx = context(
        estimates={jobs[2].key: guess(300, 1000)},
        memory=Memory(promises={jobs[1].key: prior}),
        backfill=BackfillSettings(durations="p50", max_slip_s=100),
    )
    step = decide(look(jobs, 4), ctx)
    assert step.plan.decisions[jobs[2].key].verdict is verdict
    assert step.plan.stats["slip_max_s"] == slip
    assert step.plan.stats["promises_guarded"] == (slip >= 100)


def test_an_overrun_moves_the_promise_by_growing_steps() -> None:
    jobs = [replace(running(8, 99_000), start_s=NOW), whole(1)]
    ctx = context(
        estimates={jobs[0].key: guess(100, 200)}, backfill=BackfillSettings(durations="p50")
    )
    memory, promised = Memory(), []
    for at in (0, 50, 110, 170, 410):
        step = decide(look(jobs, 8, now=NOW + at), replace(ctx, memory=memory))
        memory = step.memory
        promised.append(starts(step)[1])
    assert promised == [100, 100, 160, 400, 1000]
    assert memory.promises[JobKey(1, NOW - 999)].slip_s == 900


def test_a_reservation_ahead_is_kept_by_limits_as_slurm_does() -> None:
    window = Reservation("maint", NOW + 1000, NOW + 5000, ("n1",))
    jobs = [small(1, 2000)]
    ctx = context(
        estimates={jobs[0].key: guess(100, 200)}, backfill=BackfillSettings(durations="p50")
    )
    decision = decide(look(jobs, 0, reservations=[window]), ctx).plan.decisions[jobs[0].key]
    assert decision.reasons[0].code == "reservation_window"
    assert dict(decision.reasons[0].facts)["limit_s"] == 1000
    assert decision.start_s == NOW + 5000
