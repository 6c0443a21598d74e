"""Training jobs that save their state on a signal, and what is known of their restarts."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from pwd import getpwnam

import slurm_ext.report
import slurm_ext.sbatch_templates
from slurm_ext.daemon.progress import read_progress
from slurm_ext.model.progress import Progress

from .harness import Daemon, Row, Slurm, wait_for

REPORT = Path(slurm_ext.report.__file__)
TRAINER = Path(slurm_ext.sbatch_templates.__file__).parent / "trainer.py"
ON: dict[str, object] = {
    "preemption__enabled": True,
    "guard__min_runtime_before_requeue_s": 0,
}
SAVES = "preemptible=true,signal=USR1,grace=20s,restart_cost=1s"
SCRIPT = """#!/bin/bash
{trap}
exec 0</dev/null
{run} {trainer} --work {work} --state {state} {more} &
child=$!
trap 'kill -s TERM $child' TERM
wait $child; code=$?
while kill -s 0 $child 2>/dev/null; do wait $child; code=$?; done
exit $code
"""
SHORT = "preemptible=true,signal=USR1,grace=3s,restart_cost=1s"
ELASTIC = "scaling=elastic,gpus=1..8,signal=USR1,grace=20s,restart_cost=1s"
URGENT = ("--priority=4000000", "--time=60")
PASSES_ON = "trap 'kill -s USR1 $child' USR1"


class Trainer:
    """Submits training jobs of a user that run in a directory of their own."""

    def __init__(self, slurm: Slurm, directory: Path, user: str = "") -> None:
        self.slurm, self.directory, self.user = slurm, directory, user
        directory.mkdir(exist_ok=True)
        for path in (TRAINER, REPORT):
            shutil.copy(path, directory)

    def submit(
        self, *options: str, annotation: str = SAVES, work: float = 10_000, trap: str = PASSES_ON,
        run: str = "python3", gpus: int = 8, more: str = "",
    ) -> int:  # fmt: skip
        state = self.directory / "state-$SLURM_JOB_ID.json"
        script = SCRIPT.format(
            trap=trap, run=run, trainer="trainer.py", work=work, state=state,
            more=f"--checkpoint-every 3600 {more}",
        )  # fmt: skip
        comment = [f"--comment=slurm_ext:{annotation}"] if annotation else []
        words = [
            f"--gpus-per-node={gpus}", "--cpus-per-task=1", "--mem=100", "--time=60", "--requeue",
            "--open-mode=append", f"--output={self.directory}/%j.out", *comment, *options,
        ]  # fmt: skip
        done = self.slurm.run(
            "env", "-C", str(self.directory), "sbatch", "--parsable", *words, stdin=script,
            user=self.user,
        )  # fmt: skip
        return int(done.stdout)

    def progress(self, job: int) -> Progress:
        uid = getpwnam(self.user).pw_uid if self.user else os.geteuid()
        return read_progress(self.directory / ".slurm_ext", job, uid)

    def show_reports_of(self, other: Trainer, job: int, mine: int) -> None:
        """In place of those of ``mine``: the files of another job, by links."""
        own = self.directory / ".slurm_ext"
        wait_for(own.exists, 20, "reports")
        shutil.move(own, self.directory / "aside")
        own.mkdir()
        (own / f"{mine}.jsonl").symlink_to(other.directory / ".slurm_ext" / f"{job}.jsonl")

    def wait_working(self, *jobs: int) -> None:
        for job in jobs:
            wait_for(lambda j=job: self.progress(j).reports, 20, f"job {job} makes progress",
                     lambda j=job: self.slurm.describe([j]))  # fmt: skip


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


def signalled(trainer: Trainer, job: int) -> bool:
    return (trainer.directory / f"signalled-{job}").exists()


MARKS = "trap 'touch signalled-$SLURM_JOB_ID' USR1"
"""Takes the signal and does nothing about it."""


def growing(gpus: int) -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("forcing.py")), str(gpus)]
