"""The steps of a profile as the ends of what runs make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_ext.model.job import NodeShare
from slurm_ext.model.units import FOREVER_S, EpochS

from .pool import IntArray, Pool

SPARE = 3
"""Steps per node beyond those of what runs, before the arrays must grow."""

CELLS = 400_000
"""Steps of all nodes together; where more jobs run, ends on one node are joined to the later."""


@dataclass(frozen=True, slots=True)
class Release:
    """Shares that come back at ``end_s``."""

    end_s: EpochS
    shares: tuple[NodeShare, ...]


def build(pool: Pool, now_s: EpochS, releases: Sequence[Release]) -> tuple[IntArray, IntArray]:
    """Times and values as :class:`slurm_ext.engine.profile.Profile` keeps them."""
    types, count = len(pool.types), len(pool.nodes)
    free = np.concatenate(
        [pool.free.gpus, [pool.free.cpus], [pool.free.mem], [-pool.free.jobs]]
    )  # (resources, nodes)
    rows = _rows_of(pool, releases)
    if not len(rows):
        steps = np.full((count, 2 + SPARE), FOREVER_S, dtype=np.int64)
        steps[:, 0] = now_s
        return steps, np.repeat(free[:, :, None], 1 + SPARE, axis=2)
    order = np.lexsort((rows[:, 1], rows[:, 0]))
    rows = rows[order]
    rows[:, 1] = _joined(rows[:, 0], rows[:, 1], max(64, CELLS // max(1, count)))
    fresh = np.ones(len(rows), dtype=np.bool_)
    fresh[1:] = (rows[1:, 0] != rows[:-1, 0]) | (rows[1:, 1] != rows[:-1, 1])
    first = np.flatnonzero(fresh)
    amounts = np.add.reduceat(rows[:, 2:], first, axis=0)
    nodes, ends = rows[first, 0], rows[first, 1]
    starts_of_node = np.flatnonzero(np.r_[True, nodes[1:] != nodes[:-1]])
    lengths = np.diff(np.r_[starts_of_node, len(nodes)])
    position = 1 + np.arange(len(nodes)) - np.repeat(starts_of_node, lengths)
    width = 1 + int(lengths.max()) + SPARE
    steps = np.full((count, width + 1), FOREVER_S, dtype=np.int64)
    steps[:, 0] = now_s
    steps[nodes, position] = ends
    values = np.zeros((types + 3, count, width), dtype=np.int64)
    values[:, :, 0] = free
    values[:, nodes, position] = amounts.T
    np.cumsum(values, axis=2, out=values)
    whole = np.concatenate(
        [pool.capacity.gpus, [pool.capacity.cpus], [pool.capacity.mem], [np.zeros(count)]]
    ).astype(np.int64)
    return steps, np.minimum(values, whole[:, :, None])


def _rows_of(pool: Pool, releases: Sequence[Release]) -> IntArray:
    """One row a share: node, end, then the amounts of each resource that come back."""
    types = len(pool.types)
    index, row_of, kinds = pool.index, pool.row, pool.capacity_rows
    used = None
    none = (0,) * types
    rows: list[list[int]] = []
    for end_s, shares in ((r.end_s, r.shares) for r in releases if r.end_s < FOREVER_S):
        for share in shares:
            i = index.get(share.node)
            if i is None:
                continue
            row = [i, end_s, *none, share.cpus, share.mem_mib, 1]
            rows.append(row)
            if not share.gpus:
                continue
            known = row_of.get(share.gpu_type)
            if known is not None and kinds[i] >> known & 1:
                row[2 + known] = share.gpus
                continue
            # Without a type on a mixed node: whatever of it is in use, in turn.
            if used is None:
                used = pool.capacity.gpus - pool.free.gpus
            left = share.gpus
            for r in range(types):
                count = min(left, max(0, int(used[r, i])))
                row[2 + r] = count
                used[r, i] -= count
                left -= count
    return np.array(rows, dtype=np.int64).reshape(len(rows), types + 5)


def _joined(nodes: IntArray, ends: IntArray, most: int) -> IntArray:
    """Ends (sorted within each node) with at most ``most`` different ones a node."""
    starts = np.flatnonzero(np.r_[True, nodes[1:] != nodes[:-1]])
    lengths = np.diff(np.r_[starts, len(nodes)])
    if lengths.max() <= most:
        return ends
    found = ends.copy()
    for start, length in zip(starts[lengths > most], lengths[lengths > most], strict=True):
        group = -(-int(length) // most)
        last = np.minimum((np.arange(length) // group + 1) * group, length) - 1
        found[start : start + length] = ends[start + last]
    return found
