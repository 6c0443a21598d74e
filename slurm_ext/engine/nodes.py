"""The number of nodes a job asks for, where Slurm does not show it.

Of a running job it shows the nodes of the run without an upper bound; 22.05 goes on so after a
requeue, whatever has been asked for or written since. Tasks and CPUs it shows as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from slurm_ext.model.job import Job, JobKey, Request
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.observation import Observation

from .settings import Context
from .standing import noted


def with_nodes(
    obs: Observation, ledger: Mapping[JobKey, LedgerEntry], fixed: Collection[int] = ()
) -> Observation:
    """The observation with the number of nodes of jobs that have run, as far as it is known.

    ``fixed``: ids of jobs whose user has fixed it (:func:`fixed_nodes`).
    """
    changed = {}
    for job in obs.jobs:
        if not job.request.gpus_per_node or job.request.nodes_max is not None:
            continue
        if job.state.occupies or (job.state.pending and job.restarts):
            request = _asked(job, noted(ledger.get(job.key), job), job.job_id in fixed)
            if request != job.request:
                changed[job.key] = replace(job, request=request)
    if not changed:
        return obs
    return replace(obs, jobs=tuple(changed.get(job.key, job) for job in obs.jobs))


def _asked(job: Job, entry: LedgerEntry | None, fixed: bool) -> Request:
    request = job.request
    nodes = request.nodes_min
    if entry is not None and entry.shape is not None and entry.original_shape is not None:
        # We only give another shape to a job whose number of nodes is fixed, or that has one task.
        fixed = True
        if job.state.pending:
            seen = (request.tasks, request.cpus)
            nodes = next(
                (s.nodes for s in (entry.shape, entry.original_shape) if (s.tasks, s.cpus) == seen),
                nodes,
            )
    return replace(request, nodes_min=nodes, nodes_max=nodes) if fixed else request


def fixed_nodes(obs: Observation, ctx: Context) -> frozenset[int]:
    """Ids of elastic jobs whose user has fixed the number of their nodes, as far as was seen."""
    known = ctx.memory.fixed_nodes
    return frozenset(
        job.job_id
        for job in obs.jobs
        if (annotation := ctx.annotations.get(job.key)) is not None
        and annotation.scaling.kind == "elastic"
        and (
            job.request.nodes_min == job.request.nodes_max
            if job.state.pending and not job.restarts
            else job.job_id in known
        )
    )
