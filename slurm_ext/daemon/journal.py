"""The journal: ledger, actions, cycles, starts, decisions and the pause flag, in SQLite.

Thread rule: a Journal belongs to the thread that opened it. The decision thread has the only
one for everything; every other thread and process opens its own with
:meth:`Journal.open_readonly`, or :meth:`Journal.open_beside` to pause and resume.
All text is stored as data. Every method raises JournalError when SQLite does, and then nothing
of that call has been stored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from slurm_ext.database import transaction
from slurm_ext.model.decision import Decision, JobPatch, Plan
from slurm_ext.model.job import JobKey
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.restart import Restart
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.port import Outcome

from . import journal_file, journal_rows
from .journal_rows import ENTRY_COLUMNS, text
from .records import Action, Change, CycleRecord, Pause, SeenSpeed, StartRecord, StartShare

SPEEDS_OF_ONE = 512
"""Learned speeds that are kept of one user, the newest."""

BUSY_S = 5.0
"""How long a call waits for a lock that another process holds."""

_ENTRY_UPSERT = (
    f"INSERT OR REPLACE INTO entry ({', '.join(ENTRY_COLUMNS)}) "
    f"VALUES ({', '.join('?' * len(ENTRY_COLUMNS))})"
)


class Journal:
    """One connection to the journal file at ``path``.

    ``problems``: what had to be put right while opening (a damaged file was put aside).
    """

    def __init__(self, path: Path, *, busy_s: float = BUSY_S) -> None:
        """Open for writing, create or migrate. Only for the holder of the DaemonLock: a
        damaged file is renamed, which must not happen under another writer.

        :raises JournalError: unusable directory, locked, newer version, or foreign database.
        """
        self.path = path
        self._db, problems = journal_file.open_rw(path, busy_s)
        self.problems = tuple(problems)
        self._last: dict[JobKey, tuple[str, str]] = {}

    @classmethod
    def open_readonly(cls, path: Path, *, busy_s: float = BUSY_S) -> Self:
        """Open for reading only; writing methods then raise JournalError."""
        return cls._on(path, journal_file.open_ro(path, busy_s))

    @classmethod
    def open_beside(cls, path: Path, *, busy_s: float = BUSY_S) -> Self:
        """Open an existing journal for writing without holding the lock (pause, resume)."""
        return cls._on(path, journal_file.open_beside(path, busy_s))

    @classmethod
    def _on(cls, path: Path, db: sqlite3.Connection) -> Self:
        self = cls.__new__(cls)
        self.path, self._db, self.problems, self._last = path, db, (), {}
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the journal must not be used afterwards."""
        with journal_file.KIND.reporting(self.path, "cannot be closed"):
            self._db.close()

    @contextmanager
    def _writing(self, doing: str) -> Iterator[sqlite3.Connection]:
        with (
            journal_file.KIND.reporting(self.path, f"{doing} could not be stored"),
            transaction(self._db) as db,
        ):
            yield db

    def _read(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with journal_file.KIND.reporting(self.path, "cannot be read"):
            return self._db.execute(sql, values).fetchall()

    def entries(self) -> dict[JobKey, LedgerEntry]:
        """The whole ledger."""
        rows = self._read(f"SELECT {', '.join(ENTRY_COLUMNS)} FROM entry")
        found = map(journal_rows.entry, rows)
        return {entry.key: entry for entry in found}

    def commit_intents(
        self,
        entries: Sequence[LedgerEntry],
        patches: Sequence[JobPatch],
        cycle: int,
        now_s: EpochS,
    ) -> tuple[int, ...]:
        """Store what is about to be sent, all or nothing; to be called before sending.

        Entries replace those of the same job. Returns one action id a patch, in order.
        """
        rows = [journal_rows.entry_row(entry) for entry in entries]
        actions = [journal_rows.action_row(patch, cycle, now_s) for patch in patches]
        with self._writing("intents") as db:
            (last,) = db.execute("SELECT coalesce(max(id), 0) FROM action").fetchone()
            ids = tuple(range(last + 1, last + 1 + len(actions)))
            db.executemany(_ENTRY_UPSERT, rows)
            db.executemany(
                "INSERT INTO action (id, cycle, at_s, job_id, submit_s, lever, why, patch, state)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'intended')",
                [(number, *row) for number, row in zip(ids, actions, strict=True)],
            )
            _count_cycle(db, cycle)
        return ids

    def record_outcomes(
        self, action_ids: Sequence[int], outcomes: Sequence[Outcome], now_s: EpochS
    ) -> None:
        """What Slurm said to each action, in the same order.

        :raises ValueError: not one outcome an action.
        """
        rows = [
            (_state_of(outcome), text(outcome.detail), now_s, number)
            for number, outcome in zip(action_ids, outcomes, strict=True)
        ]
        with self._writing("outcomes") as db:
            db.executemany("UPDATE action SET state = ?, detail = ?, done_s = ? WHERE id = ?", rows)

    def unfinished(self) -> tuple[Action, ...]:
        """Actions without an outcome: the daemon ended between intent and outcome."""
        return self._actions("state = 'intended'", ())

    def give_up(self, now_s: EpochS) -> int:
        """Mark unfinished actions as lost (recovery has looked at the jobs); how many."""
        with self._writing("lost actions") as db:
            sql = "UPDATE action SET state = 'lost', done_s = ? WHERE state = 'intended'"
            return db.execute(sql, (now_s,)).rowcount

    def actions(self, key: JobKey) -> tuple[Action, ...]:
        """Everything sent for one job, oldest first."""
        return self._actions("job_id = ? AND submit_s = ?", (key.job_id, key.submit_s))

    def save_speeds(self, seen: Sequence[SeenSpeed]) -> None:
        """Speeds by reports; a newer one of the same kind of job and size replaces the older."""
        rows = [(text(s.user), text(s.family), text(s.gpu_type), *s[3:]) for s in seen]
        with self._writing("speeds") as db:
            db.executemany("INSERT OR REPLACE INTO speed VALUES (?, ?, ?, ?, ?, ?)", rows)
            db.execute(
                "DELETE FROM speed WHERE (user, family, gpu_type, gpus) IN ("
                "SELECT user, family, gpu_type, gpus FROM ("
                "SELECT *, row_number() OVER (PARTITION BY user ORDER BY at_s DESC) AS n FROM speed"
                ") WHERE n > ?)",
                (SPEEDS_OF_ONE,),
            )

    def speeds(self) -> list[SeenSpeed]:
        """Every speed that is known."""
        return [SeenSpeed(*row) for row in self._read("SELECT * FROM speed")]

    def requeues_since(self, since_s: EpochS) -> int:
        """Requeues that were sent and not refused (for the limit per hour)."""
        sql = (
            "SELECT count(*) FROM action WHERE at_s >= ? AND lever = 'requeue' AND state != 'error'"
        )
        return int(self._read(sql, (since_s,))[0][0])

    def _actions(self, where: str, values: Sequence[object]) -> tuple[Action, ...]:
        sql = (
            "SELECT id, cycle, at_s, job_id, submit_s, lever, why, state, detail, patch"
            f" FROM action WHERE {where} ORDER BY id"
        )
        return tuple(map(journal_rows.action, self._read(sql, values)))

    def forget(self, keys: Sequence[JobKey]) -> None:
        """Remove ledger entries: nothing of ours stands on these jobs any more."""
        with self._writing("forgetting") as db:
            db.executemany(
                "DELETE FROM entry WHERE job_id = ? AND submit_s = ?",
                [(key.job_id, key.submit_s) for key in keys],
            )

    def last_cycle(self) -> int:
        """Number of the last cycle of any daemon on this journal; 0 on a new one."""
        rows = self._read("SELECT value FROM counter WHERE name = 'cycle'")
        return int(rows[0][0]) if rows else 0

    def record_cycle(self, record: CycleRecord) -> None:
        """Counts and durations of a cycle; a second record of the same cycle replaces it."""
        with self._writing("cycle") as db:
            db.execute(
                "INSERT OR REPLACE INTO cycle VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                journal_rows.cycle_row(record),
            )
            _count_cycle(db, record.cycle)

    def cycles(self, last: int = 1) -> tuple[CycleRecord, ...]:
        """The newest cycles, newest first."""
        rows = self._read("SELECT * FROM cycle ORDER BY cycle DESC LIMIT ?", (last,))
        return tuple(map(journal_rows.cycle, rows))

    def record_start(self, record: StartRecord) -> None:
        """One start; see :meth:`record_starts`."""
        self.record_starts((record,))

    def save_restarts(self, restarts: Sequence[Restart]) -> None:
        """What is about to be done, or was seen, of restarts; replaces their last state."""
        with self._writing("restarts") as db:
            db.executemany(
                "INSERT OR REPLACE INTO restart VALUES (?, ?, ?, ?, ?, ?, ?)",
                [journal_rows.restart_row(one) for one in restarts],
            )

    def restarts(self, since_s: EpochS) -> tuple[Restart, ...]:
        """Restarts under way, and those that ended since then; oldest first."""
        sql = (
            "SELECT job_id, submit_s, at_s, stage, since_s, outcome, body FROM restart"
            " WHERE outcome = '' OR since_s >= ? ORDER BY at_s, job_id"
        )
        return tuple(map(journal_rows.restart, self._read(sql, (since_s,))))

    def record_starts(self, records: Sequence[StartRecord]) -> None:
        """Starts in one transaction; a start that is known already changes nothing."""
        rows = [journal_rows.start_row(record) for record in records]
        with self._writing("starts") as db:
            db.executemany(
                "INSERT INTO start (job_id, submit_s, user, policy, planned_rank, planned_nodes,"
                " actual_nodes, planned_s, at_s, same_nodes, why)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                rows,
            )

    def start_share(self, since_s: EpochS) -> StartShare:
        """Starts since then: total, on the planned nodes, the others by reason code."""
        sql = "SELECT same_nodes, why, count(*) FROM start WHERE at_s >= ? GROUP BY 1, 2 ORDER BY 2"
        rows = self._read(sql, (since_s,))
        as_planned = sum(count for same, _, count in rows if same)
        by_why = {why: count for same, why, count in rows if not same}
        return StartShare(as_planned + sum(by_why.values()), as_planned, by_why)

    def record_changes(self, plan: Plan) -> int:
        """A history row for each job whose verdict or first reason code changed; how many."""
        last = {
            key: self._last[key] if key in self._last else self._last_change(key)
            for key in plan.decisions
        }
        now = {key: _gist(decision) for key, decision in plan.decisions.items()}
        changed = [d for key, d in plan.decisions.items() if now[key] != last[key]]
        if changed:
            with self._writing("decisions") as db:
                db.executemany(
                    "INSERT INTO history (job_id, submit_s, at_s, verdict, code, stage, facts,"
                    " would_change, rank, start_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    [journal_rows.change_row(decision, plan.now_s) for decision in changed],
                )
        self._last = now
        return len(changed)

    def _last_change(self, key: JobKey) -> tuple[str, str] | None:
        sql = (
            "SELECT verdict, code FROM history WHERE job_id = ? AND submit_s = ?"
            " ORDER BY id DESC LIMIT 1"
        )
        rows = self._read(sql, (key.job_id, key.submit_s))
        return (rows[0][0], rows[0][1]) if rows else None

    def history(self, key: JobKey) -> tuple[Change, ...]:
        """The changes of one job, oldest first."""
        sql = (
            "SELECT at_s, verdict, code, stage, facts, would_change, rank, start_s FROM history"
            " WHERE job_id = ? AND submit_s = ? ORDER BY id"
        )
        return tuple(map(journal_rows.change, self._read(sql, (key.job_id, key.submit_s))))

    def pause(self, who: str, now_s: EpochS, until_s: EpochS | None = None, why: str = "") -> None:
        """Keep the hands off from now on, across restarts, until ``until_s`` or resume."""
        self._set_pause(1, who, now_s, until_s, why)

    def resume(self, who: str, now_s: EpochS) -> None:
        """End a pause."""
        self._set_pause(0, who, now_s, None, "")

    def _set_pause(self, on: int, who: str, at_s: int, until_s: int | None, why: str) -> None:
        with self._writing("pause") as db:
            sql = "INSERT INTO pause (paused, who, at_s, until_s, why) VALUES (?, ?, ?, ?, ?)"
            db.execute(sql, (on, text(who), at_s, until_s, text(why)))

    def paused(self, now_s: EpochS) -> Pause | None:
        """The pause in force, if any."""
        sql = "SELECT paused, who, at_s, until_s, why FROM pause ORDER BY id DESC LIMIT 1"
        for on, *rest in self._read(sql):
            pause = Pause(*rest)
            if on and (pause.until_s is None or now_s < pause.until_s):
                return pause
        return None

    def prune(
        self, before_s: EpochS, *, routine_before_s: EpochS | None = None, limit: int = 5_000
    ) -> int:
        """Delete records older than ``before_s``, at most ``limit`` a table; how many went.

        Ledger entries, unfinished actions and the last pause stay. ``routine_before_s`` is a
        later bound for successful rankings and lease renewals, which are nearly all actions.
        Bounded so that the decision thread may call it every cycle.
        """
        with journal_file.KIND.reporting(self.path, "could not be pruned"):
            return journal_file.prune(self._db, before_s, routine_before_s, limit)


def _count_cycle(db: sqlite3.Connection, cycle: int) -> None:
    # Kept apart from the cycle rows, so that numbers never repeat after pruning.
    db.execute(
        "INSERT INTO counter VALUES ('cycle', ?) ON CONFLICT (name)"
        " DO UPDATE SET value = max(value, excluded.value)",
        (cycle,),
    )


def _state_of(outcome: Outcome) -> str:
    if outcome.benign:
        return "benign"
    return "ok" if outcome.ok else "error"


def _gist(decision: Decision) -> tuple[str, str]:
    return str(decision.verdict), decision.reasons[0].code if decision.reasons else ""
