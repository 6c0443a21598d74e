"""The number of nodes of jobs that have run, which Slurm does not show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_ext.engine.cycle import decide
from slurm_ext.engine.nodes import with_nodes
from slurm_ext.engine.settings import Memory, PreemptionSettings
from slurm_ext.model.annotation import Annotation, Checkpoint, Scaling, Speed
from slurm_ext.model.decision import Shape
from slurm_ext.model.job import Job
from slurm_ext.model.ledger import LedgerEntry, UndoNote, with_note
from tests.builders import context, job, node, observation

WIDE, NARROW = Shape(2, 8, 2, 2), Shape(1, 8, 1, 1)
ELASTIC = Annotation(
    Scaling("elastic", 1, 16), checkpoint=Checkpoint(signal="USR1", restart_s=1), work=1e4,
    speed=Speed(table=((1, 1.0), (16, 16.0))),
)  # fmt: skip


def ran(
    *, nodes: int, tasks: int, most: int | None = None, restarts: int = 1, **fields: object
) -> Job:
    """A job of 8 GPUs a node as Slurm shows it."""
    found = job(7, gpus=8, nodes=nodes, cpus=tasks, restarts=restarts, **fields)  # type: ignore[arg-type]
    request = replace(found.request, tasks=tasks, cpus_per_task=1, nodes_max=most)
    return replace(found, request=request, requeueable=True)


def entry(found: Job, ours: Shape | None, before: Shape | None) -> LedgerEntry:
    return LedgerEntry(found.key, found.address, shape=ours, original_shape=before)


@pytest.mark.parametrize(
    ("shown", "ours", "before", "expected"),
    [
        (ran(nodes=1, tasks=1), NARROW, WIDE, (1, 1)),
        (ran(nodes=1, tasks=2), NARROW, WIDE, (2, 2)),  # given back since, shown as it ran
        (ran(nodes=2, tasks=1), NARROW, WIDE, (1, 1)),  # made smaller since
        (ran(nodes=3, tasks=5), NARROW, WIDE, (3, 3)),  # changed by its user
        (ran(nodes=1, tasks=2, most=2), NARROW, WIDE, (1, 2)),  # Slurm tells
        (ran(nodes=1, tasks=2, restarts=0), NARROW, WIDE, (1, None)),
        (ran(nodes=1, tasks=1, on={"n1": 8}), NARROW, WIDE, (1, 1)),
        (ran(nodes=2, tasks=2), None, None, (2, None)),
    ],
)
def test_a_job_in_another_shape(
    shown: Job, ours: Shape | None, before: Shape | None, expected: tuple[int, int | None]
) -> None:
    ledger = {shown.key: entry(shown, ours, before)}
    (found,) = with_nodes(observation([node("n1")], [shown]), ledger).jobs
    assert (found.request.nodes_min, found.request.nodes_max) == expected


def test_the_note_says_it_where_the_ledger_is_lost() -> None:
    note = with_note("", UndoNote(shape=NARROW, original_shape=WIDE))
    shown = ran(nodes=1, tasks=2, admin_comment=note)
    (found,) = with_nodes(observation([node("n1")], [shown]), {}).jobs
    assert found.request.nodes_max == 2


def test_a_job_as_submitted_is_known_from_when_it_waited() -> None:
    waiting = ran(nodes=1, tasks=8, most=1, restarts=0)
    nodes = [node("n1"), node("n2", states=("DOWN",))]
    memory = Memory()
    for shown in (waiting, ran(nodes=1, tasks=8, on={"n1": 8}, restarts=0)):
        ctx = context("doubling", annotations={shown.key: ELASTIC}, memory=memory)
        memory = decide(observation(nodes, [shown]), ctx).memory
        assert memory.fixed_nodes == {7}
    again = replace(
        ran(nodes=1, tasks=8), key=waiting.key._replace(submit_s=waiting.key.submit_s + 9)
    )
    (found,) = with_nodes(observation(nodes, [again]), {}, memory.fixed_nodes).jobs
    assert found.request.nodes_max == 1
    ctx = context("doubling", annotations={waiting.key: ELASTIC}, memory=memory)
    other = replace(waiting, request=replace(waiting.request, nodes_max=None))  # the id used again
    assert decide(observation(nodes, [other]), ctx).memory.fixed_nodes == set()


def test_a_running_job_of_two_nodes_grows_to_both() -> None:
    shown = ran(nodes=1, tasks=1, on={"n2": 8}, restarts=0, end=2_000_000)
    ctx = context(
        "doubling", annotations={shown.key: ELASTIC},
        preemption=PreemptionSettings(min_runtime_s=0),
        ledger={shown.key: entry(shown, NARROW, WIDE)},
    )  # fmt: skip
    nodes = [node("n1"), node("n2", used=range(8))]
    (wanted,) = decide(observation(nodes, [shown]), ctx).plan.resizes
    assert wanted.shape == WIDE
