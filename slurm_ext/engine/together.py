"""Placements on several nodes, judged as a whole.

Nodes that are good one by one may lie far apart: the first of the ranking are compared with the
first of each region that could hold the job (and of each GPU type, where none is asked).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurm_ext.model.decision import Placement

from .gather import gathered, on_nodes
from .policy import SetPreference
from .pool import Demand, Free, IntArray, Pool
from .taken import taken_by, would_take


def rated(
    pool: Pool,
    free: Free,
    demand: Demand,
    units: IntArray | None,
    ranked: IntArray,
    best: Placement,
    preference: SetPreference,
    most: int,
) -> list[Placement]:
    """Up to ``most`` placements, the best as a whole first; ``best`` is the ranking's own."""
    count = len(best.shares)
    gathering = ranked
    if not demand.uniform and units is not None:  # by units, then by rank
        gathering = ranked[np.argsort(-units[ranked], kind="stable")]
    orders = pool.topology.regions(gathering, count)
    if demand.total_gpus and not demand.gpu_type and len(pool.types) > 1:
        orders += [ranked[free.gpus[row, ranked] > 0] for row in range(len(pool.types))]
    if demand.uniform:
        sets = [ranked[:count], *(o[:count] for o in orders if len(o) >= count)]
        return _uniform(pool, free, demand, sets, preference, most)
    by_nodes = {best.nodes: best}
    for order in orders:
        placement = gathered(pool, demand, units, order, max(demand.nodes_min, 1))
        if placement is not None and len(placement.shares) <= count:
            by_nodes.setdefault(placement.nodes, placement)
    found = [
        replace(p, score=preference.rate(pool, free, demand, taken_by(pool, demand, p.shares))[0])
        for p in by_nodes.values()
    ]
    # Stable: among equals the ranking's own first.
    return sorted(found, key=lambda p: (len(p.shares), p.score))[:most]


def _uniform(
    pool: Pool,
    free: Free,
    demand: Demand,
    sets: list[IntArray],
    preference: SetPreference,
    most: int,
) -> list[Placement]:
    """The same for a demand that takes equal shares: only what is wanted is built."""
    several: dict[bytes, IntArray] = {}
    for nodes in sets:
        nodes = np.sort(nodes)
        several.setdefault(nodes.tobytes(), nodes)
    every = list(several.values())
    taken = would_take(pool, free, demand, np.concatenate(every))
    scores = preference.rate(pool, free, demand, taken, len(every))
    first = sorted(range(len(every)), key=lambda k: scores[k])[:most]
    return [replace(on_nodes(pool, demand, every[k]), score=scores[k]) for k in first]
