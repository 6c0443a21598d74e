"""A queue of mixed jobs ends COMPLETED under each policy and mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live import soon

from .harness import Daemon, Slurm, share_line

pytestmark = pytest.mark.slurm

POLICIES = ("fifo", "sjf", "multifactor")
FIELDS = ("Priority", "EligibleTime", "ReqNodeList", "ExcNodeList", "AdminComment", "Comment")


def mixed(slurm: Slurm) -> list[int]:
    """Twelve submissions, 60 GPUs for 32: sizes, an array, two nodes at once."""
    begin = soon(3)
    one = ("--cpus-per-task=1", "--mem=100")
    wishes: tuple[tuple[tuple[str, ...], float], ...] = (
        (("--gpus-per-node=8", "--time=4"), 2),
        (("--gpus-per-node=8", "--nodes=2", "--time=3"), 2),
        (("--gpus-per-node=4", "--time=2"), 1),
        (("--gpus-per-node=1", "--time=5"), 1),
        (("--gpus-per-node=3", "--time=1"), 2),
        (("--gpus-per-node=1", "--array=0-3", "--time=2"), 1),
        (("--gpus-per-node=8", "--time=1"), 1),
        (("--gpus=2", "--time=1"), 1),
        (("--gpus-per-node=4", "--nodes=2", "--time=2"), 1),
        (("--gpus-per-task=1", "--ntasks=2", "--time=1"), 1),
        (("--gpus-per-node=1", "--time=3"), 2),
        (("--gpus-per-node=2", "--time=1"), 1),
    )
    return [slurm.submit(begin, *one, *options, run_s=run_s) for options, run_s in wishes]


def report(beside: Daemon, policy: str, mode: str) -> None:
    sent = [a["lever"] for a in beside.actions()]
    kinds = ", ".join(f"{lever} {sent.count(lever)}" for lever in sorted(set(sent)))
    print(
        f"\n[{policy} {mode}] {share_line(beside.starts())}; {len(sent)} patches: {kinds}", end=""
    )


def test_observe_touches_nothing(slurm: Slurm, daemon: Callable[..., Daemon]) -> None:
    """Three daemons, one a policy, look at the same queue."""
    beside = {policy: daemon(mode="observe", policy__name=policy) for policy in POLICIES}
    rpcs = slurm.rpc_counts()
    jobs = mixed(slurm)
    before = {job: slurm.show(job, *FIELDS) for job in jobs}
    slurm.wait_completed(jobs, 60)
    for policy, one in beside.items():
        one.wait_cycles(2)
        report(one, policy, "observe")
        assert one.actions() == []
        assert {row["job_id"] for row in one.starts()} >= set(jobs)
        assert all(row["same_nodes"] or row["why"] for row in one.starts())
    assert {job: slurm.show(job, *FIELDS) for job in jobs} == before
    updates = "REQUEST_UPDATE_JOB"
    assert slurm.rpc_counts().get(updates, 0) == rpcs.get(updates, 0)


@pytest.mark.parametrize("policy", POLICIES)
def test_order_only_ranks(slurm: Slurm, daemon: Callable[..., Daemon], policy: str) -> None:
    beside = daemon(mode="order", policy__name=policy)
    jobs = mixed(slurm)
    slurm.wait_completed(jobs, 60)
    beside.wait_cycles(2)
    report(beside, policy, "order")
    assert {a["lever"] for a in beside.actions()} <= {"rank"}
    assert beside.errors() == []
    assert all(row["same_nodes"] or row["why"] for row in beside.starts())


@pytest.mark.parametrize("policy", POLICIES)
def test_enforce_records_every_start(
    slurm: Slurm, daemon: Callable[..., Daemon], policy: str
) -> None:
    beside = daemon(mode="enforce", policy__name=policy)
    jobs = mixed(slurm)
    slurm.wait_completed(jobs, 60)
    beside.wait_cycles(2)
    report(beside, policy, "enforce")
    starts = beside.starts()
    assert beside.errors() == []
    assert slurm.held() == []
    assert all(row["same_nodes"] or row["why"] for row in starts)
    missing = set(jobs) - {row["job_id"] for row in starts}
    assert not missing, slurm.describe(sorted(missing))
    assert len(starts) == len(jobs) + 3  # the array's other tasks
    single = [row for row in starts if row["why"] != "array_task"]
    # The first blocked job is left visible to Slurm, which may place it by itself.
    assert sum(row["same_nodes"] for row in single) >= 0.8 * len(single)


@pytest.mark.parametrize("policy", ["fifo", "sjf"])
def test_starts_follow_the_planned_order(
    slurm: Slurm, daemon: Callable[..., Daemon], tmp_path: Path, policy: str
) -> None:
    """Jobs that each fill their partition, in mode order on one and enforce on the other."""
    beside = daemon(mode="order", partitions__late__mode="enforce", policy__name=policy,
                    backfill__kind="none")  # fmt: skip
    whole = ("--nodes=2", "--gpus-per-node=8", "--cpus-per-task=1", "--mem=100")
    gate = tmp_path / "gate"
    first = [
        slurm.submit(f"--partition={name}", *whole, "--time=4", until=gate)
        for name in ("early", "late")
    ]
    slurm.wait_state(first, {"RUNNING"}, 20)
    limits = (5, 3, 7, 1)
    jobs = {
        name: {slurm.submit(f"--partition={name}", *whole, f"--time={n}"): n for n in limits}
        for name in ("early", "late")
    }
    beside.wait_seen([*jobs["early"], *jobs["late"]])
    beside.wait_cycles(2)
    gate.touch()
    slurm.wait_completed([*jobs["early"], *jobs["late"]], 60)
    for name, mine in jobs.items():
        started = sorted(mine, key=lambda job: slurm.show(job, "StartTime")["StartTime"])
        sent = [a for a in beside.actions() if a["job_id"] in mine]
        wanted = sorted(mine, key=mine.__getitem__ if policy == "sjf" else int)
        assert started == wanted, (name, sent)
