"""Costs of nodes, kept between the placements of one cycle.

A node's cost for a demand changes only with what is free on it, and a placement changes a few
nodes: so costs are worked out again only where the free counts or the GPUs in use differ from
those they were worked out for. The counts are compared, not tracked: any view of what is free
(now, behind a promise, at a later moment) may be asked about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter

import numpy as np

from slurm_ext.engine.pool import Demand, Free, IntArray, Pool

MAX_DEMANDS = 96
"""Demands remembered at once: 0.5 MB each with 5,000 nodes."""

FEW = 16
"""Candidates are few if this many times as many nodes are in the pool."""

_on_one_node = attrgetter(
    *(f.name for f in fields(Demand) if f.name not in ("nodes_min", "nodes_max", "per"))
)
"""What one node gives decides, and whether it is alone; not how many nodes there are."""


@dataclass(slots=True)
class _Kept:
    who: object  # kept alive, so that its id stays its own
    gpus: IntArray
    cpus: IntArray
    mem: IntArray
    busy: IntArray
    values: IntArray  # (nodes, rows): what is asked for lies together


def remembered(
    pool: Pool,
    free: Free,
    demand: Demand,
    candidates: IntArray,
    who: object,
    compute: Callable[[IntArray], IntArray],
) -> IntArray:
    """``compute(nodes)``, shape (rows, nodes), for the candidates; ``who`` asks."""
    kept = _kept(pool, who, demand)
    busy = pool.slots.busy
    few = FEW * len(candidates) < len(free.cpus)
    # All nodes at once, unless the candidates are so few that to gather theirs is cheaper.
    at: IntArray | slice = candidates if few else slice(None)
    stale = kept.cpus[at] != free.cpus[at]
    stale |= kept.mem[at] != free.mem[at]
    stale |= kept.busy[at] != busy[at]
    for old, new in zip(kept.gpus, free.gpus, strict=True):
        stale |= old[at] != new[at]
    nodes = candidates[stale if few else stale[candidates]]
    if len(nodes):
        found = compute(nodes)
        if kept.values.shape[1] != len(found):
            kept.values = np.zeros((len(pool.nodes), len(found)), dtype=np.int64)
        kept.values[nodes] = found.T
        kept.cpus[nodes], kept.mem[nodes] = free.cpus[nodes], free.mem[nodes]
        kept.busy[nodes] = busy[nodes]
        kept.gpus[:, nodes] = free.gpus[:, nodes]
    values: IntArray = kept.values.take(candidates, axis=0).T
    return values


def _kept(pool: Pool, who: object, demand: Demand) -> _Kept:
    key = (id(who), demand.nodes_min > 1, _on_one_node(demand))
    found = pool.memo.get(key)
    if isinstance(found, _Kept):
        return found
    if len(pool.memo) >= MAX_DEMANDS:
        del pool.memo[next(iter(pool.memo))]
    size = len(pool.nodes)
    never = np.full(size, -1, dtype=np.int64)
    gpus = np.full((len(pool.types), size), -1, dtype=np.int64)
    values = np.zeros((size, 0), dtype=np.int64)
    kept = _Kept(who, gpus, never, never.copy(), never.copy(), values)
    pool.memo[key] = kept
    return kept
