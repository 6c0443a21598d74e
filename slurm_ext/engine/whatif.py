"""What if a job had asked for something else: the same decide() on a changed observation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from slurm_ext.errors import SlurmExtError
from slurm_ext.model.job import Job, JobKey, Request
from slurm_ext.model.observation import Observation

from .cycle import Step, decide
from .settings import Context

_LIMIT = re.compile(r"^(\d+)(s|m|h|d)?$")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, None: 60}

CHANGES = ("gpus", "nodes", "cpus", "mem", "type", "limit", "partition")
"""What may be asked to be different."""


def changed(job: Job, changes: Mapping[str, str]) -> Job:
    """The job as if it had asked for something else.

    ``gpus`` per node (in all, if the job asked so), ``nodes``, ``cpus`` per node, ``mem`` MiB per
    node, ``type`` of GPU, ``partition``, ``limit`` as 30m, 2h, 1d (a bare number: minutes, as in
    sbatch).

    :raises SlurmExtError: unknown key or a value that is not one.
    """
    for key, value in changes.items():
        if key not in CHANGES:
            raise SlurmExtError(f"--what-if {key}: unknown; known: {', '.join(CHANGES)}")
        if key == "limit":
            job = replace(job, limit_s=_limit_s(value))
        elif key == "partition":
            job = replace(job, partitions=tuple(value.split(",")))
        else:
            job = replace(job, request=_request(job.request, key, value))
    return job


def _limit_s(text: str) -> int:
    found = _LIMIT.match(text)
    if found is None:
        raise SlurmExtError(f"--what-if limit={text}: write minutes, or a number with s, m, h or d")
    return int(found.group(1)) * _UNIT_S[found.group(2)]


def _request(request: Request, key: str, value: str) -> Request:
    if key == "type":
        return replace(request, gpu_type=value)
    if not value.isdecimal():
        raise SlurmExtError(f"--what-if {key}={value}: write a whole number")
    number = int(value)
    if key == "gpus":
        if request.gpus_total:
            return replace(request, gpus_total=number)
        return replace(request, gpus_per_node=number, gpus_per_task=0)
    if key == "nodes":
        return replace(
            request, nodes_min=number, nodes_max=number,
            cpus=max(number, request.cpus * number // max(1, request.nodes_min)),
        )  # fmt: skip
    if key == "cpus":
        return replace(
            request, cpus=number * max(1, request.nodes_min), min_cpus_node=min(number, 1)
        )
    return replace(request, mem_per_node_mib=number, mem_per_cpu_mib=0, mem_per_gpu_mib=0)


def what_if(obs: Observation, ctx: Context, key: JobKey, changes: Mapping[str, str]) -> Step:
    """The decision for the whole queue if one job had asked for something else.

    :raises SlurmExtError: no such waiting job, or a change that cannot be made.
    """
    job = next((j for j in obs.jobs if j.key == key), None)
    if job is None or not job.state.pending:
        raise SlurmExtError(f"job {key.job_id} does not wait; only waiting jobs can be asked about")
    other = changed(job, changes)
    return decide(replace(obs, jobs=tuple(other if j.key == key else j for j in obs.jobs)), ctx)
