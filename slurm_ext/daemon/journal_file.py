"""The journal's SQLite file: opening, migrating, checking, putting aside."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from slurm_ext.database import FILE_MODE, Kind, transaction, version_of
from slurm_ext.errors import JournalError

from .text import printable

_ENTRY = """
CREATE TABLE entry (
  job_id INTEGER NOT NULL, submit_s INTEGER NOT NULL, address TEXT NOT NULL,
  lease_until_s INTEGER, original_begin_s INTEGER NOT NULL, held INTEGER NOT NULL,
  hold_seen INTEGER NOT NULL,
  pinned TEXT NOT NULL CHECK (json_valid(pinned)), pinned_at_s INTEGER,
  original_required TEXT NOT NULL CHECK (json_valid(original_required)),
  excluded TEXT NOT NULL CHECK (json_valid(excluded)),
  original_excluded TEXT NOT NULL CHECK (json_valid(original_excluded)),
  site_factor INTEGER NOT NULL, original_site_factor INTEGER NOT NULL,
  deferred_since_s INTEGER, deferred_s INTEGER NOT NULL, released_s INTEGER,
  planned_nodes TEXT NOT NULL CHECK (json_valid(planned_nodes)),
  planned_rank INTEGER NOT NULL, tasks INTEGER NOT NULL, failed_starts INTEGER NOT NULL,
  surrendered TEXT NOT NULL,
  PRIMARY KEY (job_id, submit_s)) STRICT, WITHOUT ROWID"""

_MIGRATIONS = (
    (
        _ENTRY,
        """CREATE TABLE action (
  id INTEGER PRIMARY KEY, cycle INTEGER NOT NULL, at_s INTEGER NOT NULL,
  job_id INTEGER NOT NULL, submit_s INTEGER NOT NULL, lever TEXT NOT NULL, why TEXT NOT NULL,
  patch TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('intended', 'ok', 'benign', 'error', 'lost')),
  detail TEXT NOT NULL DEFAULT '', done_s INTEGER) STRICT""",
        "CREATE INDEX action_job ON action (job_id, submit_s)",
        "CREATE INDEX action_at ON action (at_s)",
        "CREATE INDEX action_open ON action (id) WHERE state = 'intended'",
        """CREATE TABLE cycle (
  cycle INTEGER PRIMARY KEY, at_s INTEGER NOT NULL, policy TEXT NOT NULL,
  config_digest TEXT NOT NULL, durations_s TEXT NOT NULL,
  counts TEXT NOT NULL,
  rpc TEXT NOT NULL, error TEXT NOT NULL) STRICT""",
        "CREATE INDEX cycle_at ON cycle (at_s)",
        """CREATE TABLE start (
  id INTEGER PRIMARY KEY, job_id INTEGER NOT NULL, submit_s INTEGER NOT NULL,
  user TEXT NOT NULL, policy TEXT NOT NULL, planned_rank INTEGER NOT NULL,
  planned_nodes TEXT NOT NULL,
  actual_nodes TEXT NOT NULL,
  planned_s INTEGER, at_s INTEGER NOT NULL, same_nodes INTEGER NOT NULL, why TEXT NOT NULL,
  UNIQUE (job_id, submit_s, at_s)) STRICT""",
        "CREATE INDEX start_at ON start (at_s)",
        """CREATE TABLE history (
  id INTEGER PRIMARY KEY, job_id INTEGER NOT NULL, submit_s INTEGER NOT NULL,
  at_s INTEGER NOT NULL, verdict TEXT NOT NULL, code TEXT NOT NULL, stage TEXT NOT NULL,
  facts TEXT NOT NULL, would_change TEXT NOT NULL,
  rank INTEGER NOT NULL, start_s INTEGER) STRICT""",
        "CREATE INDEX history_job ON history (job_id, submit_s, id)",
        "CREATE INDEX history_at ON history (at_s)",
        """CREATE TABLE pause (
  id INTEGER PRIMARY KEY, paused INTEGER NOT NULL, who TEXT NOT NULL, at_s INTEGER NOT NULL,
  until_s INTEGER, why TEXT NOT NULL) STRICT""",
        "CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT",
    ),
    tuple(
        f"ALTER TABLE entry ADD COLUMN {name} TEXT CHECK ({name} IS NULL OR json_valid({name}))"
        for name in ("shape", "original_shape")
    ),
    (
        """CREATE TABLE restart (
  job_id INTEGER NOT NULL, submit_s INTEGER NOT NULL, at_s INTEGER NOT NULL,
  stage TEXT NOT NULL, since_s INTEGER NOT NULL, outcome TEXT NOT NULL,
  body TEXT NOT NULL CHECK (json_valid(body)),
  UNIQUE (job_id, submit_s, at_s)) STRICT""",
        "CREATE INDEX restart_since ON restart (since_s)",
    ),
    (
        """CREATE TABLE speed (
  user TEXT NOT NULL, family TEXT NOT NULL, gpu_type TEXT NOT NULL, gpus INTEGER NOT NULL,
  units_per_s REAL NOT NULL, at_s INTEGER NOT NULL,
  PRIMARY KEY (user, family, gpu_type, gpus)) STRICT, WITHOUT ROWID""",
    ),
)

KIND = Kind(
    application_id=0x736C7865,  # "slxe"
    migrations=_MIGRATIONS,
    error=JournalError,
    show=printable,
    remedies={
        sqlite3.SQLITE_FULL: "free space on this file system",
        sqlite3.SQLITE_BUSY: "another process holds it locked: end that one",
        sqlite3.SQLITE_READONLY: "the daemon's user must be able to write file and directory",
        sqlite3.SQLITE_CANTOPEN: "check that it exists and may be read",
        sqlite3.SQLITE_CORRUPT: "restart the daemon: it puts a damaged file aside",
        sqlite3.SQLITE_NOTADB: "restart the daemon: it puts a damaged file aside",
    },
    foreign="name another state.dir",
    newer="move the file away to begin a new one",
)

_ROUTINE = "('rank', 'lease')"
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def open_rw(path: Path, busy_s: float) -> tuple[sqlite3.Connection, list[str]]:
    """Open or create the journal, up to date and sound; with what had to be put right.

    :raises JournalError: not writable, locked, of a newer version, or not a journal of ours.
    """
    problems: list[str] = []
    with KIND.reporting(path, "cannot be opened"):
        try:
            return _open_checked(path, busy_s), problems
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE:
                raise
            aside = put_aside(path)
        db = _open_checked(path, busy_s)
        saved = _salvage(db, aside)
        problems.append(
            f"{printable(str(path))}: was damaged and is kept as {printable(aside.name)}; a new "
            f"journal was begun, {saved}; compare with `slurm-ext recover`"
        )
        return db, problems


def _open_checked(path: Path, busy_s: float) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
    db = sqlite3.connect(path, timeout=busy_s, isolation_level=None)
    try:
        KIND.check_ours(db, path)
        if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            error = sqlite3.DatabaseError("the check found damage")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise JournalError(f"{printable(str(path))}: must be on a local disk (WAL needs one)")
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA journal_size_limit = {64 << 20}")
        KIND.migrate(db, path)
    except BaseException:
        db.close()
        raise
    return db


def open_ro(path: Path, busy_s: float) -> sqlite3.Connection:
    """Open for reading beside the daemon, or without one.

    :raises JournalError: missing, damaged, or of another version than this program's.
    """
    with KIND.reporting(path, "cannot be read"):
        try:
            db = _connect(path, "mode=ro", busy_s)
        except sqlite3.OperationalError:
            # Who may not write the directory cannot set up WAL's shared memory. Without a
            # log the file is complete and at rest, and may be read as it is.
            wal = path.with_name(path.name + "-wal")
            if wal.exists() and wal.stat().st_size:
                raise
            db = _connect(path, "mode=ro&immutable=1", busy_s)
        return _same_version(db, path)


def open_beside(path: Path, busy_s: float) -> sqlite3.Connection:
    """Open for writing beside a running daemon: never creates, migrates or renames.

    :raises JournalError: missing, damaged, or of another version than this program's.
    """
    with KIND.reporting(path, "cannot be opened"):
        db = _same_version(_connect(path, "mode=rw", busy_s), path)
        db.execute("PRAGMA synchronous = FULL")
        return db


def _same_version(db: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    try:
        version = version_of(db)
        ident = db.execute("PRAGMA application_id").fetchone()[0]
        if ident == KIND.application_id and version == len(KIND.migrations):
            return db
        if ident != KIND.application_id:
            raise JournalError(f"{printable(str(path))}: is not a journal of slurm_ext")
        KIND.refuse_newer(db, path)
        raise JournalError(
            f"{printable(str(path))}: has the older version {version}; restart the daemon once"
        )
    except BaseException:
        db.close()
        raise


def _connect(path: Path, how: str, busy_s: float) -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(path))}?{how}"
    db = sqlite3.connect(uri, uri=True, timeout=busy_s, isolation_level=None)
    try:
        db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def put_aside(path: Path) -> Path:
    """Rename the file and its log to the first free ``….damaged-N``; nothing is deleted."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for suffix in ("-wal", "-shm", ""):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    return aside


def _salvage(db: sqlite3.Connection, aside: Path) -> str:
    """Copy the ledger from a damaged file if that table itself is sound."""
    try:
        old = _connect(aside, "mode=ro", 0)
        try:
            if version_of(old) != len(KIND.migrations):
                return "without the old ledger"
            if old.execute("PRAGMA quick_check(entry)").fetchone()[0] != "ok":
                return "without the old ledger"
            rows = old.execute("SELECT * FROM entry").fetchall()
        finally:
            old.close()
        with transaction(db):
            marks = ", ".join("?" * len(rows[0])) if rows else ""
            db.executemany(f"INSERT INTO entry VALUES ({marks})", rows)
    except sqlite3.Error:
        return "without the old ledger"
    return f"with all {len(rows)} ledger entries of the old one"


def prune(db: sqlite3.Connection, before_s: int, routine_before_s: int | None, limit: int) -> int:
    """See :meth:`slurm_ext.daemon.journal.Journal.prune`."""
    old = f"at_s < {int(before_s)}"
    routine = f"at_s < {int(routine_before_s or 0)} AND state = 'ok' AND lever IN {_ROUTINE}"
    wheres = {
        "cycle": old,
        "start": old,
        "history": old,
        "action": f"state != 'intended' AND ({old} OR ({routine}))",
        "restart": f"{old} AND outcome != ''",
        "pause": f"{old} AND id < (SELECT max(id) FROM pause)",
    }
    gone = 0
    for name, where in wheres.items():
        chosen = f"SELECT rowid FROM {name} WHERE {where} LIMIT {int(limit)}"
        with transaction(db):
            gone += db.execute(f"DELETE FROM {name} WHERE rowid IN ({chosen})").rowcount
    # execute() would do a single step of it, that is one page.
    db.executescript("PRAGMA incremental_vacuum(2000)")
    return gone
