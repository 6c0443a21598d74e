"""Small builders for nodes, jobs and observations; the defaults are a plain 4-node cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurm_ext.engine.settings import Context
from slurm_ext.model.decision import Mode
from slurm_ext.model.job import BaseState, Job, JobKey, JobState, NodeShare, Request
from slurm_ext.model.node import GpuGroup, Node
from slurm_ext.model.observation import Controller, Observation, Partition, Reservation
from slurm_ext.model.units import mask_of
from slurm_ext.policies import get

NOW = 1_000_000


def node(
    name: str,
    *,
    gpus: int = 8,
    type: str = "a100",
    types: Mapping[str, int] | None = None,
    used: Sequence[int] = (),
    cpus: int = 64,
    cpus_used: int = 0,
    mem: int = 500_000,
    mem_used: int = 0,
    states: Sequence[str] = ("IDLE",),
    features: Sequence[str] = (),
    threads: int = 1,
) -> Node:
    groups, first = [], 0
    for gpu_type, count in (types or ({type: gpus} if gpus else {})).items():
        groups.append(GpuGroup(gpu_type, mask_of(range(first, first + count))))
        first += count
    return Node(
        name=name,
        states=frozenset(states),
        cpus=cpus,
        cpus_alloc=cpus_used,
        mem_mib=mem,
        mem_alloc_mib=mem_used,
        gpus=tuple(groups),
        gpu_used=mask_of(list(used)),
        gpu_used_count=len(used),
        features=frozenset(features),
        partitions=("gpu",),
        threads_per_core=threads,
    )


def job(
    job_id: int,
    *,
    gpus: int = 0,
    nodes: int = 1,
    cpus: int | None = None,
    mem: int = 0,
    type: str = "",
    limit: int | None = 3600,
    submit: int = NOW - 1000,
    priority: int = 1000,
    state: str = "PENDING",
    flags: Sequence[str] = (),
    on: Mapping[str, int] | None = None,
    end: int | None = None,
    begin: int | None = None,
    request: Request | None = None,
    **fields: object,
) -> Job:
    """A job; ``gpus`` per node, ``cpus`` in all. ``on`` maps node -> GPUs held there (running)."""
    cpus = nodes if cpus is None else cpus
    if request is None:
        request = Request(
            nodes_min=nodes,
            nodes_max=nodes,
            cpus=cpus,
            tasks=nodes,
            gpus_per_node=gpus,
            gpu_type=type,
            mem_per_node_mib=mem,
        )
    alloc = tuple(
        NodeShare(name, max(1, cpus // len(on)), mem, count, 0, type)
        for name, count in (on or {}).items()
    )
    if on is not None:
        state = "RUNNING" if state == "PENDING" else state
    values: dict[str, object] = {
        "key": JobKey(job_id, submit),
        "name": f"job{job_id}",
        "user": "u1",
        "account": "a1",
        "partitions": ("gpu",),
        "state": JobState(BaseState(state), frozenset(flags)),
        "request": request,
        "limit_s": limit,
        "priority": priority,
        "alloc": alloc,
        "begin_s": begin,
        "end_s": end if end is not None else (NOW + 600 if on is not None else None),
        "start_s": NOW - 60 if on is not None else None,
        "reason": "" if on is not None else "Priority",
    }
    values.update(fields)
    return Job(**values)  # type: ignore[arg-type]


def observation(
    nodes: Sequence[Node],
    jobs: Sequence[Job],
    *,
    now: int = NOW,
    reservations: Sequence[Reservation] = (),
    partitions: Sequence[Partition] | None = None,
    config: Mapping[str, str] | None = None,
) -> Observation:
    names = tuple(n.name for n in nodes)
    settings = {
        "prioritytype": "priority/multifactor",
        "selecttypeparameters": "CR_CORE_MEMORY",
        **(config or {}),
    }
    return Observation(
        now_s=now,
        controller=Controller((22, 5, 8), "test", settings),
        jobs=tuple(jobs),
        nodes=tuple(nodes),
        partitions=tuple(partitions or (Partition("gpu", names),)),
        reservations=tuple(reservations),
    )


def context(policy: str = "fifo", mode: Mode = Mode.ENFORCE, **fields: object) -> Context:
    return Context(policy=get(policy), mode=mode, **fields)  # type: ignore[arg-type]
