"""Restarts on a real Slurm: jobs that save their state, make room, and come back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from minislurm import NodeGroup, Param, Partition, Spec

import slurm_ext.sbatch_templates
from slurm_ext.daemon.progress import read_progress
from slurm_ext.model.progress import Progress

from .conftest import running
from .harness import Daemon, Row, Slurm, wait_for

pytestmark = pytest.mark.slurm

SPEC = Spec(
    name="restarts",
    groups=(NodeGroup(name="n", count=2),),
    partitions=(Partition("gpu", default=True),),
    sched="tuned",
    priority="multifactor",
    params=(Param("KillWait", "5"),),
)
TRAINER = Path(slurm_ext.sbatch_templates.__file__).parent / "trainer.py"
ON: dict[str, object] = {
    "preemption__enabled": True,
    "guard__min_runtime_before_requeue_s": 0,
}
SAVES = "preemptible=true,signal=USR1,grace=20s,restart_cost=1s"
SCRIPT = """#!/bin/bash
{trap}
exec 0</dev/null
python3 {trainer} --work {work} --state {state} {more} &
child=$!
trap 'kill -s TERM $child' TERM
wait $child; code=$?
while kill -s 0 $child 2>/dev/null; do wait $child; code=$?; done
exit $code
"""
PASSES_ON = "trap 'kill -s USR1 $child' USR1"


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

    def start(**settings: object) -> Daemon:
        one = Daemon(slurm, tmp_path / f"d{len(started)}", **{**ON, **settings})
        started.append(one)
        return one.start()

    yield start
    for one in started:
        one.__exit__()


class Trainer:
    """Submits training jobs that run in a directory of their own."""

    def __init__(self, slurm: Slurm, directory: Path) -> None:
        self.slurm, self.directory = slurm, directory
        shutil.copy(TRAINER, directory)

    def submit(
        self, *options: str, annotation: str = SAVES, work: float = 10_000, trap: str = PASSES_ON,
        more: str = "", gpus: int = 8,
    ) -> int:  # fmt: skip
        state = self.directory / "state-$SLURM_JOB_ID.json"
        script = SCRIPT.format(
            trap=trap, trainer=TRAINER, work=work, state=state,
            more=f"--checkpoint-every 3600 {more}",
        )  # fmt: skip
        comment = [f"--comment=slurm_ext:{annotation}"] if annotation else []
        words = [
            f"--gpus-per-node={gpus}", "--cpus-per-task=1", "--mem=100", "--time=60", "--requeue",
            "--open-mode=append", f"--output={self.directory}/%j.out", *comment, *options,
        ]  # fmt: skip
        done = self.slurm.run(
            "env", "-C", str(self.directory), "sbatch", "--parsable", *words, stdin=script
        )
        return int(done.stdout)

    def progress(self, job: int) -> Progress:
        return read_progress(self.directory / ".slurm_ext", job, os.geteuid())

    def wait_working(self, *jobs: int) -> None:
        for job in jobs:
            wait_for(lambda j=job: self.progress(j).reports, 20, f"job {job} makes progress",
                     lambda j=job: self.slurm.describe([j]))  # fmt: skip


@pytest.fixture
def trainer(slurm: Slurm, tmp_path: Path) -> Trainer:
    return Trainer(slurm, tmp_path)


def restarts(daemon: Daemon, *jobs: int) -> list[Row]:
    rows = daemon.rows("SELECT * FROM restart ORDER BY at_s, job_id")
    return [row for row in rows if not jobs or row["job_id"] in jobs]


def outcome(daemon: Daemon, job: int, deadline_s: float = 40) -> str:
    """How the restart of a job ended."""
    rows = wait_for(
        lambda: [r for r in restarts(daemon, job) if r["outcome"]], deadline_s,
        f"the restart of {job} is over", lambda: (restarts(daemon), daemon.log()),
    )  # fmt: skip
    return str(rows[-1]["outcome"])


def test_a_preemptible_job_makes_room_and_goes_on(
    slurm: Slurm, daemon: Callable[..., Daemon], trainer: Trainer
) -> None:
    victim = trainer.submit(work=400)
    plain = slurm.submit("--gpus-per-node=8", "--time=60", run_s=300)
    trainer.wait_working(victim)
    urgent = slurm.submit("--gpus-per-node=8", "--priority=4000000", run_s=5)
    one = daemon()
    slurm.wait_state([urgent], {"RUNNING", "COMPLETED"}, 40)
    slurm.wait_completed([urgent], 30)
    assert outcome(one, victim) == "done"
    saved = trainer.progress(victim).last_checkpoint
    assert saved is not None
    slurm.wait_completed([victim], 60)
    reports = trainer.progress(victim).reports
    assert min(r.step for r in reports if r.run == 1) >= saved.step - 1
    assert slurm.states([plain]) == {str(plain): "RUNNING"}
    assert not one.actions(plain)
