"""What all our SQLite files share: migrations, and refusing what is not ours."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ext.database import Kind, version_of
from slurm_ext.errors import JournalError

STEPS = (("CREATE TABLE a (x INTEGER) STRICT",), ("ALTER TABLE a ADD COLUMN y INTEGER",))
KIND = Kind(7, STEPS, JournalError, str, {}, foreign="name another", newer="move it away")


def test_migrations_run_from_the_version_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        replace(KIND, migrations=STEPS[:1]).migrate(db, path)
        db.execute("INSERT INTO a VALUES (1)")
        KIND.migrate(db, path)
        assert db.execute("SELECT x, y FROM a").fetchall() == [(1, None)]
        assert version_of(db) == 2


def test_a_failed_migration_leaves_the_old_version(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    broken = replace(KIND, migrations=(("CREATE TABLE a (x) ", "CREATE TABLE nonsense"),))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        with pytest.raises(sqlite3.Error):
            broken.migrate(db, path)
        assert version_of(db) == 0
        assert db.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)


@pytest.mark.parametrize(
    ("ident", "said"), [(8, "database of another program; name another"), (0, "another program")]
)
def test_a_file_of_another_program_is_refused(tmp_path: Path, ident: int, said: str) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE theirs (x)")
        db.execute(f"PRAGMA application_id = {ident}")
        with pytest.raises(JournalError, match=said):
            KIND.check_ours(db, path)


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA user_version = 3")
        with pytest.raises(JournalError, match=r"knows up to 2; .* or move it away"):
            KIND.migrate(db, path)
