"""What the writer sends and when it refuses to, with a scontrol that only listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.errors import SlurmUnavailableError
from slurm_ext.model.decision import JobPatch, Lever
from slurm_ext.model.job import BaseState, Job, JobKey, JobState
from slurm_ext.model.ledger import UndoNote, render_note
from slurm_ext.slurm.run import Answer, Runner
from slurm_ext.slurm.writer import Writer
from tests import builders


class Listener(Runner):
    """Answers like scontrol and remembers the commands; ``says`` maps a command to its answer."""

    def __init__(self, says: Callable[[str], str] = lambda _: "", code: int = 0) -> None:
        super().__init__(environ={})
        self.says, self.code = says, code
        self.sent: list[str] = []
        self.processes = 0

    def run(self, argv: Sequence[str], *, stdin: str = "", **_: Any) -> Answer:
        self.processes += 1
        if not stdin:
            self.sent.append(" ".join(argv[1:]))
            return Answer(self.says(self.sent[-1]), "", self.code, 0.0)
        output = ""
        for line in stdin.splitlines():
            output += f"scontrol: {line}\n"
            if line.startswith("show hostnames "):
                output += line.removeprefix("show hostnames ") + "\n"
            else:
                self.sent.append(line)
                output += self.says(line)
        return Answer(output + "scontrol: \n", "", self.code, 0.0)


def writer(
    runner: Runner, *looks: Mapping[JobKey, Job], siblings: Sequence[Job] = (), batch: int = 200
) -> Writer:
    """``looks``: what one look after the other sees."""
    left = list(looks)
    return Writer(runner, lambda _: left.pop(0), lambda _: siblings, batch=batch)


def seen(*jobs: Job) -> dict[JobKey, Job]:
    return {one.key: one for one in jobs}


def pin(one: Job, **values: Any) -> JobPatch:
    return JobPatch(one.key, one.address, Lever.RELEASE, required_nodes=("n1",), **values)


WAITS = builders.job(1)
COMPLETED = JobState(BaseState.COMPLETED)
RUNS = builders.job(1, on={"n1": 1, "n2": 1}, nodes=2)
TWO_PARTITIONS = builders.job(1, partitions=("gpu", "cpu"), begin=1_800_000_000)


def test_a_pin_carries_the_start_guard() -> None:
    runner = Listener()
    assert writer(runner, seen(WAITS)).patch([pin(WAITS, begin_s=0)])[0].ok
    assert runner.sent == ["update JobId=1 Partition=gpu, StartTime=now ReqNodeList=n1"]


@pytest.mark.parametrize("look", [{}, seen(RUNS)])
def test_a_pin_is_not_sent_to_a_job_that_does_not_wait(look: dict[JobKey, Job]) -> None:
    runner = Listener()
    (outcome,) = writer(runner, look).patch([pin(WAITS)])
    assert (outcome.ok, outcome.benign) == (False, True)
    assert runner.sent == []


def test_clearing_a_pin_is_guarded_as_well() -> None:
    """On a running job it would be an error that looks serious ("Invalid node name")."""
    runner = Listener()
    patch = JobPatch(WAITS.key, "1", Lever.RELEASE, required_nodes=())
    assert writer(runner, seen(WAITS)).patch([patch])[0].ok
    assert runner.sent == ["update JobId=1 Partition=gpu, ReqNodeList="]
    (outcome,) = writer(runner, seen(RUNS)).patch([patch])
    assert (outcome.ok, outcome.benign) == (False, True)


def test_several_partitions_are_leased_first_and_get_their_begin_back() -> None:
    runner = Listener()
    one = TWO_PARTITIONS
    assert writer(runner, seen(one), seen(one)).patch([pin(one)])[0].ok
    assert runner.sent == [
        "update JobId=1 StartTime=now+30",
        "update JobId=1 StartTime=2027-01-15T08:00:00 ReqNodeList=n1",
    ]


def test_a_job_that_starts_before_the_guard_lease_is_left_alone() -> None:
    runner = Listener(lambda _: "Job is no longer pending execution for job 1\n")
    started = builders.job(1, partitions=("gpu",), on={"n1": 1, "n2": 1}, nodes=2)
    look = writer(runner, seen(TWO_PARTITIONS), seen(started))
    (outcome,) = look.patch([pin(TWO_PARTITIONS)])
    assert (outcome.ok, outcome.benign) == (False, True)
    assert not any("ReqNodeList" in line for line in runner.sent)


def test_foreign_text_goes_alone_and_in_order() -> None:
    runner = Listener()
    patches = [
        JobPatch(WAITS.key, "1", Lever.RANK, site_factor=1),
        JobPatch(WAITS.key, "1", Lever.LEASE, admin_comment="two words"),
        JobPatch(WAITS.key, "1", Lever.RANK, site_factor=2),
    ]
    theirs = replace(WAITS, admin_comment="two words")
    assert all(outcome.ok for outcome in writer(runner, seen(theirs)).patch(patches))
    assert runner.sent == [
        "update JobId=1 SiteFactor=1",
        "update JobId=1 AdminComment=two words",
        "update JobId=1 SiteFactor=2",
    ]
    assert runner.processes == 3


def test_what_another_tool_wrote_since_the_look_is_kept() -> None:
    runner = Listener()
    note = render_note(UndoNote(lease_until_s=5))
    patch = JobPatch(WAITS.key, "1", Lever.LEASE, admin_comment=note)
    fresh = replace(WAITS, admin_comment="theirs")
    assert writer(runner, seen(fresh)).patch([patch])[0].ok
    assert runner.sent == [f"update JobId=1 AdminComment=theirs {note}"]


def test_batches_are_bounded() -> None:
    runner = Listener(lambda line: "Invalid job id specified for job 1\n" if "=7" in line else "")
    patches = [JobPatch(WAITS.key, "1", Lever.RANK, site_factor=i) for i in range(25)]
    outcomes = writer(runner, batch=10).patch(patches)
    assert [o.benign for o in outcomes] == [i == 7 for i in range(25)]
    assert (len(runner.sent), runner.processes) == (25, 3)


def test_no_controller_is_an_error_and_not_an_outcome() -> None:
    runner = Listener(lambda _: "Unable to contact slurm controller (connect failure)\n", code=1)
    patch = JobPatch(WAITS.key, "1", Lever.RANK, site_factor=1)
    with pytest.raises(SlurmUnavailableError, match="slurmctld"):
        writer(runner).patch([patch])


def test_a_held_array_releases_its_running_tasks() -> None:
    runner = Listener()
    task = builders.job(
        9, on={"n1": 1}, priority=0, array_job_id=1, array_task_id=4, state="RUNNING"
    )
    rest = builders.job(1, array_job_id=1, array_tasks="5-9", priority=0)
    patch = JobPatch(WAITS.key, "1", Lever.HOLD, hold=True)
    assert writer(runner, seen(WAITS), siblings=[task, rest]).patch([patch])[0].ok
    assert runner.sent == ["hold 1", "release 1_4"]


@pytest.mark.parametrize("hold", [True, False])
@pytest.mark.parametrize("reason", ["JobHeldUser", "JobHoldMaxRequeue", "ReservationDeleted"])
def test_a_hold_of_someone_else_since_the_look_is_left_alone(hold: bool, reason: str) -> None:
    """A second hold by an operator takes the job from its owner; a release lifts any hold."""
    runner = Listener()
    theirs = replace(WAITS, priority=0, reason=reason, reason_text=reason)
    patch = JobPatch(WAITS.key, "1", Lever.HOLD, hold=hold, admin_comment="note")
    (outcome,) = writer(runner, seen(theirs)).patch([patch])
    assert (outcome.ok, outcome.benign) == (False, True)
    assert runner.sent == []


def test_our_own_hold_is_released() -> None:
    runner = Listener()
    ours = replace(WAITS, priority=0, reason="JobHeldAdmin", reason_text="JobHeldAdmin")
    patch = JobPatch(WAITS.key, "1", Lever.RELEASE, hold=False)
    assert writer(runner, seen(ours)).patch([patch])[0].ok
    assert runner.sent == ["release 1"]


REST = builders.job(1, array_job_id=1, array_tasks="0-2,4,6-9%2", array_count=8)
APART = builders.job(3, array_job_id=1, array_task_id=5, priority=0, reason="JobHeldUser")
RUNNING_TASK = builders.job(2, on={"n1": 1}, array_job_id=1, array_task_id=3)


@pytest.mark.parametrize(
    ("siblings", "address"),
    [([REST, RUNNING_TASK], "1"), ([REST, RUNNING_TASK, APART], "1_[0-2,4,6-9]")],
)
@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"begin_s": 0}, "update JobId={} StartTime=now"),
        ({"hold": True}, "hold {}"),
        ({"hold": False}, "release {}"),
    ],
)
def test_tasks_that_were_changed_apart_are_not_reached(
    siblings: list[Job], address: str, values: dict[str, Any], line: str
) -> None:
    """The plain id of an array would undo the owner's hold of one task, and its begin time."""
    runner = Listener()
    patch = JobPatch(REST.key, "1", Lever.LEASE, **values)
    assert writer(runner, seen(REST), siblings=siblings).patch([patch])[0].ok
    assert runner.sent == [line.format(address)]


@pytest.mark.parametrize("look", [{}, seen(WAITS), seen(replace(RUNS, state=COMPLETED))])
def test_only_what_runs_is_requeued(look: dict[JobKey, Job]) -> None:
    """Slurm would run a finished job again."""
    runner = Listener()
    (outcome,) = writer(runner, look).requeue([(WAITS.key, "1")])
    assert (outcome.ok, outcome.benign) == (False, True)
    assert runner.sent == []


def test_requeue_takes_the_jobs_own_address_only() -> None:
    runner = Listener()
    task = builders.job(9, on={"n1": 1}, array_job_id=1, array_task_id=4)
    look = seen(task)
    assert writer(runner, look).requeue([(task.key, "1_4")])[0].ok
    refused = writer(runner, look).requeue([(task.key, "1")])[0]
    assert (refused.ok, refused.benign) == (False, False)
    assert runner.sent == ["requeue Incomplete 1_4"]
