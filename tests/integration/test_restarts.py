"""Restarts on a real Slurm: jobs that save their state, make room, and come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from minislurm import NodeGroup, Param, Partition, Spec

from .conftest import running
from .harness import Daemon, Slurm, wait_for
from .training import (
    ELASTIC,
    MARKS,
    ON,
    PASSES_ON,
    SAVES,
    SHORT,
    URGENT,
    Trainer,
    growing,
    outcome,
    restarts,
    signalled,
)

pytestmark = pytest.mark.slurm

SPEC = Spec(
    name="restarts",
    groups=(NodeGroup(name="n", count=2),),
    partitions=(Partition("gpu", default=True),),
    sched="tuned",
    priority="multifactor",
    params=(Param("KillWait", "5"),),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    with running(SPEC) as slurm:
        yield slurm


@pytest.fixture
def slurm(cluster: Slurm) -> Slurm:
    """Two nodes of eight GPUs, empty."""
    cluster.clean()
    return cluster


@pytest.fixture
def daemon(slurm: Slurm, tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    started: list[Daemon] = []

    def start(program: Sequence[str] = (), **settings: object) -> Daemon:
        one = Daemon(slurm, tmp_path / f"d{len(started)}", **{**ON, **settings})
        one.program = list(program) or one.program
        started.append(one)
        return one.start()

    yield start
    for one in started:
        one.__exit__()


@pytest.fixture
def trainer(slurm: Slurm, tmp_path: Path) -> Trainer:
    return Trainer(slurm, tmp_path)


def crowd_in(slurm: Slurm, gate: Path) -> list[int]:
    """Plain jobs that leave four GPUs of the first node free until the gate opens."""
    sizes = (("n2", 8), ("n1", 4))
    return [
        slurm.submit(f"--gpus-per-node={gpus}", f"--nodelist={node}", "--time=60", until=gate)
        for node, gpus in sizes
    ]


def test_preemptible_jobs_make_room_and_go_on(
    slurm: Slurm, daemon: Callable[..., Daemon], trainer: Trainer
) -> None:
    """One that is signalled in its shell, one in its steps; a job that depends on it waits."""
    batch = trainer.submit(work=150)
    steps = trainer.submit(work=150, annotation=f"{SAVES},signal_to=steps", run="srun python3")
    after = slurm.submit(f"--dependency=afterok:{batch}", "--kill-on-invalid-dep=yes")
    trainer.wait_working(batch, steps)
    urgent = slurm.submit("--nodes=2", "--gpus-per-node=8", *URGENT, run_s=5)
    one = daemon()
    slurm.wait_completed([urgent], 60)
    assert slurm.states([after]) == {str(after): "PENDING"}
    assert {outcome(one, job) for job in (batch, steps)} == {"done"}
    slurm.wait_completed([batch, steps, after], 60)
    for job in (batch, steps):
        reports = trainer.progress(job).reports
        saved = [r.step for r in reports if r.checkpoint and r.run == 0]
        assert min(r.step for r in reports if r.run == 1) >= saved[-1], job


def test_only_willing_jobs_are_touched(
    slurm: Slurm, daemon: Callable[..., Daemon], trainer: Trainer
) -> None:
    """And a willing one goes on where it does not answer and too much would be lost."""
    unwilling = [
        trainer.submit(trap=MARKS, annotation="", gpus=2),
        trainer.submit("--no-requeue", trap=MARKS, gpus=2),
        trainer.submit("--array=3", trap=MARKS, gpus=2),
        trainer.submit(trap=MARKS, annotation="preemptible=true,signal=USR1,grace=9d", gpus=2),
    ]
    slurm.wait_state(unwilling, {"RUNNING"}, 20)
    silent = trainer.submit("--time=1", trap=MARKS, annotation=SHORT)
    wait_for(lambda: len(trainer.progress(silent).reports) > 5, 20, "some work to lose")
    slurm.submit("--gpus-per-node=8", *URGENT, run_s=1)
    one = daemon(preemption__min_gain=8)
    assert outcome(one, silent) == "no_answer"
    assert signalled(trainer, silent)
    one.wait_cycles(3)
    assert [row["job_id"] for row in restarts(one)] == [silent]
    assert not [job for job in unwilling if signalled(trainer, job)]
    assert set(slurm.states([*unwilling, silent]).values()) == {"RUNNING"}
    assert not [a for a in one.actions() if a["lever"] == "requeue"]


def test_jobs_that_misbehave_harm_only_themselves(
    slurm: Slurm, daemon: Callable[..., Daemon], trainer: Trainer
) -> None:
    deaf = trainer.submit(trap="trap '' USR1 TERM; TERM=dumb", annotation=SHORT, gpus=4, work=100)
    full = trainer.submit(trap=f"{PASSES_ON}; ln -sf /dev/full state-$SLURM_JOB_ID.new", gpus=4)
    ends = trainer.submit(trap="trap 'kill $child; exit 0' USR1", gpus=4)
    other = Trainer(slurm, trainer.directory / "other")
    forger = other.submit(trap=MARKS, annotation=SHORT, gpus=4)
    trainer.wait_working(deaf, full, ends)
    slurm.wait_state([forger], {"RUNNING"}, 20)
    # Where its reports should be it shows those of another job.
    other.show_reports_of(trainer, full, forger)
    urgent = slurm.submit("--nodes=2", "--gpus-per-node=8", *URGENT, run_s=3)
    one = daemon()
    slurm.wait_completed([urgent], 60)
    assert {outcome(one, job) for job in (deaf, forger)} == {"done"}
    assert {outcome(one, job) for job in (full, ends)} == {"ended"}
    states = slurm.states([full, ends])
    assert states == {str(full): "FAILED", str(ends): "COMPLETED"}
    assert restarts(one, forger)[0]["since_s"] - restarts(one, forger)[0]["at_s"] >= 3


def test_a_job_comes_back_larger(
    slurm: Slurm, daemon: Callable[..., Daemon], trainer: Trainer
) -> None:
    """Nobody takes the room it leaves meanwhile, or the room it is to grow into."""
    gate = trainer.directory / "gate"
    plain = crowd_in(slurm, gate)
    grows = trainer.submit("--nodelist=n1", annotation=ELASTIC, gpus=2, work=250)
    trainer.wait_working(grows)
    greedy = [slurm.submit(f"--gpus-per-node={n}", "--time=1", run_s=1) for n in (4, 3, 1)]
    one = daemon(program=growing(4), levers__lease_s=60)
    assert outcome(one, grows) == "done"
    reports = trainer.progress(grows).reports
    assert {(r.run, r.gpus) for r in reports} == {(0, 2), (1, 4)}
    assert set(slurm.states(plain).values()) == {"RUNNING"}
    gate.touch()
    slurm.wait_completed([grows, *plain, *greedy], 60)
    reports = trainer.progress(grows).reports
    saved = [r.step for r in reports if r.checkpoint and r.run == 0]
    assert min(r.step for r in reports if r.run == 1) >= saved[-1]
    assert reports[-1].step == 250


def test_a_job_that_fails_in_its_new_shape_is_put_back_once(
    slurm: Slurm, daemon: Callable[..., Daemon], trainer: Trainer
) -> None:
    fails = f"[ $SLURM_GPUS_ON_NODE = 4 ] && exit 9\n{PASSES_ON}"
    grows = trainer.submit(trap=fails, annotation=ELASTIC, gpus=2, work=150)
    trainer.wait_working(grows)
    one = daemon(program=growing(4))
    assert outcome(one, grows) == "old_shape"
    slurm.wait_completed([grows], 60)
    reports = trainer.progress(grows).reports
    assert {(r.run, r.gpus) for r in reports} == {(0, 2), (2, 2)}


def test_a_job_that_cannot_come_back_larger_returns_to_its_size(
    slurm: Slurm, daemon: Callable[..., Daemon], trainer: Trainer
) -> None:
    gate = trainer.directory / "gate"
    plain = crowd_in(slurm, gate)
    grows = trainer.submit("--nodelist=n1", annotation=ELASTIC, gpus=2, work=150)
    trainer.wait_working(grows)
    one = daemon(program=growing(8), restart__come_back_s=10)
    assert outcome(one, grows, 60) == "old_shape"
    slurm.wait_completed([grows], 60)
    reports = trainer.progress(grows).reports
    assert {(r.run, r.gpus) for r in reports} == {(0, 2), (1, 2)}
    gate.touch()
    slurm.wait_completed(plain, 30)
