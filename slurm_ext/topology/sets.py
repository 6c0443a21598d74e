"""The best and the worst set of free GPUs for a job, by the score of ``ring``.

Slurm chooses the indices (see ``pick``): the best set says what a node could give, the worst
what it may give whatever the rule, and :func:`any_pick_good` when the choice does not matter.
Exact up to :data:`MAX_SETS` really different sets (all nodes of 8 GPUs, larger ones with few
kinds of links); beyond that sets are grown greedily and marked as not exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from slurm_ext.model.units import GpuMask, indices_of

from .ring import EXACT_GPUS, ring_gbps, ring_score
from .shape import NodeShape, twins

MAX_SETS = 4096
"""Sets scored at most in one search; beyond that a greedy one is used and said to be so."""


@dataclass(frozen=True, slots=True)
class GpuSet:
    """A set of GPUs with its score in GB/s; ``exact`` False: a better (worse) one may exist."""

    mask: GpuMask
    gbps: float
    exact: bool = True

    @property
    def gpus(self) -> tuple[int, ...]:
        return indices_of(self.mask)


@lru_cache(maxsize=1024)
def _twins(shape: NodeShape) -> tuple[int, ...]:
    return twins(shape)


def distinct_sets(shape: NodeShape, free: GpuMask, count: int) -> Iterator[GpuMask]:
    """Subsets of ``free`` of that size, one for each choice that differs (see shape.twins)."""
    classes: dict[int, list[int]] = {}
    for g in indices_of(free):
        classes.setdefault(_twins(shape)[g], []).append(g)
    groups = list(classes.values())
    rest = [sum(len(g) for g in groups[i:]) for i in range(len(groups) + 1)]

    def choose(i: int, left: int, mask: GpuMask) -> Iterator[GpuMask]:
        if not left:
            yield mask
            return
        if rest[i] < left:
            return
        members = 0
        yield from choose(i + 1, left, mask)
        for n, g in enumerate(groups[i][:left], start=1):
            members |= 1 << g
            yield from choose(i + 1, left - n, mask | members)

    yield from choose(0, count, 0)


def best_set(shape: NodeShape, free: GpuMask, count: int) -> GpuSet | None:
    """The set with the highest score; None if there are not enough GPUs.

    Among equals: fewest localities, then the one whose removal cuts the least bandwidth off the
    GPUs that stay free (islands stay whole), then the lowest indices.
    """

    def key(mask: GpuMask) -> tuple[float, int, float, GpuMask]:
        places = {shape.locality[g] for g in indices_of(mask)}
        return (-ring_gbps(shape, mask), len(places), _cut(shape, mask, free & ~mask), mask)

    found = _search(shape, free, count)
    if found is None:
        return None
    sets, exact = found
    mask = min(sets, key=key)
    return GpuSet(mask, ring_gbps(shape, mask), exact)


def worst_set(shape: NodeShape, free: GpuMask, count: int) -> GpuSet | None:
    """The set with the lowest score that any rule could take; None if too few are free."""
    found = _search(shape, free, count)
    if found is None:
        return None
    sets, exact = found
    mask = min(sets, key=lambda m: (ring_gbps(shape, m), m))
    return GpuSet(mask, ring_gbps(shape, mask), exact)


def any_pick_good(shape: NodeShape, free: GpuMask, count: int, slack: float = 0.1) -> bool:
    """Whether every set of free GPUs is within ``slack`` of the best the node could ever give."""
    worst = worst_set(shape, free, count)
    ideal = best_set(shape, shape.all_mask, count)
    if worst is None or ideal is None:
        return False
    return worst.exact and worst.gbps >= (1.0 - slack) * ideal.gbps


def _cut(shape: NodeShape, mask: GpuMask, rest: GpuMask) -> float:
    """Bandwidth between a set and what stays free, rounded so that equal sums compare equal."""
    return round(sum(shape.gbps[a][b] for a in indices_of(mask) for b in indices_of(rest)), 6)


def _search(shape: NodeShape, free: GpuMask, count: int) -> tuple[list[GpuMask], bool] | None:
    """The sets to compare, and whether they are all that matter with scores that are exact."""
    free &= shape.all_mask
    if count < 1 or free.bit_count() < count:
        return None
    sets: list[GpuMask] = []
    for mask in distinct_sets(shape, free, count):
        sets.append(mask)
        if len(sets) > MAX_SETS:
            return _grown(shape, free, count), False
    certain = count <= EXACT_GPUS or all(ring_score(shape, mask).exact for mask in sets)
    return sets, certain


def _grown(shape: NodeShape, free: GpuMask, count: int) -> list[GpuMask]:
    """One set grown from each GPU, by best links and by worst."""
    found = []
    for start in indices_of(free):
        for sign in (1.0, -1.0):
            mask = 1 << start
            while mask.bit_count() < count:
                members = indices_of(mask)
                nearest = [(sign * min(shape.gbps[g][m] for m in members), -g)
                           for g in indices_of(free & ~mask)]  # fmt: skip
                mask |= 1 << -max(nearest)[1]
            found.append(mask)
    return found
