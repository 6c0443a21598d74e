"""defer = "hold" does not lapse by itself: no death may leave a hold that nobody knows of."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from tests.chaos.rig import Frail, Queue, Wish, choice, read
from tests.integration.harness import Slurm, wait_for

pytestmark = pytest.mark.slurm

Make = Callable[..., Frail]


POINTS = ("cut:after:hold ", "commit_intents:after:hold=False", "cut:before:release ")
LEDGER = ("kept", "lost")
AFTER = ("recover", "restart", "cycle")


def dies_while(slurm: Slurm, beside: Frail, point: str) -> Queue:
    """Two held jobs behind one on all nodes, which ends: one release at least is due."""
    queue = Queue(slurm)
    block = queue.add(Wish(nodes=4), "--gpus-per-node=8", run_s=300)
    slurm.wait_state([block], {"RUNNING"}, 15)
    for _ in range(2):
        queue.add(Wish(), "--gpus-per-node=8")
    beside.launch(point)
    if "hold " not in point:
        wait_for(lambda: len(slurm.held()) == 2, 20, "both held", beside.log)
        slurm.run("scancel", str(block))
    assert beside.wait_dead(20) == 9, beside.log()
    assert slurm.held()
    return queue


@pytest.mark.parametrize(("point", "ledger", "after"), choice(product(POINTS, LEDGER, AFTER), 5))
def test_no_hold_is_forgotten(
    slurm: Slurm, frail: Make, point: str, ledger: str, after: str
) -> None:
    beside = frail(levers__defer="hold", levers__frontier="wide")
    queue = dies_while(slurm, beside, point)
    if ledger == "lost":
        beside.lose_ledger()
    if after == "recover":
        beside.command("recover", "--fail-open")
    elif after == "cycle":
        beside.command("cycle", "--set", "mode=observe")
        beside.command("cycle", "--set", "mode=observe")
    else:
        beside.start()
        slurm.run("scancel", str(min(queue.wishes)))
        slurm.wait_completed([job for job in queue.wishes if job != min(queue.wishes)], 20)
    assert slurm.held() == [], queue.left_behind(read(slurm))


@pytest.mark.parametrize(
    "point", choice(["cut:after:release ", "patch:after:1", "patch:before:2"], 3)
)
def test_recover_may_die_as_well(slurm: Slurm, frail: Make, point: str) -> None:
    beside = frail(levers__defer="hold", levers__frontier="wide")
    queue = dies_while(slurm, beside, "patch:before:hold=False")
    beside.launch(point, None, "recover", "--fail-open")
    assert beside.wait_dead(20) == 9, beside.log()
    beside.command("recover", "--fail-open")
    assert queue.left_behind(read(slurm)) == []


def held_by_us(slurm: Slurm, beside: Frail) -> tuple[int, Queue]:
    """A job on all nodes, and two that the daemon holds; it lives."""
    queue = Queue(slurm)
    block = queue.add(Wish(nodes=4), "--gpus-per-node=8", run_s=300)
    slurm.wait_state([block], {"RUNNING"}, 15)
    for _ in range(2):
        queue.add(Wish(), "--gpus-per-node=8")
    beside.start()
    wait_for(lambda: len(slurm.held()) == 2, 20, "both held", beside.log)
    beside.wait_cycles(1)
    return block, queue


@pytest.mark.parametrize("way", ["stop", "recover", "cycle"])
def test_holds_without_notes_are_given_back(slurm: Slurm, frail: Make, way: str) -> None:
    """The ledger alone must do where AdminComment is not to be written."""
    beside = frail(levers__defer="hold", levers__frontier="wide", levers__undo_notes="off")
    _, queue = held_by_us(slurm, beside)
    if way == "stop":
        beside.stop()
    else:
        beside.kill()
        words = (
            ("recover", "--fail-open") if way == "recover" else ("cycle", "--set", "mode=observe")
        )
        beside.command(*words)
    assert queue.left_behind(read(slurm)) == []


def test_a_note_that_was_overwritten_keeps_no_job_held(slurm: Slurm, frail: Make) -> None:
    """Another tool writes its own AdminComment over our note; the ledger still knows."""
    beside = frail(levers__defer="hold", levers__frontier="wide")
    block, queue = held_by_us(slurm, beside)
    jobs = [job for job in queue.wishes if job != block]
    for job in jobs:
        slurm.update(job, AdminComment="ticket-7")
        queue.wishes[job].admin_comment = "ticket-7"
    beside.wait_cycles(2)
    slurm.run("scancel", str(block))
    slurm.wait_completed(jobs, 25)


def test_recover_lifts_a_hold_whose_note_was_overwritten(slurm: Slurm, frail: Make) -> None:
    beside = frail(levers__defer="hold", levers__frontier="wide")
    block, queue = held_by_us(slurm, beside)
    beside.kill()
    for job in queue.wishes:
        if job != block:
            slurm.update(job, AdminComment="ticket-7")
            queue.wishes[job].admin_comment = "ticket-7"
    beside.command("recover", "--fail-open")
    assert queue.left_behind(read(slurm)) == []
