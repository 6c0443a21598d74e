"""Requeueing running jobs within the guard's limits, without Slurm's two minutes of waiting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.engine.restart import COOL_S
from slurm_ext.engine.view import REQUEUE_DELAY_S
from slurm_ext.model.decision import JobPatch, Lever
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.port import SlurmPort

from .config_sections import GuardConfig
from .journal import Journal


@dataclass(frozen=True, slots=True)
class Requeued:
    """What became of one job: ``done``, or the reason why not."""

    key: JobKey
    address: str
    done: bool
    why: str = ""


def refusal(job: Job, guard: GuardConfig, now_s: EpochS, *, done_this_hour: int) -> str:
    """Why a job must not be requeued, or empty."""
    if not job.state.running or job.state.completing:
        return "it is not running"
    if not job.batch:
        return "interactive jobs cannot be requeued"
    if job.cron or job.het_job_id:
        return "scrontab and heterogeneous jobs are left to Slurm"
    if job.requeueable is False:
        return "it was submitted with --no-requeue"
    ran_s = now_s - (job.start_s if job.start_s is not None else now_s)
    if ran_s < guard.min_runtime_before_requeue_s:
        return (
            f"it has run {ran_s} s; guard.min_runtime_before_requeue_s is "
            f"{guard.min_runtime_before_requeue_s}"
        )
    if done_this_hour >= guard.max_requeues_per_hour:
        return f"guard.max_requeues_per_hour ({guard.max_requeues_per_hour}) is used up"
    return ""


def requeue(
    port: SlurmPort, journal: Journal, jobs: Sequence[Job], guard: GuardConfig, now_s: EpochS
) -> list[Requeued]:
    """Requeue each job that the guard allows; intents are noted first.

    The job's own checkpoint is its own affair: Slurm sends SIGTERM at once, and SIGKILL after
    KillWait. :func:`delayed` tells how to take off the delay.
    """
    budget = journal.requeues_since(now_s - 3600)
    results: list[Requeued] = []
    chosen: list[Job] = []
    for job in jobs:
        why = refusal(job, guard, now_s, done_this_hour=budget + len(chosen))
        if why:
            results.append(Requeued(job.key, job.address, False, why))
        else:
            chosen.append(job)
    if not chosen:
        return results
    patches = [JobPatch(j.key, j.address, Lever.REQUEUE, why="operator") for j in chosen]
    ids = journal.commit_intents((), patches, journal.last_cycle(), now_s)
    outcomes = port.requeue([(j.key, j.address) for j in chosen])
    journal.record_outcomes(ids, outcomes, now_s)
    for job, outcome in zip(chosen, outcomes, strict=True):
        results.append(Requeued(job.key, job.address, outcome.ok, outcome.detail))
    return results


def delayed(jobs: Sequence[Job], requeued: Sequence[JobKey], now_s: EpochS) -> list[JobPatch]:
    """Patches that let requeued jobs wait no longer than the queue makes them.

    Only a begin time that Slurm itself can have set: the user's own ``--begin`` had passed, since
    the job has run before.
    """
    ids = {key.job_id for key in requeued}
    return [
        JobPatch(
            j.key, j.address, Lever.RELEASE, begin_s=now_s + COOL_S, why="requeue_delay"
        )
        for j in jobs
        if j.job_id in ids
        and j.state.pending
        and j.begin_s is not None
        and COOL_S < j.begin_s - now_s <= REQUEUE_DELAY_S
    ]  # fmt: skip
