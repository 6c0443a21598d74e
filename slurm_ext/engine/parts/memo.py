"""Costs of nodes, kept between the placements of one cycle.

A node's cost for a demand changes only with what is free on it, and a placement changes a few
nodes: so costs are worked out again only where the free counts or the GPUs in use differ from
those they were worked out for. The counts are compared, not tracked: any view of what is free
(now, behind a promise, at a later moment) may be asked about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slurm_ext.engine.pool import Demand, Free, IntArray, Pool

MAX_DEMANDS = 64
"""Demands remembered at once: 0.3 MB each with 5,000 nodes."""


@dataclass(slots=True)
class _Kept:
    gpus: IntArray
    cpus: IntArray
    mem: IntArray
    busy: IntArray
    values: IntArray


def remembered(
    pool: Pool,
    free: Free,
    demand: Demand,
    candidates: IntArray,
    who: object,
    compute: Callable[[IntArray], IntArray],
) -> IntArray:
    """``compute(nodes)``, shape (rows, nodes), for the candidates; ``who`` asks (hashable)."""
    kept = _kept(pool, (who, demand))
    busy = pool.slots.busy
    stale = kept.cpus[candidates] != free.cpus[candidates]
    stale |= kept.mem[candidates] != free.mem[candidates]
    stale |= kept.busy[candidates] != busy[candidates]
    for old, new in zip(kept.gpus, free.gpus, strict=True):
        stale |= old[candidates] != new[candidates]
    nodes = candidates[stale]
    if len(nodes):
        found = compute(nodes)
        if len(kept.values) != len(found):
            kept.values = np.zeros((len(found), len(pool.nodes)), dtype=np.int64)
        kept.values[:, nodes] = found
        kept.cpus[nodes], kept.mem[nodes] = free.cpus[nodes], free.mem[nodes]
        kept.busy[nodes] = busy[nodes]
        kept.gpus[:, nodes] = free.gpus[:, nodes]
    return kept.values[:, candidates]


def _kept(pool: Pool, key: object) -> _Kept:
    found = pool.memo.get(key)
    if isinstance(found, _Kept):
        return found
    if len(pool.memo) >= MAX_DEMANDS:
        del pool.memo[next(iter(pool.memo))]
    size = len(pool.nodes)
    never = np.full(size, -1, dtype=np.int64)
    kept = _Kept(
        np.full((len(pool.types), size), -1, dtype=np.int64), never, never.copy(), never.copy(),
        np.zeros((0, size), dtype=np.int64),
    )  # fmt: skip
    pool.memo[key] = kept
    return kept
