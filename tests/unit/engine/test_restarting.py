"""What a decision makes of restarts under way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_ext.engine.cycle import Step, decide
from slurm_ext.model.annotation import Annotation, Checkpoint
from slurm_ext.model.decision import Lever, Shape, Verdict
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.restart import Restart, RestartStage
from tests.builders import NOW, context, job, node, observation

SAVES = Annotation(preemptible=True, checkpoint=Checkpoint(signal="USR1", grace_s=60))
GAINER = 9
DELAY = {"begin": NOW + 110, "reason": "BeginTime", "restarts": 1, "submit": NOW - 10}


def restart(stage: RestartStage, **fields: object) -> Restart:
    values: dict[str, object] = {
        "key": JobKey(1, NOW - 1000), "address": "1", "stage": stage, "begun_s": NOW - 20,
        "since_s": NOW - 5, "gpus": 8, "run": 0, "gain_gpu_s": 1.0,
        "gainer": JobKey(GAINER, NOW - 50),
        "requeued_s": None if stage is RestartStage.SAVING else NOW - 10, **fields,
    }  # fmt: skip
    return Restart(**values)  # type: ignore[arg-type]


def resize(stage: RestartStage, gpus: int, **fields: object) -> Restart:
    return restart(stage, gainer=None, shape=Shape(1, gpus, 1, 1), **fields)


def step(
    one: Restart, *jobs: Job, used: int = 8, nodes: int = 1, ledger: tuple[LedgerEntry, ...] = ()
) -> Step:
    names = [f"n{i}" for i in range(1, nodes + 1)]
    there = [node(name, used=range(used) if name == "n1" else ()) for name in names]
    ctx = context(
        restarts=(one,), annotations={j.key: SAVES for j in jobs if j.job_id == 1},
        ledger={e.key: e for e in ledger},
    )  # fmt: skip
    return decide(observation(there, jobs), ctx)


def verdict(found: Step, one: Job) -> Verdict:
    return found.plan.decisions[one.key].verdict


def test_room_that_is_made_is_promised_to_the_gainer() -> None:
    victim = job(1, on={"n1": 8}, gpus=8, end=NOW + 9000)
    gainer, other = job(GAINER, gpus=8), job(2, gpus=8, submit=NOW - 5000)
    found = step(restart(RestartStage.SAVING), victim, gainer, other)
    assert found.plan.order[0] == gainer.key
    assert [(f.key, f.start_s) for f in found.plan.fences] == [(gainer.key, NOW + 60)]
    # Whoever could take the room is in our hands before it is there.
    leased = {p.key.job_id for p in found.plan.patches if p.lever is Lever.LEASE}
    assert leased >= {other.job_id}


def test_a_job_that_made_room_waits_for_the_gainer() -> None:
    victim, gainer = job(1, gpus=8, **DELAY), job(GAINER, gpus=8)
    found = step(restart(RestartStage.QUEUED), victim, gainer, used=0)
    assert verdict(found, gainer) is Verdict.START
    assert verdict(found, victim) is Verdict.INELIGIBLE


def test_a_ready_job_is_let_go_before_the_delay_of_slurm_ends() -> None:
    back = job(1, gpus=8, **DELAY)
    found = step(restart(RestartStage.QUEUED, ready=True), back, used=0)
    (patch,) = found.plan.patches
    assert (patch.lever, patch.begin_s, patch.required_nodes) == (Lever.RELEASE, 0, ("n1",))


def test_it_keeps_its_place_in_line() -> None:
    back, later = job(1, gpus=8, **DELAY), job(2, gpus=8, submit=NOW - 500)
    one = restart(RestartStage.QUEUED, ready=True, gainer=None)
    assert step(one, back, later).plan.order == (back.key, later.key)
    # Stopped for the second time: the first submission is not that of its key.
    twice = replace(one, key=JobKey(1, NOW - 100), first_submit_s=NOW - 1000)
    assert step(twice, back, later).plan.order == (back.key, later.key)
    assert step(replace(twice, first_submit_s=0), back, later).plan.order == (later.key, back.key)


@pytest.mark.parametrize("ready", [False, True])
def test_a_job_comes_back_in_its_new_shape_when_it_is_ready(ready: bool) -> None:
    back = job(1, gpus=2, **DELAY)
    waiting = job(2, gpus=8, submit=NOW - 5000)
    found = step(resize(RestartStage.QUEUED, 4, ready=ready), back, waiting, used=0)
    assert verdict(found, back) is Verdict.START
    assert verdict(found, waiting) is Verdict.WAIT
    patches = [p for p in found.plan.patches if p.key == back.key]
    assert [p.shape for p in patches] == ([Shape(1, 4, 1, 1)] if ready else [])


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"returned": True}, id="returned"),
        pytest.param({"shape": Shape(1, 4, 2, 1)}, id="cannot-be-written"),
    ],
)
def test_otherwise_it_comes_back_as_submitted(changed: dict[str, object]) -> None:
    back = job(1, gpus=2, **DELAY)
    one = replace(resize(RestartStage.QUEUED, 4, ready=True), **changed)
    found = step(one, back, used=0)
    assert [p.shape for p in found.plan.patches] == [None]


def test_after_a_start_in_vain_it_comes_back_as_submitted() -> None:
    back = job(1, gpus=2, **DELAY)
    entry = LedgerEntry(back.key, "1", lease_until_s=NOW + 110, failed_starts=1)
    found = step(resize(RestartStage.QUEUED, 4, ready=True), back, used=0, ledger=(entry,))
    assert {p.shape for p in found.plan.patches} == {None}


def test_what_stood_on_an_unready_job_is_not_forgotten() -> None:
    back = job(1, gpus=2, request=replace(job(1, gpus=2).request, required_nodes=("n1",)), **DELAY)
    old = LedgerEntry(JobKey(1, NOW - 1000), "1", pinned=("n1",), pinned_at_s=NOW - 900)
    found = step(resize(RestartStage.QUEUED, 4), back, used=0, ledger=(old,))
    assert found.gone == (old.key,)
    assert [e.pinned for e in found.entries if e.key == back.key] == [("n1",)]


@pytest.mark.parametrize("stage", [RestartStage.SAVING, RestartStage.ENDING])
def test_nobody_takes_the_room_a_job_is_to_grow_into(stage: RestartStage) -> None:
    running, small = job(1, on={"n1": 2}, gpus=2), job(2, gpus=6)
    alone = step(replace(restart(stage), gainer=None), running, small, used=2)
    assert verdict(alone, small) is Verdict.START
    growing = step(resize(stage, 8), running, small, used=2)
    assert verdict(growing, small) is Verdict.WAIT


def test_restarts_are_told_to_both_sides() -> None:
    victim, gainer = job(1, on={"n1": 8}, gpus=8), job(GAINER, gpus=8)
    decisions = step(restart(RestartStage.SAVING), victim, gainer).plan.decisions
    assert decisions[victim.key].reasons[0].code == "restarting"
    assert decisions[gainer.key].reasons[0].code == "gets_room"
