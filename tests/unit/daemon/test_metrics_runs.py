"""Ends and requeues between two looks."""

from __future__ import annotations

from dataclasses import replace

from slurm_ext.daemon.metrics_runs import Runs, Seen
from slurm_ext.model.job import BaseState, Job, JobKey, JobState
from tests.builders import job

NOTHING = Seen((), 0, 0)


def running(job_id: int = 1, gpus: int = 2, start_s: int = 100) -> Job:
    return replace(job(job_id, gpus=gpus, submit=50, on={"n1": gpus}), start_s=start_s)


def test_a_requeue_loses_what_was_run() -> None:
    runs = Runs()
    assert runs.look([running()], 160) == NOTHING
    again = replace(job(1, gpus=2, submit=170), restarts=1)
    assert runs.look([again], 170) == Seen((), 1, 2 * 60)
    assert runs.look([again], 180) == NOTHING


def test_the_next_run_counts_from_its_own_start() -> None:
    runs = Runs()
    runs.look([replace(running(start_s=200), key=JobKey(1, 170), restarts=1)], 230)
    seen = runs.look([replace(running(start_s=0), restarts=2)], 240)
    assert seen == Seen((), 1, 2 * 30)


def test_an_end_counts_once_and_only_if_it_was_watched() -> None:
    ended = replace(running(), state=JobState(BaseState.COMPLETED), end_s=300)
    assert Runs().look([ended], 310) == NOTHING
    runs = Runs()
    runs.look([running()], 290)
    assert runs.look([ended], 310) == Seen(((2, 250),), 0, 0)
    assert runs.look([ended], 320) == NOTHING
