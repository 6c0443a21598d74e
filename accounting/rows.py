"""One row of sacct's text into an :class:`~slurm_ext.accounting.record.Attempt`.

Columns are found by name, so that a site's own dump may have any order and choice of them;
raw and readable forms are both understood (``ElapsedRaw`` and ``Elapsed``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from slurm_ext.accounting.record import (
    ANNOTATION_MARK,
    MAX_RUN_S,
    Attempt,
    Outcome,
    is_open,
    is_waiting,
    outcome_of,
    state_of,
    state_word,
)
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.times import Special, duration_s, known, moment_s
from slurm_ext.slurm.tres import Tres, mem_mib, parse_tres

NEEDED = (("jobidraw", "jobid"), ("submit",), ("state",), ("elapsedraw", "elapsed"))
USER_CONTROLLED = ("jobname", "comment")
WAITING = "still waiting"
"""The reason of rows that are no attempt yet: nothing is wrong with them."""
STEP = "a step, not a job"
QUIET = frozenset({WAITING, STEP})
"""Reasons that are no fault of the row."""

_TASK = re.compile(r"(\d{1,12})_(\d{1,12})", re.ASCII)
_MEM_SUFFIX = re.compile(r"[nc]$")


class RowReader:
    """Reads rows of one header; ``reader(fields)`` gives an attempt or the reason to skip it."""

    def __init__(self, header: Sequence[str]) -> None:
        self.at = {name.strip().lower(): i for i, name in enumerate(header)}
        self.width = len(header)

    @property
    def missing(self) -> list[str]:
        """Columns without which no attempt can be made."""
        return [names[0] for names in NEEDED if not any(name in self.at for name in names)]

    def get(self, fields: Sequence[str], *names: str) -> str:
        """The first of these columns that is there, else empty."""
        for name in names:
            i = self.at.get(name)
            if i is not None:
                return fields[i]
        return ""

    def __call__(self, fields: Sequence[str]) -> Attempt | str:
        get = self.get
        if len(fields) != self.width:
            return "wrong number of fields"
        raw_id = get(fields, "jobidraw", "jobid")
        if "." in raw_id:
            return STEP
        job_id = _number(raw_id.partition("_")[0].partition("+")[0])
        if job_id is None:
            return "unreadable job id"
        state, uid = state_of(get(fields, "state"))
        if is_waiting(state):
            return WAITING
        word = state_word(state)
        if word in ("", "REVOKED"):
            return "unknown state" if not word else "revoked sibling of a federation"
        submit_s = known(_moment(get(fields, "submit")))
        if submit_s is None:
            return "unreadable submit time"
        run_s = _elapsed(self, fields)
        if run_s is None or not 0 <= run_s <= MAX_RUN_S:
            return "impossible elapsed time"
        start_s = known(_moment(get(fields, "start")))
        end_s = None if is_open(state) else known(_moment(get(fields, "end")))
        if start_s is not None and end_s is not None and end_s < start_s:
            return "ends before it starts"
        started = start_s is not None if "start" in self.at else run_s > 0
        outcome = outcome_of(state, started=started, run_s=run_s)
        if end_s is None and not is_open(state):
            end_s = (start_s if start_s is not None else submit_s) + run_s
        return self._build(fields, job_id, submit_s, word, outcome, uid, start_s, end_s, run_s)

    def _build(
        self, fields: Sequence[str], job_id: int, submit_s: EpochS, word: str, outcome: Outcome,
        uid: int, start_s: EpochS | None, end_s: EpochS | None, run_s: int,
    ) -> Attempt:  # fmt: skip
        get = self.get
        asked, held = parse_tres(get(fields, "reqtres")), parse_tres(get(fields, "alloctres"))
        limit_s, limit_word = limit_of(get(fields, "timelimitraw"), get(fields, "timelimit"))
        array_job, task = _array(get(fields, "jobid"))
        comment = get(fields, "comment")
        return Attempt(
            cluster=get(fields, "cluster"),
            job_id=job_id,
            submit_s=submit_s,
            array_job_id=array_job,
            array_task_id=task,
            user=get(fields, "user"),
            account=get(fields, "account"),
            partition=get(fields, "partition"),
            qos=get(fields, "qos"),
            name=_stored(get(fields, "jobname")),
            state=word,
            outcome=outcome.value,
            killed_by_uid=uid,
            eligible_s=known(_moment(get(fields, "eligible"))),
            start_s=start_s,
            end_s=end_s,
            run_s=run_s,
            limit_s=limit_s,
            limit_word=limit_word,
            gpus_req=asked.gpus or held.gpus,
            gpus_alloc=held.gpus,
            gpu_type=gpu_type(asked, held),
            cpus_req=asked.cpus or _number(get(fields, "reqcpus")) or held.cpus,
            cpus_alloc=held.cpus or _number(get(fields, "alloccpus", "ncpus")) or 0,
            mem_req_mib=asked.mem_mib or _memory(get(fields, "reqmem")),
            nodes=held.nodes or _number(get(fields, "allocnodes", "nnodes")) or 0,
            annotation=_stored(comment) if ANNOTATION_MARK in comment else "",
        )


def gpu_type(asked: Tres, held: Tres) -> str:
    """The one type of all GPUs asked for; of those held only where no request is recorded.

    A request for any GPU must stay one: it is what jobs in the queue are compared with.
    """
    return asked.gpu_type if asked.gpus else held.gpu_type


@lru_cache(maxsize=4096)
def limit_of(raw_minutes: str, readable: str) -> tuple[int | None, str]:
    """Limit in seconds and, without one, the word that stood there (``Partition_Limit``)."""
    minutes = _number(raw_minutes)
    if minutes is not None:
        return minutes * 60, ""
    value = duration_s(readable) if readable else Special.UNSET
    if isinstance(value, int):
        return value, ""
    word = (raw_minutes or readable).strip().upper()
    return None, word if word in ("UNLIMITED", "PARTITION_LIMIT") else ""


def _elapsed(reader: RowReader, fields: Sequence[str]) -> int | None:
    raw = reader.get(fields, "elapsedraw")
    if raw:
        return _number(raw)
    text = reader.get(fields, "elapsed")
    # A bare number would be minutes in a limit, but sacct prints elapsed as [D-]HH:MM:SS only.
    return known(duration_s(text)) if ":" in text else None


def _moment(text: str) -> EpochS | Special:
    if text.isdecimal() and text.isascii():
        value = int(text)
        # 0 and Slurm's NO_VAL stand for "never".
        return value if 0 < value < 0xFFFFFFF0 else Special.UNSET
    return moment_s(text)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 16 else None


def _array(text: str) -> tuple[int, int]:
    found = _TASK.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else (0, -1)


def _memory(text: str) -> int:
    return mem_mib(_MEM_SUFFIX.sub("", text.strip())) or 0


def _stored(text: str, limit: int = 512) -> str:
    """Foreign text as the database may hold it: valid Unicode, bounded."""
    return text[:limit].encode("utf-8", "backslashreplace").decode("utf-8")
