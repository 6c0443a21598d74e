"""The history: attempts in SQLite, with what has been read so far.

Writers are ``history sync`` and ``history import``; the daemon never opens it (it loads the
fitted artefact only).
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import quote

from slurm_ext.accounting.record import Attempt
from slurm_ext.accounting.schema import COLUMNS, KIND
from slurm_ext.accounting.steps import Used
from slurm_ext.database import FILE_MODE, transaction, version_of
from slurm_ext.model.units import EpochS

if TYPE_CHECKING:
    import pandas as pd

BATCH = 50_000
_NAMES = ", ".join(COLUMNS)
_UPSERT = (
    f"INSERT INTO attempt ({_NAMES}) VALUES ({', '.join('?' * len(COLUMNS))}) "
    "ON CONFLICT (cluster, job_id, submit_s) DO UPDATE SET "
    + ", ".join(f"{c} = excluded.{c}" for c in COLUMNS[3:])
    # An old dump must not reopen what has ended since.
    + " WHERE excluded.end_s IS NOT NULL OR attempt.end_s IS NULL"
)


@dataclass(frozen=True, slots=True)
class Covered:
    """The span read without a gap, and when it was last extended (epoch seconds)."""

    from_s: EpochS
    until_s: EpochS
    read_at_s: EpochS


class Store:
    """An open history; use as a context manager.

    :raises HistoryError: from every method, for whatever SQLite cannot do.
    """

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self._db, self.path = db, path

    @classmethod
    def open(cls, path: Path, *, busy_s: float = 30.0) -> Store:
        """Open for writing; created and migrated as needed."""
        with KIND.reporting(path, "cannot be opened"):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
            db = sqlite3.connect(path, timeout=busy_s, isolation_level=None)
            try:
                KIND.check_ours(db, path)
                db.execute("PRAGMA journal_mode = WAL")
                # slurmdbd has it all: losing the last page in a power cut costs one more sync.
                db.execute("PRAGMA synchronous = NORMAL")
                KIND.migrate(db, path)
            except BaseException:
                db.close()
                raise
        return cls(db, path)

    @classmethod
    def open_readonly(cls, path: Path, *, busy_s: float = 30.0) -> Store:
        """Open for reading beside a sync."""
        with KIND.reporting(path, "cannot be read"):
            uri = f"file:{quote(os.fsencode(path))}?mode=ro"
            db = sqlite3.connect(uri, uri=True, timeout=busy_s, isolation_level=None)
            try:
                KIND.check_ours(db, path)
                KIND.refuse_newer(db, path)
            except BaseException:
                db.close()
                raise
        return cls(db, path)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Safe to call twice."""
        self._db.close()

    def add(
        self,
        attempts: Iterable[Attempt],
        covered: Covered | None = None,
        skips: Counter[str] | None = None,
        used: Iterable[Used] = (),
    ) -> int:
        """Insert or update; the watermark moves in the same transaction. Returns the new ones."""
        source = iter(attempts)
        with KIND.reporting(self.path, "cannot be written"), transaction(self._db) as db:
            before = self.count()
            while batch := list(islice(source, BATCH)):
                db.executemany(_UPSERT, batch)
            db.executemany("INSERT OR REPLACE INTO used VALUES (?, ?, ?, ?, ?, ?)", used)
            if covered is not None:
                db.execute(
                    "INSERT OR REPLACE INTO covered VALUES (1, ?, ?, ?)",
                    (covered.from_s, covered.until_s, covered.read_at_s),
                )
            for reason, count in (skips or {}).items():
                db.execute(
                    "INSERT INTO skip VALUES (?, ?) "
                    "ON CONFLICT (reason) DO UPDATE SET count = count + excluded.count",
                    (reason, count),
                )
            return self.count() - before

    def count(self, where: str = "1", values: Sequence[object] = ()) -> int:
        """Attempts, all or those a (trusted) condition selects."""
        row = self._db.execute(f"SELECT count(*) FROM attempt WHERE {where}", values).fetchone()
        return int(row[0])

    def covered(self) -> Covered | None:
        """What has been read, None before the first page."""
        with KIND.reporting(self.path, "cannot be read"):
            row = self._db.execute("SELECT from_s, until_s, read_at_s FROM covered").fetchone()
        return None if row is None else Covered(*row)

    def skips(self) -> dict[str, int]:
        """Rows ever left out, by reason (a row read twice counts twice)."""
        with KIND.reporting(self.path, "cannot be read"):
            return dict(self._db.execute("SELECT reason, count FROM skip ORDER BY reason"))

    def still_open(self) -> list[int]:
        """Job ids of attempts that ran when last seen."""
        with KIND.reporting(self.path, "cannot be read"):
            rows = self._db.execute("SELECT DISTINCT job_id FROM attempt WHERE end_s IS NULL")
            return [row[0] for row in rows]

    def attempts(self, where: str = "1", values: Sequence[object] = ()) -> Iterator[Attempt]:
        """Attempts in order of their end, those still open last; ``where`` is trusted SQL."""
        with KIND.reporting(self.path, "cannot be read"):
            rows = self._db.execute(
                f"SELECT {_NAMES} FROM attempt WHERE {where} "
                "ORDER BY end_s IS NULL, end_s, job_id, submit_s",
                values,
            )
            for row in rows:
                yield Attempt(*row)

    def used(self) -> dict[tuple[str, int, EpochS], Used]:
        """What attempts used, by (cluster, job id, submit)."""
        if version_of(self._db) < 2:  # not written since an older version made it
            return {}
        with KIND.reporting(self.path, "cannot be read"):
            return {row[:3]: Used(*row) for row in self._db.execute("SELECT * FROM used")}

    def frame(self, where: str = "1", values: Sequence[str | int] = ()) -> pd.DataFrame:
        """The same as a pandas table; times stay epoch seconds (missing: NaN)."""
        import pandas as pd

        with KIND.reporting(self.path, "cannot be read"):
            return pd.read_sql_query(
                f"SELECT {_NAMES} FROM attempt WHERE {where} ORDER BY end_s IS NULL, end_s",
                self._db,
                params=list(values),
            )
