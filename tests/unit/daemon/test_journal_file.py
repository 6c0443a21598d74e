"""The journal's file: migrations, damage, full disk, locks, readers."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from slurm_ext.daemon import journal_file
from slurm_ext.daemon.journal import Journal
from slurm_ext.daemon.journal_rows import ENTRY_COLUMNS, entry_row
from slurm_ext.daemon.records import CycleRecord
from slurm_ext.errors import JournalError
from slurm_ext.model.decision import JobPatch, Lever, Shape
from slurm_ext.model.job import JobKey
from slurm_ext.model.ledger import LedgerEntry

NOW = 1_700_000_000


def entries(count: int) -> list[LedgerEntry]:
    return [LedgerEntry(JobKey(i, NOW), str(i), planned_nodes=("n1",)) for i in range(count)]


def patches(count: int, text: str = "") -> list[JobPatch]:
    return [
        JobPatch(JobKey(i, NOW), str(i), Lever.LEASE, begin_s=NOW, why=text) for i in range(count)
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def test_entry_columns_are_the_fields_of_the_ledger_entry(path: Path) -> None:
    with Journal(path) as journal:
        columns = [row[1] for row in journal._read("PRAGMA table_info(entry)")]
    names = [f.name for f in fields(LedgerEntry) if f.name != "key"]
    assert columns == list(ENTRY_COLUMNS) == ["job_id", "submit_s", *names], "add a migration"


def test_durability_settings(path: Path) -> None:
    with Journal(path) as journal:
        found = [
            journal._read(f"PRAGMA {name}")[0][0]
            for name in ("journal_mode", "synchronous", "auto_vacuum", "user_version")
        ]
        strict = journal._read(
            "SELECT name FROM pragma_table_list WHERE schema='main' AND NOT strict"
        )
    assert found == ["wal", 2, 2, len(journal_file.KIND.migrations)]
    assert [name for (name,) in strict if not name.startswith("sqlite_")] == []


def test_journal_is_not_for_everybody(path: Path) -> None:
    with Journal(path) as journal:
        journal.record_cycle(CycleRecord(1, NOW))
        modes = {file.stat().st_mode & 0o007 for file in path.parent.iterdir()}
    assert modes == {0}


@pytest.mark.parametrize("opening", [Journal, Journal.open_readonly])
def test_a_newer_version_is_refused_and_left_alone(
    path: Path, opening: Callable[[Path], Journal]
) -> None:
    Journal(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(JournalError, match=r"has version 99, this program knows up to 4; install"):
        opening(path)
    assert [file.name for file in path.parent.iterdir() if "damaged" in file.name] == []


def test_a_ledger_from_before_shapes_is_kept(path: Path) -> None:
    first = replace(journal_file.KIND, migrations=journal_file.KIND.migrations[:1])
    db = sqlite3.connect(path, isolation_level=None)
    first.migrate(db, path)
    old = [name for name in ENTRY_COLUMNS if name not in ("shape", "original_shape")]
    entry = LedgerEntry(JobKey(7, NOW), "7", planned_nodes=("n1",))
    row = dict(zip(ENTRY_COLUMNS, entry_row(entry), strict=True))
    marks = ", ".join("?" * len(old))
    db.execute(f"INSERT INTO entry ({', '.join(old)}) VALUES ({marks})", [row[n] for n in old])
    db.close()
    with Journal(path) as journal:
        assert journal.entries() == {entry.key: entry}


def test_shapes_are_kept(path: Path) -> None:
    entry = LedgerEntry(
        JobKey(7, NOW), "7", shape=Shape(1, 8, 1, 32, 500), original_shape=Shape(1, 4, 1, 16)
    )
    with Journal(path) as journal:
        journal.commit_intents([entry], [], 1, NOW)
    with Journal.open_readonly(path) as journal:
        assert journal.entries() == {entry.key: entry}


def test_a_reader_does_not_migrate(path: Path) -> None:
    Journal(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 0")
    db.close()
    with pytest.raises(JournalError, match="has the older version 0; restart the daemon once"):
        Journal.open_readonly(path)


@pytest.mark.parametrize("opening", [Journal, Journal.open_readonly])
def test_a_database_of_another_program_is_left_alone(
    path: Path, opening: Callable[[Path], Journal]
) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE precious (x)")
    db.close()
    with pytest.raises(JournalError, match=r"of another program|not a journal"):
        opening(path)
    assert path.exists()


def test_garbage_is_put_aside_and_kept(path: Path) -> None:
    garbage = b"not a database " * 1000
    path.write_bytes(garbage)
    with Journal(path) as journal:
        (problem,) = journal.problems
        assert journal.entries() == {}
    assert "was damaged and is kept as journal.db.damaged-1" in problem
    assert "without the old ledger" in problem
    assert path.with_name("journal.db.damaged-1").read_bytes() == garbage


def test_earlier_damaged_files_are_kept_too(path: Path) -> None:
    for text in (b"a" * 2000, b"b" * 2000):
        path.write_bytes(text)
        Journal(path).close()
        path.unlink()
    kept = [path.with_name(f"journal.db.damaged-{n}").read_bytes()[:1] for n in (1, 2)]
    assert kept == [b"a", b"b"]


def spoil(path: Path, table: str) -> None:
    """Overwrite the root page of a table."""
    db = sqlite3.connect(path)
    (page,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    (size,) = db.execute("PRAGMA page_size").fetchone()
    db.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)


def test_damage_elsewhere_saves_the_ledger(path: Path) -> None:
    with Journal(path) as journal:
        journal.commit_intents(entries(300), patches(300), 1, NOW)
        before = journal.entries()
    spoil(path, "action")
    with Journal(path) as journal:
        assert journal.entries() == before
        assert "with all 300 ledger entries of the old one" in journal.problems[0]
        assert journal.unfinished() == ()


def test_a_damaged_ledger_is_not_trusted(path: Path) -> None:
    with Journal(path) as journal:
        journal.commit_intents(entries(300), [], 1, NOW)
    spoil(path, "entry")
    with Journal(path) as journal:
        assert journal.entries() == {}
        assert "without the old ledger" in journal.problems[0]


def test_damage_met_by_a_reader_moves_nothing(path: Path) -> None:
    path.write_bytes(b"garbage " * 500)
    with pytest.raises(JournalError, match="restart the daemon: it puts a damaged file aside"):
        Journal.open_readonly(path)
    assert [file.name for file in path.parent.iterdir()] == ["journal.db"]


def test_full_disk_stores_nothing_of_the_call(path: Path) -> None:
    with Journal(path) as journal:
        journal.commit_intents(entries(1), patches(1), 1, NOW)
        pages = journal._read("PRAGMA page_count")[0][0]
        journal._read(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(JournalError, match=r"full; free space on this file system"):
            journal.commit_intents(entries(500), patches(500, "x" * 500), 2, NOW)
        assert (len(journal.entries()), len(journal.unfinished())) == (1, 1)
        journal._read("PRAGMA max_page_count = 100000")
        journal.commit_intents(entries(500), patches(500), 3, NOW)
        assert len(journal.entries()) == 500


def test_a_locked_journal_is_an_error_and_stores_nothing(path: Path) -> None:
    with Journal(path, busy_s=0.01) as journal:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match=r"locked; another process holds it locked"):
            journal.commit_intents(entries(1), patches(1), 1, NOW)
        other.execute("ROLLBACK")
        other.close()
        assert (journal.entries(), journal.unfinished()) == ({}, ())


def test_a_process_killed_in_a_transaction_leaves_nothing_of_it(path: Path) -> None:
    code = (
        "import os, sys, pathlib; from slurm_ext.daemon.journal import Journal;"
        "from slurm_ext.daemon.records import CycleRecord;"
        "journal = Journal(pathlib.Path(sys.argv[1]));"
        "journal.record_cycle(CycleRecord(1, 1));"
        "journal._db.execute('BEGIN IMMEDIATE');"
        "journal._db.execute('DELETE FROM cycle');"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == -9
    with Journal(path) as journal:
        assert (journal.problems, len(journal.cycles())) == ((), 1)


def test_a_reader_sees_what_was_committed_while_the_daemon_writes(path: Path) -> None:
    with Journal(path) as journal, Journal.open_readonly(path, busy_s=0.01) as reader:
        journal.commit_intents(entries(2), [], 1, NOW)
        journal._db.execute("BEGIN IMMEDIATE")
        journal._db.execute("DELETE FROM entry")
        assert len(reader.entries()) == 2
        journal._db.execute("ROLLBACK")


def test_a_reader_cannot_write(path: Path) -> None:
    Journal(path).close()
    with Journal.open_readonly(path) as reader:
        with pytest.raises(JournalError, match="readonly"):
            reader.pause("me", NOW)
        assert reader.paused(NOW) is None


def test_pausing_beside_the_daemon(path: Path) -> None:
    with Journal(path) as journal, Journal.open_beside(path) as beside:
        beside.pause("root", NOW)
        assert journal.paused(NOW) is not None


@pytest.mark.parametrize("data", [None, b"garbage " * 500, b""])
def test_opening_beside_never_creates_or_repairs(path: Path, data: bytes | None) -> None:
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(JournalError):
        Journal.open_beside(path)
    assert (path.read_bytes() if path.exists() else None) == data
    assert [file.name for file in path.parent.iterdir() if file != path] == []


def test_a_reader_without_journal_is_told_so(path: Path) -> None:
    with pytest.raises(JournalError, match=r"cannot be read: unable to open.*check that it exists"):
        Journal.open_readonly(path)
    assert not path.exists()


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="create the directory, for the daemon's user"):
        Journal(tmp_path / "no" / "journal.db")


@pytest.mark.parametrize("name", ["a b?mode=rw#x%20.db", "é\n.db"])
def test_odd_paths_can_be_read(tmp_path: Path, name: str) -> None:
    Journal(tmp_path / name).close()
    with Journal.open_readonly(tmp_path / name) as reader:
        assert reader.entries() == {}


def test_pruning_gives_space_back(path: Path) -> None:
    with Journal(path) as journal:
        for cycle in range(20):
            journal.commit_intents([], patches(200, "x" * 200), cycle, NOW)
        journal.give_up(NOW)
        before = journal._read("PRAGMA page_count")[0][0]
        journal.prune(NOW + 1)
        assert journal._read("PRAGMA page_count")[0][0] < before / 4
