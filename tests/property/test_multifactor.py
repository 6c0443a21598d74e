"""Invariants of the weighted order and of preemption plans on random queues."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.engine.cycle import decide
from slurm_ext.engine.settings import Context, PreemptionSettings
from slurm_ext.model.annotation import Annotation, Checkpoint
from slurm_ext.model.decision import Verdict
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.observation import Observation
from slurm_ext.policies import get
from tests.builders import NOW, context
from tests.property.test_decide import clusters

HOUR_S = 3600


@st.composite
def queues(draw: st.DrawFn) -> tuple[Observation, Context]:
    """A cluster whose jobs have waited long or not, with estimates and annotations here and there.

    The random number generator is drawn, so equal draws give equal queues.
    """
    obs, rng = draw(clusters()), Random(draw(st.integers(0, 2**32)))
    jobs = [
        replace(j, key=j.key._replace(submit_s=NOW - rng.choice([10, 50_000, 200_000])),
                deadline_s=rng.choice([None, None, NOW + 900, NOW - 5]))
        if j.state.pending
        else replace(j, start_s=NOW - rng.choice([600, 7200, 7200, 7200]),
                     requeueable=rng.choice([True, True, True, True, False, None]))
        for j in obs.jobs
    ]  # fmt: skip
    ends = [replace(j, end_s=NOW + 8 * HOUR_S) if j.state.running else j for j in jobs]
    jobs = ends if rng.random() < 0.7 else jobs
    annotations = {
        j.key: Annotation(
            preemptible=j.state.running and rng.random() < 0.8, debug=rng.random() < 0.4,
            deadline_s=rng.choice([0, NOW + 5000]),
            checkpoint=Checkpoint(signal=rng.choice(["", "USR1"]), interval_s=rng.choice([0, 300])),
        )
        for j in jobs if j.state.running or rng.random() < 0.5
    }  # fmt: skip
    seconds = {j.key: float(rng.choice([60, 4000])) for j in jobs if rng.random() < 0.5}
    ctx = context(
        "multifactor", annotations=annotations, preemption=PreemptionSettings(enabled=True, jobs=3),
        estimates={k: Estimate(s, s, 2 * s, s, 3, "user") for k, s in seconds.items()},
        attained_gpu_s={j.key: 500.0 for j in jobs if rng.random() < 0.2},
    )  # fmt: skip
    policy = get("multifactor").with_parameters({"max_wait_s": 100_000.0, "lane_gpus": 3})
    return replace(obs, jobs=tuple(jobs)), replace(ctx, policy=policy)


RANDOM = settings(max_examples=100)


@RANDOM
@given(queues(), st.randoms(use_true_random=False))
def test_input_order_does_not_matter(queue: tuple[Observation, Context], random: Random) -> None:
    obs, ctx = queue
    jobs = list(obs.jobs)
    random.shuffle(jobs)
    assert decide(obs, ctx).plan == decide(replace(obs, jobs=tuple(jobs)), ctx).plan


@RANDOM
@given(queues())
def test_who_waited_too_long_is_first_in_the_order_of_waiting(
    queue: tuple[Observation, Context],
) -> None:
    plan = decide(*queue).plan
    waited = [NOW - key.submit_s for key in plan.order]
    overdue = [w for w in waited if w >= 100_000]
    assert waited[: len(overdue)] == sorted(overdue, reverse=True)


@RANDOM
@given(queues())
def test_only_what_may_be_requeued_is_a_victim(queue: tuple[Observation, Context]) -> None:
    obs, ctx = queue
    jobs = {j.key: j for j in obs.jobs}
    plan = decide(obs, ctx).plan
    claimed = [v.key for p in plan.preempt if p.worth for v in p.victims]
    assert len(claimed) == len(set(claimed))
    for proposal in plan.preempt:
        assert plan.decisions[proposal.key].verdict is Verdict.WAIT
        for victim in proposal.victims:
            job = jobs[victim.key]
            assert job.state.running
            assert job.requeueable
            assert ctx.annotations[victim.key].preemptible
            assert NOW - (job.start_s or NOW) >= ctx.preemption.min_runtime_s
        cost = sum(v.lost_gpu_s + v.grace_gpu_s + v.restart_gpu_s for v in proposal.victims)
        assert proposal.cost_gpu_s == cost
        if proposal.worth:
            assert proposal.gain_gpu_s >= ctx.preemption.min_gain * cost


@RANDOM
@given(queues())
def test_planning_preemption_decides_nothing(queue: tuple[Observation, Context]) -> None:
    obs, ctx = queue
    plan = decide(obs, ctx).plan
    off = decide(obs, replace(ctx, preemption=PreemptionSettings())).plan
    assert replace(plan, preempt=()) == off
