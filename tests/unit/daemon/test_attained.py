"""Service of earlier attempts: seen by the daemon, read from accounting, never both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_ext.accounting.artefact import Durations, Head, load, save
from slurm_ext.accounting.features import key
from slurm_ext.accounting.predict import Samples, Settings
from slurm_ext.daemon.attained import Attained
from slurm_ext.model.job import Job, JobKey
from tests.builders import NOW, job

RUNNING = job(7, gpus=4, on={"n1": 4}, start_s=NOW - 100, submit=NOW - 500)
AGAIN = replace(job(7, gpus=4, submit=NOW + 10), restarts=1)


@pytest.fixture
def model(tmp_path: Path) -> Durations:
    """Accounting knows of one attempt of job 7 of u1: 1000 GPU-seconds."""
    row = [[7, NOW - 500, 250, 1000, key("u1")]]
    head = Head("test", NOW, NOW, 1, None, None, 0, Settings())
    save(tmp_path / "d.npz", Samples(), head, np.array(row, dtype=float))
    return load(tmp_path / "d.npz", NOW)


def test_a_requeue_that_was_seen_counts() -> None:
    attained = Attained()
    assert attained.of([RUNNING], NOW, None) == {}
    assert attained.of([AGAIN], NOW + 10, None) == {AGAIN.key: 400}


def test_two_requeues_add_up() -> None:
    attained = Attained()
    attained.of([RUNNING], NOW, None)
    second = replace(RUNNING, key=JobKey(7, NOW + 10), start_s=NOW + 20, restarts=1)
    attained.of([second], NOW + 40, None)
    third = replace(AGAIN, key=JobKey(7, NOW + 60), restarts=2)
    assert attained.of([third], NOW + 60, None) == {third.key: 400 + 80}


def test_requeue_without_a_new_submit_time_counts_too() -> None:
    attained = Attained()
    attained.of([RUNNING], NOW, None)
    waiting = replace(AGAIN, key=RUNNING.key)
    assert attained.of([waiting], NOW + 10, None) == {waiting.key: 400}


def test_gone_is_forgotten() -> None:
    attained = Attained()
    attained.of([RUNNING], NOW, None)
    attained.of([AGAIN], NOW + 10, None)
    attained.of([], NOW + 20, None)
    assert attained.of([AGAIN], NOW + 30, None) == {}


def test_accounting_tells_what_was_not_seen(model: Durations) -> None:
    assert Attained().of([AGAIN], NOW + 10, model) == {AGAIN.key: 1000}


def test_what_both_know_counts_once_as_accounting_has_it(model: Durations) -> None:
    attained = Attained()
    attained.of([RUNNING], NOW, model)
    assert attained.of([AGAIN], NOW + 10, model) == {AGAIN.key: 1000}


@pytest.mark.parametrize(
    "other",
    [replace(AGAIN, user="u2"), replace(AGAIN, restarts=0), replace(AGAIN, key=JobKey(8, NOW))],
    ids=["another user after a wrap", "never restarted", "another id"],
)
def test_not_the_same_job(other: Job, model: Durations) -> None:
    assert Attained().of([other], NOW + 10, model) == {}
