"""Free GPUs that nobody can use, who is in the way, and the fewest moves that make room.

*Stranded*: free GPUs of a node whose free CPUs or memory do not suffice for them. *Fragments*: the
other free GPUs of nodes that could give one node's share of the target if they were empty, but
not now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slurm_ext.model.decision import Placement
from slurm_ext.model.job import BaseState, Job, JobKey, JobState, Request
from slurm_ext.model.observation import Observation

from .account import node_share, pool_of
from .allow import Allowance, Allowed
from .displace import Movable, cheapest
from .policy import NodePreference
from .pool import Demand, Pool, demand_of
from .search import fit, place, possible
from .settings import Context

LISTED = 100
"""Nodes described one by one, those with the most GPUs lost first."""


@dataclass(frozen=True, slots=True)
class PerGpu:
    """What a GPU needs beside itself to be of use: CPUs, MiB."""

    cpus: int = 1
    mem_mib: int = 0


@dataclass(frozen=True, slots=True)
class NodeLoss:
    """Free GPUs of one node that are of no use. ``short``: ``cpus``, ``memory`` or nothing.

    ``culprits``: who holds most of what is short, or the fewest jobs that keep a share of the
    target off the node.
    """

    node: str
    gpus: int
    free: int
    stranded: int
    fragments: int
    short: str
    culprits: tuple[JobKey, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A running job that has to end or go elsewhere; ``elsewhere``: nodes that would take it."""

    key: JobKey
    nodes: tuple[str, ...]
    gpus: int
    elsewhere: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """How the target gets its room. ``verdict``: ``fits``, ``moves``, or ``never``.

    ``fewest``: no smaller set of moves exists (else the smallest that was found).
    """

    verdict: str
    placement: Placement | None = None
    moves: tuple[Move, ...] = ()
    fewest: bool = True


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """GPUs of usable nodes: all, free, free on nodes without any job, stranded, in fragments.

    ``stranded_cpus``: stranded for want of CPUs, the others for want of memory.
    """

    gpus: int
    free: int
    whole_nodes: int
    stranded: int
    stranded_cpus: int
    fragments: int
    unusable: int
    per_gpu: PerGpu
    losses: tuple[NodeLoss, ...]
    unlisted: int
    room: Room | None


def per_gpu_of(jobs: Sequence[Job]) -> PerGpu:
    """The median need beside a GPU of the jobs that wait or run; one CPU if there is none."""
    cpus, mem = [], []
    for job in jobs:
        demand = demand_of(job.request)
        gpus = demand.gpus if demand.uniform else demand.unit_gpus
        if gpus:
            each = demand.cpus if demand.uniform else demand.unit_cpus
            mib = demand.mem_mib if demand.uniform else demand.unit_mem_mib
            cpus.append(-(-each // gpus))
            mem.append(-(-mib // gpus))
    if not cpus:
        return PerGpu()
    return PerGpu(max(1, sorted(cpus)[len(cpus) // 2]), sorted(mem)[len(mem) // 2])


def largest_waiting(obs: Observation, waiting: Sequence[JobKey]) -> Job | None:
    """Of the jobs that wait for room, the one that asks for most GPUs; the first if equal."""
    jobs = {j.key: j for j in obs.jobs}
    with_gpus = [jobs[k] for k in waiting if k in jobs and jobs[k].request.gpus]
    return max(with_gpus, key=lambda j: j.request.gpus, default=None)


def target(
    obs: Observation, gpus: int, nodes: int, gpu_type: str, partition: str, need: PerGpu
) -> Job:
    """A job that asks for ``gpus`` in all on ``nodes`` (0: the fewest), not really there.

    :raises ValueError: no node has such GPUs, or they cannot be shared out evenly.
    """
    names = next((set(p.nodes) for p in obs.partitions if p.name == partition), set())
    sizes = [
        sum(g.count for g in n.gpus if not gpu_type or g.type == gpu_type)
        for n in obs.nodes
        if n.name in names
    ]
    most = max(sizes, default=0)
    if not most:
        kind = f"GPUs of type {gpu_type}" if gpu_type else "GPUs"
        raise ValueError(f"no node of partition {partition} has {kind}")
    nodes = nodes or -(-gpus // most)
    if gpus % nodes:
        raise ValueError(f"{gpus} GPUs cannot be shared out evenly over {nodes} nodes")
    each = gpus // nodes
    request = Request(
        nodes_min=nodes, nodes_max=nodes, tasks=nodes, cpus=nodes * each * need.cpus,
        gpus_per_node=each, gpu_type=gpu_type, mem_per_node_mib=each * need.mem_mib,
    )  # fmt: skip
    return Job(
        key=JobKey(0, obs.now_s), name="", user="", account="", partitions=(partition,),
        state=JobState(BaseState.PENDING), request=request, limit_s=0,
    )  # fmt: skip


def fragmentation(
    obs: Observation, ctx: Context, need: PerGpu, wanted: Job | None, *, moves: bool = True
) -> Fragmentation:
    """What is lost now, for ``wanted`` if there is such a job. Changes nothing, decides nothing.

    ``moves``: also look for the fewest moves that make room, which takes the most time.
    """
    running = [j for j in obs.jobs if j.state.occupies]
    pool, preference = pool_of(obs, ctx), ctx.policy.placement
    allowance = Allowance(pool, obs)
    free = pool.typed(pool.free, "").copy()  # the search for moves changes the pool meanwhile
    usable = np.array([n.usable for n in pool.nodes], dtype=np.bool_)
    by_cpus = pool.usable_cpus(pool.free) // max(1, need.cpus)
    by_mem = pool.free.mem // need.mem_mib if need.mem_mib and pool.memory_counts else free
    stranded = np.where(usable, np.maximum(free - np.minimum(by_cpus, by_mem), 0), 0)
    fragments = np.zeros_like(free)
    shape = _Shape.of(pool, allowance, wanted, obs.now_s) if wanted is not None else None
    if shape is not None:
        fits = fit(pool, pool.free, shape.share, shape.allowed.static).ok
        could = fit(pool, pool.capacity, shape.share, shape.allowed.static).ok
        typed = pool.typed(pool.free, shape.share.gpu_type)
        fragments = np.where(usable & could & ~fits, np.minimum(typed, free - stranded), 0)
    lost = stranded + fragments
    order = [int(i) for i in np.lexsort((np.arange(len(lost)), -lost)) if lost[i]]
    on_node = _jobs_by_node(running)
    losses = []
    for i in order[:LISTED]:
        short = "" if not stranded[i] else "cpus" if by_cpus[i] <= by_mem[i] else "memory"
        name = pool.nodes[i].name
        here = on_node.get(name, [])
        if short:
            culprits = _holder(pool, i, here, short)
        else:
            assert shape is not None
            culprits = _in_the_way(pool, i, here, shape, preference)
        losses.append(NodeLoss(
            name, pool.nodes[i].gpu_count, int(free[i]), int(stranded[i]),
            int(fragments[i]), short, culprits,
        ))  # fmt: skip
    return Fragmentation(
        gpus=sum(n.gpu_count for n in obs.nodes if n.usable),
        free=int(free[usable].sum()),
        whole_nodes=int(free[usable & (pool.free.jobs == 0)].sum()),
        stranded=int(stranded.sum()),
        stranded_cpus=int(stranded[by_cpus <= by_mem].sum()),
        fragments=int(fragments.sum()),
        unusable=sum(n.gpu_count for n in obs.nodes if not n.usable),
        per_gpu=need,
        losses=tuple(losses),
        unlisted=max(0, len(order) - LISTED),
        room=_room(obs, pool, allowance, shape, running, preference) if shape and moves else None,
    )


@dataclass(frozen=True, slots=True)
class _Shape:
    """The target: whole demand, the share of one node, and where it may run."""

    demand: Demand
    share: Demand
    allowed: Allowed

    @staticmethod
    def of(pool: Pool, allowance: Allowance, wanted: Job, now_s: int) -> _Shape:
        demand = demand_of(wanted.request, memory_counts=pool.memory_counts)
        share = node_share(demand, pool)
        return _Shape(demand, share, allowance.of(wanted, now_s, wanted.limit_s or 0))


def _jobs_by_node(running: Sequence[Job]) -> dict[str, list[Job]]:
    found: dict[str, list[Job]] = {}
    for job in running:
        for share in job.alloc:
            found.setdefault(share.node, []).append(job)
    return found


def _holder(pool: Pool, node: int, here: Sequence[Job], short: str) -> tuple[JobKey, ...]:
    """Who holds most beyond the part that goes with its GPUs."""
    record = pool.nodes[node]
    per_gpu = (record.cpus if short == "cpus" else record.mem_mib) / max(1, record.gpu_count)

    def beyond(job: Job) -> float:
        shares = [s for s in job.alloc if s.node == record.name]
        return sum((s.cpus if short == "cpus" else s.mem_mib) - s.gpus * per_gpu for s in shares)

    worst = max(here, key=lambda j: (beyond(j), -j.job_id), default=None)
    return (worst.key,) if worst is not None and beyond(worst) > 0 else ()


def _in_the_way(
    pool: Pool, node: int, here: Sequence[Job], shape: _Shape, preference: NodePreference
) -> tuple[JobKey, ...]:
    only = np.zeros_like(shape.allowed.nodes)
    only[node] = True
    allowed = replace(shape.allowed, nodes=only, required=())
    found = cheapest(pool, shape.share, allowed, preference, _movable(here))
    return tuple(m.key for m in found.movable) if found is not None else ()


def _movable(jobs: Sequence[Job]) -> list[Movable]:
    """Every job costs one move; among equal numbers of moves, the fewest GPUs."""
    return [
        Movable(j.key, 1 + sum(s.gpus for s in j.alloc) / 65536, j.alloc)
        for j in jobs
        if not j.state.completing
    ]


def _room(
    obs: Observation,
    pool: Pool,
    allowance: Allowance,
    shape: _Shape,
    running: Sequence[Job],
    preference: NodePreference,
) -> Room:
    capacity = pool.capacity
    if not possible(pool, capacity, shape.demand, shape.allowed.nodes, shape.allowed.required):
        return Room("never")
    found = cheapest(pool, shape.demand, shape.allowed, preference, _movable(running))
    if found is None:
        return Room("never")
    if not found.movable:
        return Room("fits", found.placement)
    jobs = {j.key: j for j in running}
    mark = pool.checkpoint()
    for movable in found.movable:
        pool.give(movable.shares)
    pool.take(found.placement.shares)
    moves = []
    for movable in sorted(found.movable, key=lambda m: m.key):
        job = jobs[movable.key]
        other = _elsewhere(obs, pool, allowance, job, preference)
        if other is not None:
            pool.take(other.shares)
        moves.append(Move(
            job.key, tuple(s.node for s in job.alloc), sum(s.gpus for s in job.alloc),
            other.nodes if other is not None else (),
        ))  # fmt: skip
    pool.rollback(mark)
    return Room("moves", found.placement, tuple(moves), found.optimal)


def _elsewhere(
    obs: Observation, pool: Pool, allowance: Allowance, job: Job, preference: NodePreference
) -> Placement | None:
    left_s = max(0, (job.end_s or obs.now_s) - obs.now_s)
    allowed = allowance.of(job, obs.now_s, left_s)
    demand = demand_of(job.request, memory_counts=pool.memory_counts)
    found = place(pool, pool.free, demand, allowed.nodes, preference, required=allowed.required)
    return found[0] if found else None
