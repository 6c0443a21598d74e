"""What one decision can be defended with beside its reasons: neighbours, factors, node shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slurm_ext.model.decision import Decision, Plan, Verdict
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.node import Node
from slurm_ext.model.observation import Observation

from .allow import Allowance
from .cycle import carried
from .mix import job_mix
from .policy import Factor, Summed, beside
from .pool import Demand, Pool, demand_of
from .search import fit
from .settings import Context
from .view import JobView, look_at

SCORE = "neg_score"
"""The term of :mod:`parts.weighted` that factors explain."""


@dataclass(frozen=True, slots=True)
class Decisive:
    """Why one job is ahead of another: the first term that differs, and, where that is a sum, the
    factor that contributes most to the difference. Values of the job ahead and the one behind.

    ``term`` is ``job`` if all terms are equal: then the older job id goes first.
    """

    term: str
    factor: str
    ahead: float
    behind: float


@dataclass(frozen=True, slots=True)
class ShapeRoom:
    """Nodes of one shape in the job's partitions, as they are once what starts now has started.

    ``fit``: nodes with room for one node's share of the job now; ``could``: nodes that had it if
    they were empty. ``best_…``: the most that is free on one usable node.
    """

    gpus: Mapping[str, int]
    cpus: int
    mem_mib: int
    nodes: int
    usable: int
    fit: int
    could: int
    best_gpus: int
    best_cpus: int
    best_mem_mib: int


def views_of(obs: Observation, ctx: Context, keys: Sequence[JobKey]) -> list[JobView]:
    """The views decide() ranked, in its order."""
    wanted, ctx = set(keys), replace(ctx, ledger={**ctx.ledger, **carried(obs, ctx.ledger)})
    found = [look_at(j, obs, ctx) for j in obs.jobs if j.key in wanted]
    views = {v.key: v for v in found if isinstance(v, JobView)}
    return [views[k] for k in keys if k in views]


def factors(
    obs: Observation, ctx: Context, order: Sequence[JobKey]
) -> Mapping[JobKey, tuple[Factor, ...]]:
    """What the ranks were summed up from; empty for a policy that does not sum."""
    running = [j for j in obs.jobs if j.state.occupies]
    ordering = beside(ctx.policy.ordering, running, ctx.annotations)
    if not isinstance(ordering, Summed):
        return {}
    views = views_of(obs, ctx, order)
    return {
        v.key: made_of
        for v, made_of in zip(views, ordering.factors(views, obs.now_s), strict=True)
    }  # fmt: skip


def decisive(
    ahead: Decision, behind: Decision, made_of: Mapping[JobKey, tuple[Factor, ...]]
) -> Decisive:
    """What put one job before the other."""
    for mine, other in zip(ahead.terms, behind.terms, strict=True):
        if mine.value == other.value:
            continue
        pairs = list(zip(made_of.get(ahead.key, ()), made_of.get(behind.key, ()), strict=True))
        if mine.name == SCORE and pairs:
            most, other_factor = max(pairs, key=lambda p: p[0].contribution - p[1].contribution)
            return Decisive(
                mine.name, most.name, most.contribution, other_factor.contribution
            )  # fmt: skip
        return Decisive(mine.name, "", mine.value, other.value)
    return Decisive("job", "", float(ahead.key.job_id), float(behind.key.job_id))


def pool_of(obs: Observation, ctx: Context) -> Pool:
    """What is free now, with all that placements look at."""
    running = [j for j in obs.jobs if j.state.occupies]
    waiting = [j for j in obs.jobs if j.state.pending]
    return Pool(
        obs.nodes, running, obs.controller, topology=ctx.topology, speeds=ctx.gpu_speeds,
        mix=job_mix([*running, *waiting]),
    )  # fmt: skip


def shapes(obs: Observation, ctx: Context, plan: Plan, job: Job) -> list[ShapeRoom]:
    """Where the job could go, by kind of node, the kind with most room first."""
    pool = pool_of(obs, ctx)
    for key, decision in plan.decisions.items():
        starts = decision.verdict in (Verdict.START, Verdict.STARTING)
        if starts and key != job.key and decision.placement is not None:
            pool.take(decision.placement.shares)
    asked = next(iter(views_of(obs, ctx, [job.key])), None)
    asking = asked.job if asked is not None else job
    allowed = Allowance(pool, obs).of(asking, obs.now_s, asking.limit_s or 0)
    share = node_share(demand_of(asking.request, memory_counts=pool.memory_counts), pool)
    here = fit(pool, pool.free, share, allowed.nodes).ok
    ever = fit(pool, pool.capacity, share, allowed.static).ok
    usable = np.array([n.usable for n in pool.nodes], dtype=np.bool_) & allowed.static
    groups: dict[object, list[int]] = {}
    for i, node in enumerate(pool.nodes):
        if set(node.partitions) & set(asking.partitions) or allowed.static[i]:
            groups.setdefault(_shape(node), []).append(i)
    free_gpus = pool.typed(pool.free, share.gpu_type)
    found = []
    for members in groups.values():
        index = np.array(members)
        up = index[usable[index]]
        first = pool.nodes[members[0]]
        found.append(ShapeRoom(
            gpus={g.type: g.count for g in first.gpus},
            cpus=first.cpus,
            mem_mib=first.mem_mib,
            nodes=len(members),
            usable=len(up),
            fit=int(here[index].sum()),
            could=int(ever[index].sum()),
            best_gpus=int(free_gpus[up].max(initial=0)),
            best_cpus=int(pool.free.cpus[up].max(initial=0)),
            best_mem_mib=int(pool.free.mem[up].max(initial=0)),
        ))  # fmt: skip
    return sorted(found, key=lambda s: (-s.fit, -s.could, -s.nodes, s.cpus, s.mem_mib))


def _shape(node: Node) -> object:
    return (tuple((g.type, g.count) for g in node.gpus), node.cpus, node.mem_mib)


def node_share(demand: Demand, pool: Pool) -> Demand:
    """One node's part of a demand; gathered GPUs spread as evenly as the fewest nodes allow."""
    if demand.uniform:
        return replace(demand, nodes_min=1, nodes_max=1)
    most = int(pool.typed(pool.capacity, demand.gpu_type).max(initial=0))
    nodes = max(demand.nodes_min, -(-demand.total_gpus // max(1, most)))
    units = -(-demand.units // nodes)
    return replace(
        demand, nodes_min=1, nodes_max=1, uniform=True, gpus=units * demand.unit_gpus,
        cpus=max(demand.cpus, units * demand.unit_cpus),
        mem_mib=max(demand.mem_mib, units * demand.unit_mem_mib),
    )  # fmt: skip
