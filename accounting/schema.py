"""The history's SQLite schema, as numbered migrations (as the daemon's journal has them)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from slurm_ext.accounting.record import Attempt
from slurm_ext.accounting.sacct import HistoryError
from slurm_ext.slurm.run import escape

APPLICATION_ID = 0x736C7868  # "slxh": tells a history from a journal and from foreign files
FILE_MODE = 0o640

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE attempt (
  cluster TEXT NOT NULL, job_id INTEGER NOT NULL, submit_s INTEGER NOT NULL,
  array_job_id INTEGER NOT NULL, array_task_id INTEGER NOT NULL,
  user TEXT NOT NULL, account TEXT NOT NULL, partition TEXT NOT NULL, qos TEXT NOT NULL,
  name TEXT NOT NULL, state TEXT NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('ended', 'censored', 'never_ran')),
  killed_by_uid INTEGER NOT NULL, eligible_s INTEGER, start_s INTEGER, end_s INTEGER,
  run_s INTEGER NOT NULL, limit_s INTEGER, limit_word TEXT NOT NULL,
  gpus_req INTEGER NOT NULL, gpus_alloc INTEGER NOT NULL, gpu_type TEXT NOT NULL,
  cpus_req INTEGER NOT NULL, cpus_alloc INTEGER NOT NULL, mem_req_mib INTEGER NOT NULL,
  nodes INTEGER NOT NULL, annotation TEXT NOT NULL,
  PRIMARY KEY (cluster, job_id, submit_s)) STRICT, WITHOUT ROWID""",
        "CREATE INDEX attempt_end ON attempt (end_s)",
        "CREATE INDEX attempt_user ON attempt (user, end_s)",
        "CREATE INDEX attempt_open ON attempt (job_id) WHERE end_s IS NULL",
        # One row: from_s to until_s has been read without a gap.
        """CREATE TABLE covered (
  id INTEGER PRIMARY KEY CHECK (id = 1), from_s INTEGER NOT NULL, until_s INTEGER NOT NULL,
  read_at_s INTEGER NOT NULL) STRICT""",
        "CREATE TABLE skip (reason TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT",
    ),
)
"""Statements that lead from version n to n + 1. Never change one that was released."""

COLUMNS = Attempt._fields


@contextmanager
def reporting(path: Path, doing: str) -> Iterator[None]:
    """Turn whatever SQLite raises into a HistoryError with a remedy."""
    try:
        yield
    except (sqlite3.Error, OverflowError, OSError) as error:
        raise HistoryError(
            f"{escape(str(path))}: {doing}: {escape(str(error))}; {_remedy(error)}"
        ) from error


def _remedy(error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return {
        sqlite3.SQLITE_FULL: "free space on this file system",
        sqlite3.SQLITE_BUSY: "another sync runs: wait for it",
        sqlite3.SQLITE_READONLY: "this user must be able to write file and directory",
        sqlite3.SQLITE_CANTOPEN: "check that the directory exists; `history sync` makes the file",
        sqlite3.SQLITE_CORRUPT: "move it away and sync again: all of it comes from slurmdbd",
        sqlite3.SQLITE_NOTADB: "move it away and sync again: all of it comes from slurmdbd",
    }.get(code, "check the file system and the permissions of the directory")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        # SQLite rolls back by itself on some errors (disk full, I/O).
        if db.in_transaction:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        raise


def check_ours(db: sqlite3.Connection, path: Path) -> None:
    """Refuse a database of another program."""
    ident = db.execute("PRAGMA application_id").fetchone()[0]
    tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if ident != APPLICATION_ID and (ident or tables):
        raise HistoryError(f"{escape(str(path))}: is a database of another program")


def version_of(db: sqlite3.Connection) -> int:
    """The schema version the file has."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def migrate(
    db: sqlite3.Connection, path: Path, migrations: Sequence[Sequence[str]] = MIGRATIONS
) -> None:
    """Bring the file to the newest version, each step in one transaction.

    :raises HistoryError: the file is newer than this program.
    """
    refuse_newer(db, path, len(migrations))
    while (version := version_of(db)) < len(migrations):
        with transaction(db):
            for statement in migrations[version]:
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {version + 1}")


def refuse_newer(db: sqlite3.Connection, path: Path, known: int = len(MIGRATIONS)) -> None:
    """See :func:`migrate`."""
    if (version := version_of(db)) > known:
        raise HistoryError(
            f"{escape(str(path))}: has version {version}, this program knows up to {known}; "
            "install the newer slurm_ext again, or move the file away and sync anew"
        )
