"""Fit, save, load; every way in which a file must be refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slurm_ext.accounting import artefact
from slurm_ext.accounting.artefact import ArtefactError, load, save
from slurm_ext.accounting.features import Features, of_attempt
from slurm_ext.accounting.fit import fit
from slurm_ext.accounting.predict import Samples
from slurm_ext.accounting.store import Store
from tests.unit.accounting.helpers import T0, attempt

DAY_S = 86400
NOW = T0 + 30 * DAY_S


def week(count: int = 100) -> list[artefact.Any]:
    """Alternating hours of two users, one every two hours, up to NOW."""
    found = []
    for i in range(count):
        start = NOW - (count - i) * 7200
        user, run_s = ("ann", 3600) if i % 2 else ("bob", 600)
        found.append(
            attempt(job_id=i + 1, user=user, submit_s=start, start_s=start, end_s=start + run_s,
                    run_s=run_s, limit_s=36000)
        )  # fmt: skip
    return found


@pytest.fixture
def fitted(tmp_path: Path) -> Path:
    with Store.open(tmp_path / "h.db") as store:
        store.add(week())
        fit(store, tmp_path / "durations.npz", NOW)
    return tmp_path / "durations.npz"


def test_loaded_form_says_the_same_as_what_was_learnt(fitted: Path) -> None:
    samples = Samples()
    for one in week():
        samples.learn(of_attempt(one), one.run_s)
    loaded = load(fitted, NOW)
    for job in (
        of_attempt(attempt(user="ann", limit_s=36000)),
        Features("bob", gpus=1),
        Features("new", "lab", limit_s=500),
    ):
        for elapsed_s in (0, 700, 5000):
            assert loaded.estimate(job, elapsed_s) == samples.estimate(job, elapsed_s)


def test_head_says_what_it_rests_on(fitted: Path) -> None:
    head = load(fitted, NOW).head
    assert (head.cluster, head.fitted_s, head.attempts) == ("mini", NOW, 100)
    assert head.judged == 83
    assert head.coverage is not None
    assert head.coverage > 0.9


def test_too_few_jobs_of_last_week_are_no_coverage(tmp_path: Path) -> None:
    with Store.open(tmp_path / "h.db") as store:
        store.add([attempt()])
        assert fit(store, tmp_path / "d.npz", T0 + DAY_S).coverage is None


def test_nothing_to_learn_from_keeps_the_old_one(fitted: Path, tmp_path: Path) -> None:
    before = fitted.read_bytes()
    with Store.open(tmp_path / "empty.db") as store, pytest.raises(ArtefactError, match="sync"):
        fit(store, fitted, NOW)
    assert fitted.read_bytes() == before


def test_failed_write_keeps_the_old_one(fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fitted.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    head = load(fitted, NOW).head
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArtefactError, match="No space left"):
        save(fitted, Samples(), head)
    assert fitted.read_bytes() == before
    assert [p.name for p in fitted.parent.iterdir() if p.name.startswith(".")] == []


def other_arrays(path: Path) -> None:
    with np.load(path) as stored:
        arrays = dict(stored)
    arrays["user_rows"] = arrays["user_rows"] * 2
    np.savez(path, allow_pickle=False, **arrays)


def pickled(path: Path) -> None:
    np.savez(path, meta=np.array([{"form": artefact.FORM}], dtype=object))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda p: p.unlink(), "missing"),
        (lambda p: p.write_bytes(b""), "cannot be used"),
        (lambda p: p.write_bytes(b"rubbish" * 99), "cannot be used"),
        (lambda p: p.write_bytes(p.read_bytes()[:-500]), "cannot be used"),
        (other_arrays, "damaged"),
        (pickled, "cannot be used"),
        (lambda p: np.savez(p, x=np.zeros(3)), "cannot be used"),
    ],
)
def test_bad_file_is_refused(fitted: Path, spoil: Callable[[Path], object], says: str) -> None:
    spoil(fitted)
    with pytest.raises(ArtefactError, match=says):
        load(fitted, NOW)


@pytest.mark.parametrize(
    ("now_s", "cluster", "says"),
    [
        (NOW + 15 * DAY_S, "", "15 days ago"),
        (NOW - 2 * DAY_S, "", "in the future"),
        (NOW, "other", "is of cluster mini"),
    ],
)
def test_wrong_time_or_place_is_refused(fitted: Path, now_s: int, cluster: str, says: str) -> None:
    with pytest.raises(ArtefactError, match=says):
        load(fitted, now_s, cluster=cluster)


def test_other_version_is_refused(fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artefact, "VERSION", 3)
    with pytest.raises(ArtefactError, match="has form version 2"):
        load(fitted, NOW)


def test_daemon_needs_numpy_alone() -> None:
    code = (
        "import sys; import slurm_ext.accounting.artefact; "
        "print([m for m in ('pandas', 'sqlite3', 'sklearn', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
