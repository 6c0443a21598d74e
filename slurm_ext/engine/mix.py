"""What jobs ask for, as a few classes with their shares: the mix a placement prepares for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slurm_ext.model.job import Job, Request

from .pool import Demand, demand_of

MAX_CLASSES = 8
"""Classes kept, the most frequent ones: the cost of a placement grows with their number."""


@dataclass(frozen=True, slots=True, order=True)
class TaskClass:
    """What one node gives to one job of a kind; ``share`` of all classes, together 1.

    A job whose GPUs may be spread (``--gpus``) counts with one unit.
    """

    gpus: int
    cpus: int
    mem_mib: int
    gpu_type: str
    share: float


def job_mix(
    jobs: Iterable[Job], *, memory_counts: bool = True, limit: int = MAX_CLASSES
) -> tuple[TaskClass, ...]:
    """The mix of jobs, waiting and running, by number of node shares.

    Jobs without GPUs are left out: whatever they ask, they count the same on all nodes. The
    ``limit`` most frequent classes are kept; order and shares do not depend on the input's order.
    """
    requests: dict[int, tuple[Request, int]] = {}
    for job in jobs:
        request = job.request
        known = requests.get(id(request))
        count = max(1, job.array_count) * max(1, request.nodes_min)
        requests[id(request)] = (request, count + (known[1] if known else 0))
    counts: dict[tuple[int, int, int, str], int] = {}
    for request, count in requests.values():
        if request.gpus:
            key = _class(demand_of(request, memory_counts=memory_counts))
            counts[key] = counts.get(key, 0) + count
    kept = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]
    total = sum(count for _, count in kept)
    return tuple(TaskClass(*key, count / total) for key, count in kept)


def _class(demand: Demand) -> tuple[int, int, int, str]:
    if demand.uniform:
        return demand.gpus, demand.cpus, demand.mem_mib, demand.gpu_type
    # Units without GPUs of a job with GPUs do not exist: unit_gpus is at least one here.
    cpus, mem = max(1, demand.unit_cpus), demand.unit_mem_mib
    return max(1, demand.unit_gpus), cpus, mem, demand.gpu_type
