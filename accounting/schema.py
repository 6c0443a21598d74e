"""The history's SQLite schema, as numbered migrations."""

from __future__ import annotations

import sqlite3

from slurm_ext.accounting.record import Attempt
from slurm_ext.accounting.sacct import HistoryError
from slurm_ext.database import Kind
from slurm_ext.slurm.run import escape

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
    (
        """CREATE TABLE used (
  cluster TEXT NOT NULL, job_id INTEGER NOT NULL, submit_s INTEGER NOT NULL,
  cpu_s INTEGER NOT NULL, mem_mib INTEGER, gpu_util REAL,
  PRIMARY KEY (cluster, job_id, submit_s)) STRICT, WITHOUT ROWID""",
    ),
)
"""Statements that lead from version n to n + 1. Never change one that was released."""

COLUMNS = Attempt._fields


KIND = Kind(
    application_id=0x736C7868,  # "slxh"
    migrations=MIGRATIONS,
    error=HistoryError,
    show=escape,
    remedies={
        sqlite3.SQLITE_FULL: "free space on this file system",
        sqlite3.SQLITE_BUSY: "another sync runs: wait for it",
        sqlite3.SQLITE_READONLY: "this user must be able to write file and directory",
        sqlite3.SQLITE_CANTOPEN: "check that the directory exists; `history sync` makes the file",
        sqlite3.SQLITE_CORRUPT: "move it away and sync again: all of it comes from slurmdbd",
        sqlite3.SQLITE_NOTADB: "move it away and sync again: all of it comes from slurmdbd",
    },
    foreign="name another history file",
    newer="move the file away and sync anew",
)
