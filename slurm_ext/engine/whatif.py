"""What if a job had asked for something else: the same decide() on a changed observation."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from difflib import get_close_matches

from slurm_ext.errors import SlurmExtError
from slurm_ext.model.job import Job, JobKey, Request
from slurm_ext.model.observation import Observation

from .cycle import Step, decide
from .settings import Context

_LIMIT = re.compile(r"(\d+)([smhd]?)")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "": 60}
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?")
_MEMORY = re.compile(r"(\d+)([KMGT]?)", re.IGNORECASE)
_UNIT_MIB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024, "": 1}
MOST = 1 << 40

CHANGES = ("gpus", "nodes", "cpus", "mem", "type", "limit", "partition")
"""What may be asked to be different."""

REQUEST_REASONS = frozenset(
    {"PartitionTimeLimit", "PartitionNodeLimit", "PartitionConfig", "BadConstraints"}
)
"""Slurm's refusals of the request itself: another request is judged anew."""


def changed(job: Job, changes: Mapping[str, str]) -> Job:
    """The job as if it had asked for something else.

    ``gpus`` per node (in all, if the job asked so), ``nodes``, ``cpus`` per node, ``mem`` per node
    (MiB, or with K, M, G, T), ``type`` of GPU (``any``), ``partition``, ``limit`` as sbatch(1)
    takes it (minutes, [D-]HH:MM[:SS]) or as 30m, 2h, 1d.

    :raises SlurmExtError: unknown key or a value that is not one.
    """
    for key in changes:
        _known("", key, CHANGES)
    request = job.request
    for key in (k for k in CHANGES if k in changes):  # nodes before what counts per node
        value = changes[key]
        if key == "limit":
            job = replace(job, limit_s=_limit_s(value))
        elif key == "partition":
            job = replace(job, partitions=tuple(value.split(",")))
        else:
            request = _request(request, key, value)
    reason = "" if job.reason in REQUEST_REASONS else job.reason
    return replace(job, request=request, reason=reason)


def _known(key: str, value: str, names: Collection[str]) -> None:
    if value in names:
        return
    near = get_close_matches(value, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names) or 'none'}"
    shown = f"{key}={value[:60]}" if key else value[:60]
    raise SlurmExtError(f"--what-if {shown}: unknown; {hint}")


def _limit_s(text: str) -> int:
    clock, plain = _CLOCK.fullmatch(text), _LIMIT.fullmatch(text)
    if clock is not None:
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        limit_s = days * 86400 + hours * 3600 + minutes * 60 + seconds
        if days == 0 and clock.group(4) is None:  # sbatch(1): minutes:seconds
            limit_s = hours * 60 + minutes
    elif plain is not None:
        limit_s = int(plain.group(1)) * _UNIT_S[plain.group(2)]
    else:
        limit_s = 0
    if not 0 < limit_s < MOST:
        raise SlurmExtError(
            f"--what-if limit={text[:60]}: write minutes, a number with s, m, h or d, or H:MM:SS"
        )
    return limit_s


def _request(request: Request, key: str, value: str) -> Request:
    if key == "type":
        return replace(request, gpu_type="" if value == "any" else value)
    if key == "mem":
        return _memory(request, value)
    number = int(value) if value.isdecimal() and len(value) < 10 else -1
    if number < (0 if key == "gpus" else 1):
        least = "" if key == "gpus" else " of at least 1"
        raise SlurmExtError(f"--what-if {key}={value[:60]}: write a whole number{least}")
    if key == "gpus":
        if request.gpus_total and number:
            return replace(request, gpus_total=number)
        return replace(request, gpus_per_node=number, gpus_per_task=0, gpus_total=0)
    return _nodes(request, number) if key == "nodes" else _cpus(request, number)


def _nodes(request: Request, number: int) -> Request:
    """Tasks and CPUs per node stay as they are."""
    before = max(1, request.nodes_min)
    tasks = request.tasks
    if tasks == before or request.tasks_per_node:
        tasks = number * max(1, request.tasks_per_node)
    return replace(
        request, nodes_min=number, nodes_max=number, tasks=max(tasks, number),
        cpus=max(number, request.cpus * number // before),
    )  # fmt: skip


def _cpus(request: Request, number: int) -> Request:
    nodes = max(1, request.nodes_min)
    tasks = request.tasks_per_node or -(-request.tasks // nodes)
    if number < tasks:
        raise SlurmExtError(
            f"--what-if cpus={number}: it starts {tasks} tasks on a node, each needs a CPU"
        )
    return replace(
        request, cpus=number * nodes, cpus_per_task=number // tasks, cpus_per_gpu=0,
        min_cpus_node=number,
    )  # fmt: skip


def _memory(request: Request, value: str) -> Request:
    found = _MEMORY.fullmatch(value)
    mib = int(found.group(1)) * _UNIT_MIB[found.group(2).upper()] if found else 0
    if not 0 < mib < MOST:
        raise SlurmExtError(f"--what-if mem={value[:60]}: write MiB, or a number with K, M, G or T")
    return replace(
        request, mem_per_node_mib=max(1, int(mib)), mem_per_cpu_mib=0, mem_per_gpu_mib=0,
        mem_whole_node=False,
    )  # fmt: skip


def what_if(obs: Observation, ctx: Context, key: JobKey, changes: Mapping[str, str]) -> Step:
    """The decision for the whole queue if one job had asked for something else.

    :raises SlurmExtError: no such waiting job, or a change that cannot be made.
    """
    job = next((j for j in obs.jobs if j.key == key), None)
    if job is None or not job.state.pending:
        raise SlurmExtError(f"job {key.job_id} does not wait; only waiting jobs can be asked about")
    other = changed(job, changes)
    if "type" in changes:
        _known(
            "type", changes["type"], [*sorted({g.type for n in obs.nodes for g in n.gpus}), "any"]
        )
    for name in other.partitions if "partition" in changes else ():
        _known("partition", name, [p.name for p in obs.partitions])
    return decide(replace(obs, jobs=tuple(other if j.key == key else j for j in obs.jobs)), ctx)
