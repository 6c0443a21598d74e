"""Reservations that guard a promise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_ext.engine.cycle import Step, decide
from slurm_ext.engine.reserve import job_id_of, name_for
from slurm_ext.engine.settings import LeverSettings
from slurm_ext.model.decision import Mode
from slurm_ext.model.job import JobKey
from slurm_ext.model.observation import Reservation
from tests.builders import NOW, context, job, node, observation

LEVERS = LeverSettings(reserve_min_nodes=2, lease_s=300)
NAME = name_for(JobKey(1, NOW - 50))


def step_with(
    *reservations: Reservation, levers: LeverSettings = LEVERS, mode: Mode = Mode.ENFORCE,
    gpus: int = 8, end: int = NOW + 100,
) -> Step:  # fmt: skip
    jobs = [job(9, gpus=4, on={"n1": 4}, end=end), job(1, gpus=gpus, nodes=2, submit=NOW - 50)]
    obs = observation([node("n1", used=range(4)), node("n2")], jobs, reservations=reservations)
    return decide(obs, context(levers=levers, mode=mode))


def existing(nodes: tuple[str, ...] = ("n1", "n2"), name: str = NAME) -> Reservation:
    return Reservation(name, NOW + 100, NOW + 400, nodes, users=("u1",))


def test_whole_promised_nodes_are_reserved_for_the_jobs_user() -> None:
    spec = step_with().plan.reserve[0]
    assert (spec.name, spec.nodes, spec.users) == (NAME, ("n1", "n2"), ("u1",))
    assert spec.start_s == NOW + 100
    assert {"MAGNETIC", "NO_HOLD_JOBS_AFTER"} <= set(spec.flags)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"levers": LeverSettings()}, id="off-by-default"),
        pytest.param({"levers": replace(LEVERS, reserve_min_nodes=3)}, id="too-few-nodes"),
        pytest.param({"gpus": 6}, id="parts-of-nodes"),
        pytest.param({"end": NOW + 301}, id="too-far-ahead"),
        pytest.param({"mode": Mode.ORDER}, id="not-enforced"),
    ],
)
def test_otherwise_nothing_is_reserved(changes: dict) -> None:  # type: ignore[type-arg]
    assert step_with(**changes).plan.reserve == ()


def test_what_exists_is_left_alone_and_does_not_block_its_own_job() -> None:
    step = step_with(existing())
    assert (step.plan.reserve, step.plan.unreserve) == ((), ())
    assert step.plan.fences[0].start_s == NOW + 100


def test_other_nodes_than_planned_are_given_up() -> None:
    assert step_with(existing(("n1",))).plan.unreserve == (NAME,)


def test_a_reservation_without_its_promise_is_deleted() -> None:
    assert step_with(existing(name="slurm_ext_77_5")).plan.unreserve == ("slurm_ext_77_5",)


def test_foreign_reservations_are_never_deleted() -> None:
    assert step_with(existing(name="maint")).plan.unreserve == ()
    assert job_id_of("maint") is None
    assert job_id_of("slurm_ext_x") is None


def test_other_jobs_keep_off_the_reserved_nodes() -> None:
    obs = observation(
        [node("n1"), node("n2")], [job(5, gpus=1, limit=3600)], reservations=[existing()]
    )
    step = decide(obs, context(levers=LEVERS))
    assert step.plan.decisions[JobKey(5, NOW - 1000)].verdict == "wait"
