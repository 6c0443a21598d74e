"""A queue of mixed jobs ends COMPLETED under each policy and mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .harness import Daemon, Slurm, share_line

pytestmark = pytest.mark.slurm

POLICIES = ("fifo", "sjf", "multifactor")
FIELDS = ("Priority", "EligibleTime", "ReqNodeList", "ExcNodeList", "AdminComment", "Comment")


def mixed(slurm: Slurm) -> list[int]:
    """Twelve submissions, 60 GPUs for 32: sizes, an array, two nodes at once."""
    begin = "--begin=now+3"
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


@pytest.mark.parametrize("mode", ["observe", "order", "enforce"])
@pytest.mark.parametrize("policy", POLICIES)
def test_mixed_queue_completes(
    slurm: Slurm, daemon: Callable[..., Daemon], policy: str, mode: str
) -> None:
    beside = daemon(mode=mode, policy__name=policy)
    rpcs = slurm.rpc_counts()
    jobs = mixed(slurm)
    before = {job: slurm.show(job, *FIELDS) for job in jobs}
    slurm.wait_completed(jobs, 60)
    beside.wait_cycles(2)
    starts = beside.starts()
    sent = [a["lever"] for a in beside.actions()]
    print(f"\n[{policy} {mode}] {share_line(starts)}; {len(sent)} patches: "
          + ", ".join(f"{lever} {sent.count(lever)}" for lever in sorted(set(sent))))  # fmt: skip
    assert beside.errors() == []
    assert slurm.held() == []
    assert beside.marks() == []
    assert all(row["same_nodes"] or row["why"] for row in starts)
    if mode == "observe":
        assert sent == []
        assert {job: slurm.show(job, *FIELDS) for job in jobs} == before
        updates = "REQUEST_UPDATE_JOB"
        assert slurm.rpc_counts().get(updates, 0) == rpcs.get(updates, 0)
    if mode == "order":
        assert set(sent) <= {"rank"}
    if mode == "enforce":
        started = {row["job_id"] for row in starts}
        missing = set(jobs) - started
        assert not missing, slurm.describe(sorted(missing))
        assert len(starts) == len(jobs) + 3  # the array's other tasks
