"""Annotated jobs in another shape on a real Slurm: GPU counts by doubling, CPUs by synergy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from minislurm import NodeGroup, Spec

from tests.chaos.rig import Frail
from tests.live import soon

from .conftest import running
from .harness import Daemon, Slurm, wait_for
from .training import ELASTIC, ON, Trainer, outcome

pytestmark = pytest.mark.slurm

SPEC = Spec(
    name="allotted",
    groups=(NodeGroup(name="n", count=2),),
    sched="tuned",
    priority="multifactor",
)
FAST = "speed=1:1/8:8"
MOLDABLE = f"scaling=moldable,gpus=1..8,{FAST},work=8"
OVER_NODES = ELASTIC.replace("1..8", "1..16") + ",speed=1:1/16:16"
SHOWS = "env | grep -E '^SLURM_(GPUS_ON_NODE|CPUS_ON_NODE|CPUS_PER_TASK|JOB_NUM_NODES)=' >{out}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    with running(SPEC) as slurm:
        yield slurm


@pytest.fixture
def slurm(cluster: Slurm) -> Slurm:
    """Two nodes of 8 GPUs and 64 CPUs, empty: 8 CPUs a GPU are fair."""
    cluster.clean()
    return cluster


@pytest.fixture
def daemon(slurm: Slurm, tmp_path: Path) -> Iterator[Callable[..., Frail]]:
    started: list[Daemon] = []

    def start(policy: str, *, run: bool = True, **settings: object) -> Frail:
        one = Frail(slurm, tmp_path / f"d{len(started)}", policy__name=policy, **settings)
        started.append(one)
        if run:
            one.start()
        return one

    yield start
    for one in started:
        one.__exit__()


def submit(
    slurm: Slurm, out: Path, gpus: int, cpus: int, annotation: str = "", *options: str,
    run_s: float = 1,
) -> int:  # fmt: skip
    comment = [f"--comment=slurm_ext:{annotation}"] if annotation else []
    script = f"#!/bin/sh\n{SHOWS.format(out=f'{out}/$SLURM_JOB_ID')}\nsleep {run_s}\n"
    return slurm.submit(
        soon(5), "-N1", "-n1", f"--gpus-per-node={gpus}", f"--cpus-per-task={cpus}",
        "--mem=100", *comment, *options, script=script,
    )  # fmt: skip


def inside(out: Path, job: int) -> dict[str, int]:
    """What the job saw of itself: GPUs, CPUs, CPUs of a task, nodes."""
    pairs = [line.split("=") for line in (out / str(job)).read_text().split()]
    return {key.removeprefix("SLURM_"): int(value) for key, value in pairs}


def test_moldable_jobs_start_at_the_size_that_pays(
    slurm: Slurm, daemon: Callable[..., Frail], tmp_path: Path
) -> None:
    """Two that ask for a node each share what a plain job leaves; hostile ones harm themselves."""
    plain = submit(slurm, tmp_path, 8, 16, run_s=12)
    first = submit(slurm, tmp_path, 8, 16, MOLDABLE)
    second = submit(slurm, tmp_path, 8, 16, MOLDABLE)
    greedy = submit(slurm, tmp_path, 1, 1, f"scaling=moldable,gpus=1000..2000,{FAST}")
    one = daemon("doubling")
    slurm.wait_completed([first, second, plain, greedy], 60)
    assert inside(tmp_path, plain)["GPUS_ON_NODE"] == 8
    assert inside(tmp_path, greedy)["GPUS_ON_NODE"] == 1
    sizes = [inside(tmp_path, job) for job in (first, second)]
    print(f"\nasked 8 GPUs and 16 CPUs each, given {sizes}")
    assert sizes[0] == {
        "GPUS_ON_NODE": 4, "CPUS_ON_NODE": 8, "CPUS_PER_TASK": 8, "JOB_NUM_NODES": 1
    }  # fmt: skip
    patches = [row["patch"] for row in one.actions(plain, greedy)]
    assert not any(patch.get("shape") for patch in patches)
    assert not one.errors()


def test_an_elastic_job_follows_what_the_others_leave(
    slurm: Slurm, daemon: Callable[..., Frail], tmp_path: Path
) -> None:
    """It starts beside a plain job, grows when that has gone, and runs to its end."""
    trainer = Trainer(slurm, tmp_path)
    gate = tmp_path / "gate"
    plain = slurm.submit("--gpus-per-node=6", "-wn1", "--mem=100", until=gate)
    whole = slurm.submit("--gpus-per-node=8", "-wn2", "--mem=100", run_s=60)
    slurm.wait_state([plain, whole], {"RUNNING"}, 20)
    job = trainer.submit(
        soon(4), annotation=f"{ELASTIC},{FAST},work=160,family=f", work=160, gpus=8
    )
    one = daemon("doubling", **ON, progress__interval_s=1)
    trainer.wait_working(job)
    gate.touch()
    assert outcome(one, job, 60) == "done"
    slurm.wait_completed([job], 90)
    reports = trainer.progress(job).reports
    print(f"\n(run, GPUs) of the reports: {sorted({(r.run, r.gpus) for r in reports})}")
    assert {(r.run, r.gpus) for r in reports} == {(0, 2), (1, 8)}
    assert reports[-1].step == 160
    learned = {row["gpus"]: row["units_per_s"] for row in one.rows("SELECT * FROM speed")}
    seen_s = {g: [r.at_s for r in reports if r.gpus == g] for g in (2, 8)}
    print(f"units a second learned: {learned}")
    assert learned.keys() >= {g for g, at in seen_s.items() if at[-1] - at[0] > 15}
    assert learned
    assert not one.errors()


def test_an_elastic_job_of_two_nodes_follows_over_nodes(
    slurm: Slurm, daemon: Callable[..., Frail], tmp_path: Path
) -> None:
    """It starts on the node that is free, and goes on on both once the other is."""
    trainer = Trainer(slurm, tmp_path)
    gate = tmp_path / "gate"
    plain = slurm.submit("--gpus-per-node=8", "-wn1", "--mem=100", until=gate)
    slurm.wait_state([plain], {"RUNNING"}, 20)
    job = trainer.submit(
        soon(4), "-N2", annotation=f"{OVER_NODES},work=400", work=400,
        more="--theta 1 0 0 0 --cpus-per-gpu 0.1",
    )  # fmt: skip
    one = daemon("doubling", **ON)
    trainer.wait_working(job)
    gate.touch()
    assert outcome(one, job, 60) == "done"
    slurm.wait_completed([job], 90)
    assert {(r.run, r.gpus) for r in trainer.progress(job).reports} == {(0, 8), (1, 16)}
    assert not one.errors()


def test_an_elastic_job_makes_room_for_one_that_waits(
    slurm: Slurm, daemon: Callable[..., Frail], tmp_path: Path
) -> None:
    trainer = Trainer(slurm, tmp_path)
    slurm.submit("--gpus-per-node=8", "-wn2", "--mem=100", "--time=60", run_s=300)
    job = trainer.submit(annotation=f"{ELASTIC},{FAST},work=10000", work=10_000, gpus=8)
    slurm.wait_state([job], {"RUNNING"}, 20)
    trainer.wait_working(job)
    waiting = submit(slurm, tmp_path, 4, 4, run_s=10)
    one = daemon("doubling", **ON)
    assert outcome(one, job, 60) == "done"
    slurm.wait_completed([waiting], 60)
    assert inside(tmp_path, waiting)["GPUS_ON_NODE"] == 4
    assert {(r.run, r.gpus) for r in trainer.progress(job).reports} >= {(0, 8), (1, 4)}
    assert not one.errors()


def test_cpus_go_where_they_are_of_use(
    slurm: Slurm, daemon: Callable[..., Frail], tmp_path: Path
) -> None:
    sensitive = submit(slurm, tmp_path, 2, 8, "sensitivity=image,cpus_per_gpu=12", "-wn1")
    wasteful = submit(slurm, tmp_path, 2, 16, "sensitivity=language,cpus_per_gpu=1", "-wn1")
    plain = submit(slurm, tmp_path, 2, 10, "", "-wn1")
    by_class = submit(slurm, tmp_path, 1, 1, "sensitivity=speech", "-wn1")
    alone = submit(slurm, tmp_path, 4, 8, "sensitivity=image,cpus_per_gpu=16", "-wn2")
    one = daemon("synergy")
    jobs = [sensitive, wasteful, plain, alone]
    slurm.wait_completed([*jobs, by_class], 60)
    cpus = [inside(tmp_path, job)["CPUS_ON_NODE"] for job in jobs]
    print(f"\nCPUs asked 8, 16, 10, 8, given {cpus}")
    assert cpus[0] in (16, 24)  # all it can use, or its fair share while others wait
    assert cpus[1:] == [2, 10, 64]
    assert inside(tmp_path, by_class)["CPUS_ON_NODE"] == 6
    assert not one.errors()


@pytest.mark.parametrize("ledger", [True, False], ids=["ledger", "note-only"])
def test_a_daemon_killed_between_shape_and_start_is_undone(
    slurm: Slurm, daemon: Callable[..., Frail], tmp_path: Path, ledger: bool
) -> None:
    """It dies right after the update that has the shape."""
    one = daemon("doubling", run=False)
    job = submit(slurm, tmp_path, 2, 2, MOLDABLE)
    one.launch("cut:after:Gres=gpu:8")
    wait_for(lambda: one.wait_dead(0) == 9, 30, "it dies", one.log)
    slurm.update(job, StartTime="now+600")
    assert slurm.show(job, "TresPerNode")["TresPerNode"] == "gres:gpu:8"
    if not ledger:
        one.lose_ledger()
    one.command("recover", "--fail-open")
    seen = slurm.show(job, "TresPerNode", "NumCPUs", "CPUs/Task", "MinMemoryNode", "AdminComment")
    assert seen == {
        "TresPerNode": "gres:gpu:2", "NumCPUs": "2", "CPUs/Task": "2", "MinMemoryNode": "100M",
        "AdminComment": "",
    }  # fmt: skip
