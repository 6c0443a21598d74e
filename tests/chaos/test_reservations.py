"""Reservations of ours after the death of the daemon: found by name, and short."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

import pytest

from tests.chaos.rig import Frail, Queue, Wish, read
from tests.integration.harness import Slurm, field, wait_for

pytestmark = pytest.mark.slurm

Make = Callable[..., Frail]
LEASE_S = 70


def reserved(slurm: Slurm) -> dict[str, str]:
    """Name -> record, as ``scontrol show reservation`` prints it."""
    lines = slurm.run("scontrol", "-o", "show", "reservation").stdout.splitlines()
    return {field(x, "ReservationName"): x for x in lines if "ReservationName=slurm_ext_" in x}


def promised(slurm: Slurm, beside: Frail, point: str = "") -> Queue:
    """All nodes are taken for at most a minute; a job of two nodes is next."""
    queue = Queue(slurm)
    block = queue.add(Wish(nodes=4), "--gpus-per-node=8", run_s=55)
    slurm.wait_state([block], {"RUNNING"}, 15)
    queue.add(Wish(nodes=2), "--gpus-per-node=8")
    beside.launch(point)
    if point:
        assert beside.wait_dead(20) == 9, beside.log()
    else:
        wait_for(lambda: reserved(slurm), 20, "a reservation", beside.log)
        beside.kill()
    return queue


@pytest.fixture
def beside(frail: Make) -> Frail:
    return frail(levers__lease_s=LEASE_S, levers__reserve_min_nodes=2, levers__frontier="wide")


@pytest.mark.parametrize("ledger", ["kept", "lost"])
def test_recover_deletes_our_reservations(slurm: Slurm, beside: Frail, ledger: str) -> None:
    queue = promised(slurm, beside, "reserve:after:1" if ledger == "lost" else "")
    assert reserved(slurm)
    if ledger == "lost":
        beside.lose_ledger()
    foreign = ("ReservationName=slurmX_ops", "StartTime=now+600", "Duration=5", "Nodes=n4")
    slurm.run("scontrol", "create", "reservation", *foreign, "Users=root")
    try:
        beside.command("recover", "--fail-open")
        assert reserved(slurm) == {}
        assert queue.left_behind(read(slurm)) == []
        assert "slurmX_ops" in slurm.run("scontrol", "show", "reservation").stdout
    finally:
        slurm.run("scontrol", "delete", "ReservationName=slurmX_ops")


def test_a_reservation_ends_by_itself(slurm: Slurm, beside: Frail) -> None:
    """At most a lease ahead, at most a lease long; Slurm counts whole minutes."""
    promised(slurm, beside)
    for record in reserved(slurm).values():
        end_s = datetime.fromisoformat(field(record, "EndTime")).timestamp()
        assert end_s - time.time() <= 2 * LEASE_S + 60, record
        assert "NO_HOLD_JOBS_AFTER" in record


def test_a_restart_keeps_a_reservation_that_is_wanted(slurm: Slurm, beside: Frail) -> None:
    promised(slurm, beside)
    before = reserved(slurm)
    beside.start()
    beside.wait_cycles(2)
    assert reserved(slurm) == before
    assert len(before) == 1
