"""Our SQLite files: whose they are, which version they have, and errors that name a remedy."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from slurm_ext.errors import SlurmExtError

FILE_MODE = 0o640
"""Our files name users and their jobs: not for everybody."""

Migrations = Sequence[Sequence[str]]
"""Statements that lead from version n to n + 1. Never change one that was released."""


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All or nothing; takes the write lock at once, so that nothing fails half way."""
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


def version_of(db: sqlite3.Connection) -> int:
    """The schema version the file has."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of file of ours.

    ``application_id`` tells it from other SQLite files. ``error`` is raised for whatever goes
    wrong, with the remedy for its SQLite code; ``show`` makes foreign text fit for a message.
    ``foreign``, ``newer``: what to do about another program's file, and a newer version's.
    """

    application_id: int
    migrations: Migrations
    error: type[SlurmExtError]
    show: Callable[[str], str]
    remedies: Mapping[int, str]
    foreign: str
    newer: str

    @contextmanager
    def reporting(self, path: Path, doing: str) -> Iterator[None]:
        """Turn whatever SQLite raises into ``error`` with a remedy."""
        try:
            yield
        except (sqlite3.Error, OverflowError, OSError) as error:
            shown = self.show(str(error))
            raise self.error(
                f"{self.show(str(path))}: {doing}: {shown}; {self._remedy(error)}"
            ) from error

    def _remedy(self, error: Exception) -> str:
        if isinstance(error, FileNotFoundError):
            return "create the directory, for the daemon's user, mode 0750"
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        default = "check the file system and the permissions of the directory"
        return self.remedies.get(code, default)

    def check_ours(self, db: sqlite3.Connection, path: Path) -> None:
        """Refuse a database of another program; an empty one may become ours."""
        ident = db.execute("PRAGMA application_id").fetchone()[0]
        tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if ident != self.application_id and (ident or tables):
            raise self.error(
                f"{self.show(str(path))}: is a database of another program; {self.foreign}"
            )

    def refuse_newer(self, db: sqlite3.Connection, path: Path) -> None:
        """Refuse a file of a later version of this program."""
        if (version := version_of(db)) > len(self.migrations):
            raise self.error(
                f"{self.show(str(path))}: has version {version}, this program knows up to "
                f"{len(self.migrations)}; install the newer slurm_ext again, or {self.newer}"
            )

    def migrate(self, db: sqlite3.Connection, path: Path) -> None:
        """Bring the file to the newest version, each step in one transaction."""
        self.refuse_newer(db, path)
        while (version := version_of(db)) < len(self.migrations):
            with transaction(db):
                for statement in self.migrations[version]:
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {self.application_id}")
                db.execute(f"PRAGMA user_version = {version + 1}")
