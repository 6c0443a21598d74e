"""The SQLite file: migrations, foreign and damaged files, all-or-nothing writes."""

from __future__ import annotations

import dataclasses
import sqlite3
from pathlib import Path

import pytest

from slurm_ext.accounting import schema
from slurm_ext.accounting.sacct import HistoryError
from slurm_ext.accounting.steps import Used
from slurm_ext.accounting.store import Covered, Store
from tests.unit.accounting.helpers import T0, attempt


def test_attempt_comes_back_as_it_went_in(tmp_path: Path) -> None:
    one = attempt(limit_s=None, limit_word="UNLIMITED", annotation="slurm_ext:model=x")
    with Store.open(tmp_path / "h.db") as store:
        store.add([one])
        assert list(store.attempts()) == [one]


def test_frame_has_all_columns(tmp_path: Path) -> None:
    with Store.open(tmp_path / "h.db") as store:
        store.add([attempt(), attempt(job_id=2, run_s=5)])
        frame = store.frame("run_s > ?", (10,))
    assert list(frame.columns) == list(schema.COLUMNS)
    assert frame["job_id"].tolist() == [1]


def test_failed_write_leaves_the_watermark(tmp_path: Path) -> None:
    with Store.open(tmp_path / "h.db") as store:
        store.add([attempt()], Covered(1, 2, 3))
        with pytest.raises(HistoryError, match="cannot be written"):
            store.add([attempt(job_id=2), attempt(outcome="odd")], Covered(1, 9, 9))
        assert (store.count(), store.covered()) == (1, Covered(1, 2, 3))


def test_reader_sees_what_a_writer_committed(tmp_path: Path) -> None:
    with Store.open(tmp_path / "h.db") as writer, Store.open_readonly(tmp_path / "h.db") as reader:
        writer.add([attempt()])
        assert reader.count() == 1


def test_missing_file_is_not_created_by_a_reader(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="history sync"):
        Store.open_readonly(tmp_path / "h.db")
    assert not (tmp_path / "h.db").exists()


def test_foreign_database_is_refused(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "h.db")
    db.execute("CREATE TABLE mine (x)")
    db.close()
    with pytest.raises(HistoryError, match="another program"):
        Store.open(tmp_path / "h.db")


def test_damaged_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "h.db").write_bytes(b"not a database" * 100)
    with pytest.raises(HistoryError, match="sync again"):
        Store.open(tmp_path / "h.db")


def test_newer_version_is_refused(tmp_path: Path) -> None:
    Store.open(tmp_path / "h.db").close()
    db = sqlite3.connect(tmp_path / "h.db")
    db.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS) + 1}")
    db.close()
    for opening in (Store.open, Store.open_readonly):
        with pytest.raises(HistoryError, match="install the newer"):
            opening(tmp_path / "h.db")


def test_file_is_not_for_everybody(tmp_path: Path) -> None:
    Store.open(tmp_path / "h.db").close()
    assert (tmp_path / "h.db").stat().st_mode & 0o007 == 0


def test_older_version_is_brought_up_and_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        first = dataclasses.replace(schema.KIND, migrations=schema.MIGRATIONS[:1])
        patched.setattr("slurm_ext.accounting.store.KIND", first)
        with Store.open(tmp_path / "h.db") as store:
            db = sqlite3.connect(tmp_path / "h.db")
            marks = ", ".join("?" * len(schema.COLUMNS))
            db.execute(f"INSERT INTO attempt VALUES ({marks})", attempt())
            db.commit()
            db.close()
            assert store.used() == {}
    with Store.open_readonly(tmp_path / "h.db") as reader:
        assert (reader.count(), reader.used()) == (1, {})
    with Store.open(tmp_path / "h.db") as store:
        store.add([], used=[Used("mini", 1, T0, 5, None, None)])
        assert (store.count(), len(store.used())) == (1, 1)
