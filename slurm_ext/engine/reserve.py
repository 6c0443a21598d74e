"""Guarding a promise: whole nodes reserved in Slurm for the first blocked job.

A lease keeps the jobs we manage off the promised nodes; the reservation keeps everybody else off.
It is short, named after the job, open only to the job's user, magnetic (so the job itself may run
in it without being changed) and NO_HOLD_JOBS_AFTER (so its end holds nobody). Whole nodes only:
parts of a node with GPUs cannot be reserved reliably before Slurm 25.11.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurm_ext.model.decision import Fence, Mode, ReservationSpec
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.observation import Observation, Reservation
from slurm_ext.model.units import EpochS

from .settings import LeverSettings

PREFIX = "slurm_ext_"
FLAGS = ("MAGNETIC", "IGNORE_JOBS", "NO_HOLD_JOBS_AFTER")


def name_for(key: JobKey) -> str:
    """The reservation of one job; the submit time keeps a wrapped job id apart."""
    return f"{PREFIX}{key.job_id}_{key.submit_s}"


def job_id_of(name: str) -> int | None:
    """The job a reservation of ours belongs to; None for foreign names."""
    if not name.startswith(PREFIX):
        return None
    digits = name.removeprefix(PREFIX).partition("_")[0]
    return int(digits) if digits.isdecimal() else None


def reservations(
    obs: Observation,
    fences: Sequence[Fence],
    modes: Mapping[str, Mode],
    levers: LeverSettings,
) -> tuple[list[ReservationSpec], list[str]]:
    """(to create, to delete) so that exactly the wanted reservations of ours exist.

    A reservation is kept while its job is still promised the same nodes; it lapses by itself soon
    after the planned start. When the job can start (often before its promise) it is deleted first:
    a magnetic reservation that has not begun keeps its own job waiting (seen on 22.05).
    """
    if not levers.reserve_min_nodes and not obs.reservations:
        return [], []
    jobs = {j.key: j for j in obs.jobs}
    gpus = {n.name: n.gpu_count for n in obs.nodes}
    wanted = {
        name_for(f.key): f
        for f in fences
        if levers.reserve_min_nodes and _qualifies(f, jobs[f.key], obs.now_s, gpus, modes, levers)
    }
    # A job that runs in it: Slurm refuses to delete it, and it lapses by itself.
    keep = {name_for(j.key) for j in obs.jobs if j.state.occupies}
    create, delete = [], []
    existing: dict[str, Reservation] = {
        r.name: r for r in obs.reservations if job_id_of(r.name) is not None
    }
    for name, found in existing.items():
        fence = wanted.get(name)
        if fence is not None and set(found.nodes) != set(fence.placement.nodes):
            delete.append(name)  # made anew next cycle, on the nodes planned now
        elif fence is None and name not in keep:
            delete.append(name)
    for name, fence in wanted.items():
        if name not in existing:
            create.append(_spec(name, fence, jobs[fence.key], obs.now_s, levers))
    return create, sorted(delete)


def _qualifies(
    fence: Fence,
    job: Job,
    now_s: EpochS,
    gpus: Mapping[str, int],
    modes: Mapping[str, Mode],
    levers: LeverSettings,
) -> bool:
    whole = all(share.gpus >= gpus[share.node] > 0 for share in fence.placement.shares)
    soon = fence.start_s - now_s <= levers.lease_s
    enforced = all(modes.get(p) is Mode.ENFORCE for p in job.partitions)
    return whole and soon and enforced and len(fence.placement.shares) >= levers.reserve_min_nodes


def _spec(
    name: str, fence: Fence, job: Job, now_s: EpochS, levers: LeverSettings
) -> ReservationSpec:
    start_s = max(now_s, fence.start_s)
    return ReservationSpec(
        name=name,
        start_s=start_s,
        duration_s=max(60, levers.lease_s),
        nodes=fence.placement.nodes,
        users=(job.user,),
        flags=FLAGS,
    )
