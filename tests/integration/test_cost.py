"""What an unchanged queue costs the controller: reads only."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.live import soon

from .harness import Daemon, Slurm, wait_for

pytestmark = pytest.mark.slurm

CYCLES = 8
UPDATES = ("REQUEST_UPDATE_JOB", "REQUEST_SUSPEND", "REQUEST_JOB_REQUEUE")


def test_unchanged_queue_costs_no_update(slurm: Slurm, daemon: Callable[..., Daemon]) -> None:
    full = ("--cpus-per-task=1", "--mem=100", "--gpus-per-node=8")
    filler = [slurm.submit(*full, "--time=9", run_s=100) for _ in range(4)]
    slurm.wait_state(filler, {"RUNNING"}, 20)
    beside = daemon(policy__name="sjf")
    waiting = [
        slurm.submit(
            f"--gpus-per-node={1 + n % 8}", "--cpus-per-task=1", "--mem=100", f"--time={1 + n % 20}"
        )
        for n in range(30)
    ]
    beside.wait_seen(waiting)

    def quiet() -> bool:
        rows = beside.rows("SELECT counts FROM cycle ORDER BY cycle DESC LIMIT 3")
        return len(rows) == 3 and all(json.loads(row["counts"])["sent"] == 0 for row in rows)

    wait_for(quiet, 20, "three quiet cycles", lambda: [a["why"] for a in beside.actions()])
    sent, first = len(beside.actions()), beside.cycle()
    before = slurm.rpc_counts()
    wait_for(lambda: beside.cycle() >= first + CYCLES, 40, f"{CYCLES} cycles", beside.log)
    after, cycles = slurm.rpc_counts(), beside.cycle() - first
    grown = {k: n - before.get(k, 0) for k, n in after.items() if n > before.get(k, 0)}
    took = [r["durations_s"] for r in beside.rows("SELECT durations_s FROM cycle LIMIT 3")]
    print(f"\nRPCs in {cycles} quiet cycles (2 sdiag calls are the test's): {grown}")
    print("per cycle: " + ", ".join(f"{k} {n / cycles:.1f}" for k, n in sorted(grown.items())))
    print(f"first cycles took {took}")
    assert len(beside.actions()) == sent
    assert not set(grown) & set(UPDATES)


def test_standing_leases_cost_one_renewal_a_lease(
    slurm: Slurm, daemon: Callable[..., Daemon]
) -> None:
    """Four jobs are held back by leases of 30 s: nothing is written until they are due."""
    beside = daemon(policy__name="fifo")
    whole = ("--nodes=4", "--cpus-per-task=1", "--mem=100")
    filler = slurm.submit(*whole, "--gpus-per-node=6", "--time=9", run_s=100)
    slurm.wait_state([filler], {"RUNNING"}, 20)
    slurm.submit(*whole, "--gpus-per-node=8", soon(2))
    small = [slurm.submit("--gpus-per-node=1", "--mem=100", "--time=30", soon(2)) for _ in range(4)]
    wait_for(lambda: set(slurm.marked()) >= set(small), 20, "leases on all four", beside.log)
    beside.wait_cycles(2)
    sent = beside.actions()
    before, first = slurm.rpc_counts(), beside.cycle()
    beside.wait_cycles(CYCLES, 40)
    after = slurm.rpc_counts()
    print(f"\n{beside.cycle() - first} cycles, 4 leases of 30 s: "
          f"{len(beside.actions()) - len(sent)} patches, REQUEST_UPDATE_JOB +"
          f"{after.get(UPDATES[0], 0) - before.get(UPDATES[0], 0)}")  # fmt: skip
    assert len(beside.actions()) - len(sent) <= len(small)
    assert beside.errors() == []
