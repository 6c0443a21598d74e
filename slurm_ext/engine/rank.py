"""Ranking the nodes a demand fits on, as far down as anybody will look."""

from __future__ import annotations

import numpy as np

from .policy import NodePreference
from .pool import Demand, Free, IntArray, Pool
from .topology import UNKNOWN


def by_rank_alone(pool: Pool, demand: Demand, wanted: int) -> bool:
    """Whether the first of the ranking are taken whatever comes after them."""
    if not demand.uniform:
        return False
    one_kind = bool(demand.gpu_type) or len(pool.types) == 1
    return wanted == 1 or (pool.topology is UNKNOWN and one_kind)


def rank(
    pool: Pool,
    free: Free,
    demand: Demand,
    candidates: IntArray,
    preference: NodePreference,
    count: int,
) -> IntArray:
    """The ``count`` best candidates in order, perhaps some more."""
    if len(candidates) == 1:
        return candidates
    penalties = preference.key(pool, free, demand, candidates)
    if count < len(candidates):
        first = _first(penalties, count)
        penalties, candidates = penalties[:, first], candidates[first]
    # lexsort: the last key is the primary one; node index breaks ties, so the result is stable.
    return candidates[np.lexsort((candidates, *penalties[::-1]))]


def _first(penalties: IntArray, count: int) -> IntArray:
    """Columns among which the ``count`` lowest are, in no order: sorting all is dear."""
    sure: list[IntArray] = []
    tied = np.arange(penalties.shape[1])
    for row in penalties:
        if len(tied) <= 2 * count + 8:
            break
        values = row[tied]
        ordered = values.copy()
        ordered.partition(count - 1)
        bound = ordered[count - 1]
        lower = tied[values < bound]
        sure.append(lower)
        count -= len(lower)
        tied = tied[values == bound]
    return np.concatenate([*sure, tied])
