"""Planned against actual: what became of the jobs that started since the last cycle."""

from __future__ import annotations

from collections.abc import Mapping, Set

from slurm_ext.model.decision import Decision, Plan, Verdict
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.observation import Observation

from .records import StartRecord

NOT_OURS = (Verdict.UNMANAGED, Verdict.RUNNING)
NOT_PLANNED = (Verdict.WAIT, Verdict.INELIGIBLE)


def starts(
    obs: Observation,
    last: Plan | None,
    ledger: Mapping[JobKey, LedgerEntry],
    known: Set[JobKey],
) -> list[StartRecord]:
    """One record per managed job that is seen started for the first time.

    ``last`` is the plan that was in force, ``known`` the keys recorded already. Jobs that were
    not ours to steer give no record. ``why`` is empty when the planned nodes are the actual ones.
    """
    if last is None:
        return []
    found = []
    for job in obs.jobs:
        if job.key in known or job.start_s is None or not _nodes(job) or job.state.pending:
            continue
        record = _record(job, last, ledger)
        if record is not None:
            found.append(record)
    return found


def _record(job: Job, last: Plan, ledger: Mapping[JobKey, LedgerEntry]) -> StartRecord | None:
    key = job.key
    if job.array_job_id and key not in last.decisions:
        key = JobKey(job.array_job_id, job.key.submit_s)
    decision, entry = last.decisions.get(key), ledger.get(key)
    if decision is not None and decision.verdict in NOT_OURS:
        return None
    planned, planned_s = _planned(decision, entry)
    actual = _nodes(job)
    same = bool(planned) and tuple(sorted(planned)) == actual
    return StartRecord(
        key=job.key,
        user=job.user,
        policy=last.policy,
        planned_rank=_rank(decision, entry),
        planned_nodes=planned,
        actual_nodes=actual,
        planned_s=planned_s,
        start_s=job.start_s if job.start_s is not None else last.now_s,
        same_nodes=same,
        why="" if same else _why(job, decision, entry, planned),
    )


def _nodes(job: Job) -> tuple[str, ...]:
    """Where it runs, or ran: a short job may have ended before it is first seen started."""
    return tuple(sorted(share.node for share in job.alloc)) or tuple(sorted(job.ran_on))


def _planned(
    decision: Decision | None, entry: LedgerEntry | None
) -> tuple[tuple[str, ...], int | None]:
    if entry is not None and entry.released_s is not None and entry.planned_nodes:
        return entry.planned_nodes, entry.released_s
    if decision is not None and decision.placement is not None:
        return decision.placement.nodes, decision.start_s
    return (), None


def _rank(decision: Decision | None, entry: LedgerEntry | None) -> int:
    if decision is not None and decision.rank >= 0:
        return decision.rank
    return entry.planned_rank if entry is not None else -1


def _why(
    job: Job,
    decision: Decision | None,
    entry: LedgerEntry | None,
    planned: tuple[str, ...],
) -> str:
    if decision is None:
        return "started_before_seen"
    if job.array_job_id:
        return "array_task"  # tasks are let go together, without a node of their own
    if decision.verdict in NOT_PLANNED and not planned:
        return "slurm_started_first"
    if entry is not None and entry.pinned:
        return "pin_not_obeyed"
    return "slurm_chose_other_nodes"
