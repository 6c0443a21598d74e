"""One attempt of one job, as accounting keeps it; units are seconds, MiB and GPUs.

An attempt is one run: a requeued job has several, each with a submit time of its own
(sacct(1), ``--duplicates``). Only an attempt that ended by itself is a run time beyond doubt; of
the others (right-censored), :func:`ending` tells who ended it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from slurm_ext.model.job import BaseState, JobState
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.states import job_state_of_text


class Outcome(StrEnum):
    """What an attempt teaches about run times."""

    ENDED = "ended"
    CENSORED = "censored"
    NEVER_RAN = "never_ran"


class Attempt(NamedTuple):
    """One row of the store; a named tuple because a million of them go into SQLite.

    ``limit_s`` None: none or not known, ``limit_word`` says which (``UNLIMITED``,
    ``PARTITION_LIMIT``, empty where nothing was shown). ``end_s`` None: still open.
    ``*_req`` is what was asked for (known before the start), ``*_alloc`` what was held.
    ``killed_by_uid`` -1: nobody. ``annotation``: only a Comment that is addressed to us.
    """

    cluster: str
    job_id: int
    submit_s: EpochS
    array_job_id: int
    array_task_id: int
    user: str
    account: str
    partition: str
    qos: str
    name: str
    state: str
    outcome: str
    killed_by_uid: int
    eligible_s: EpochS | None
    start_s: EpochS | None
    end_s: EpochS | None
    run_s: int
    limit_s: int | None
    limit_word: str
    gpus_req: int
    gpus_alloc: int
    gpu_type: str
    cpus_req: int
    cpus_alloc: int
    mem_req_mib: int
    nodes: int
    annotation: str

    @property
    def open(self) -> bool:
        """Whether it still ran when it was read."""
        return self.end_s is None


_BY_ITSELF = frozenset({BaseState.COMPLETED, BaseState.FAILED, BaseState.OUT_OF_MEMORY})
_OPEN = frozenset({BaseState.RUNNING, BaseState.SUSPENDED})
_STOPPED = frozenset(
    {
        BaseState.TIMEOUT, BaseState.PREEMPTED, BaseState.NODE_FAIL, BaseState.CANCELLED,
        BaseState.DEADLINE,
    }
)  # fmt: skip
ITSELF, BY_USER, FROM_OUTSIDE = 1.0, 0.5, 0.0
"""How an attempt ended: of its own accord; cancelled or at its limit, so that this is how long the
request held what it asked for; or cut short by others, so that it would have run longer."""
_USER_STOPPED = frozenset({"CANCELLED", "TIMEOUT", "DEADLINE"})
_ATTEMPT_FLAGS = ("REQUEUED", "RESIZING", "SPECIAL_EXIT", "REQUEUE_HOLD")
"""Flags that end an attempt although the base state goes on (PENDING, REQUEUED is one run)."""

ANNOTATION_MARK = "slurm_ext:"
MAX_RUN_S = 20 * 366 * 86400
"""An elapsed time beyond this is a broken clock, not a job."""


def state_word(state: JobState) -> str:
    """The one word kept for a state, or empty if it is unknown to us."""
    for flag in _ATTEMPT_FLAGS:
        if flag in state.flags:
            return flag
    if "REVOKED" in state.flags:
        return "REVOKED"
    return "" if state.base is BaseState.UNKNOWN else state.base.value


def state_of(text: str) -> tuple[JobState, int]:
    """State and the uid that cancelled it (-1: nobody): ``CANCELLED by 1000``."""
    uid = -1
    words = text.split()
    if len(words) == 3 and words[1] == "by" and words[2].isdecimal():
        uid = int(words[2])
    return job_state_of_text(text), uid


def is_open(state: JobState) -> bool:
    """Whether the attempt goes on."""
    return state.base in _OPEN and not any(flag in state.flags for flag in _ATTEMPT_FLAGS)


def is_waiting(state: JobState) -> bool:
    """Pending and not the remains of an attempt: nothing to learn yet."""
    return state.base is BaseState.PENDING and not any(f in state.flags for f in _ATTEMPT_FLAGS)


def ending(attempt: Attempt) -> float:
    """How it ended, as a number for the samples."""
    if attempt.outcome == Outcome.ENDED:
        return ITSELF
    return BY_USER if attempt.state in _USER_STOPPED else FROM_OUTSIDE


def outcome_of(state: JobState, *, started: bool, run_s: int) -> Outcome:
    """What the attempt teaches.

    ``BOOT_FAIL`` never ran the user's program; a job that was cancelled within its first second
    is taken as cancelled before the start (22.05 shows AllocCPUS 1 for it).
    """
    flagged = any(flag in state.flags for flag in _ATTEMPT_FLAGS)
    if not started or state.base is BaseState.BOOT_FAIL:
        return Outcome.NEVER_RAN
    if flagged or state.base in _OPEN or state.base in _STOPPED:
        return Outcome.CENSORED if run_s > 0 else Outcome.NEVER_RAN
    return Outcome.ENDED if state.base in _BY_ITSELF else Outcome.NEVER_RAN
