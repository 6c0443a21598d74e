"""Leaves and blocks of nodes as arrays, and the choice of nodes that stay close together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .fabric import Fabric

IntArray = npt.NDArray[np.int64]
MAX_STEPS = 40_000
"""Leaves times leaves taken up to which the tightest choice is exact."""


@dataclass(frozen=True, slots=True)
class Choice:
    """``nodes``: indices in the order of the ranking. ``leaves``: how many they stand on.

    ``level``: of the lowest unit that holds them all (0: one leaf; the number of levels if
    there is none). ``leftover``: candidates on those leaves that were not taken. ``exact``: no
    choice at that level has fewer leaves, nor as many with a smaller leftover.
    """

    nodes: IntArray
    level: int
    leaves: int
    leftover: int
    exact: bool


class FabricIndex:
    """Unit ids per level and node: ``units[level, node]``; ``leaf`` is level 0.

    A node the fabric does not know gets units of its own: it is close to nobody. For a block
    topology the leaves are the base blocks (``block`` is the same array as ``leaf``).
    """

    def __init__(self, fabric: Fabric, nodes: Sequence[str]) -> None:
        self.names = tuple(nodes)
        self.levels = max(1, fabric.levels)
        ids = {unit.name: i for i, unit in enumerate(fabric.units)}
        self.units: IntArray = np.empty((self.levels, len(nodes)), dtype=np.int64)
        alone = len(ids)
        for i, node in enumerate(nodes):
            path = fabric.path(node)
            at = {unit.level: unit.name for name in path if (unit := fabric.unit(name))}
            below = alone + i
            for level in range(self.levels):
                # A tree may skip a level on one branch: the unit below stands in for it.
                below = ids[at[level]] if level in at else below
                self.units[level, i] = below
        self.leaf = self.units[0]
        self.block = self.leaf

    def choose(self, ranked: IntArray, count: int) -> Choice | None:
        """``count`` of the ranked candidates, close together; None if there are too few.

        Least first: the level of the lowest common unit, the number of leaves, the candidates
        left over on those leaves; then the ranking. One node: simply the first of the ranking.
        """
        ranked = np.asarray(ranked, dtype=np.int64)
        if count < 1 or len(ranked) < count:
            return None
        if count == 1:
            return Choice(ranked[:1], 0, 1, 0, True)
        one = self._one_leaf(ranked, count)
        if one is not None:
            return one
        level, groups = self._groups(ranked, count)
        best: tuple[tuple[int, int, int], IntArray, bool] | None = None
        for group in groups:
            found = self._within(group, count)
            if best is None or found[0] < best[0]:
                best = found
        assert best is not None
        (leaves, leftover, _), positions, exact = best
        return Choice(ranked[positions], level, leaves, leftover, exact)

    def _one_leaf(self, ranked: IntArray, count: int) -> Choice | None:
        """The tightest leaf that holds all, by array operations only: the frequent case."""
        leaves = self.leaf[ranked]
        enough, first, sizes = self.holding(leaves, count)
        if not len(enough):
            return None
        pick = np.lexsort((first, sizes))[0]
        nodes = ranked[leaves == enough[pick]][:count]
        return Choice(nodes, 0, 1, int(sizes[pick]) - count, True)

    def holding(self, ids: IntArray, count: int) -> tuple[IntArray, IntArray, IntArray]:
        """Units that occur at least ``count`` times in ``ids``: which, where first, how often."""
        sizes = np.bincount(ids)  # np.unique would sort
        enough = np.flatnonzero(sizes >= count)
        first = np.zeros(len(sizes), dtype=np.int64)
        first[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)  # the last that is written stays
        return enough, first[enough], sizes[enough]

    def _groups(self, ranked: IntArray, count: int) -> tuple[int, list[tuple[IntArray, IntArray]]]:
        """Units of the lowest level that hold enough: (positions in the ranking, leaf ids)."""
        for level in range(1, self.levels):  # level 0 is _one_leaf's
            ids = self.units[level, ranked]
            enough = self.holding(ids, count)[0]
            if len(enough):
                groups = []
                for unit in enough:
                    positions = np.flatnonzero(ids == unit)
                    groups.append((positions, self.leaf[ranked[positions]]))
                return level, groups
        return self.levels, [(np.arange(len(ranked)), self.leaf[ranked])]

    def _within(
        self, group: tuple[IntArray, IntArray], count: int
    ) -> tuple[tuple[int, int, int], IntArray, bool]:
        positions, leaves = group
        _, first, inverse, sizes = np.unique(
            leaves, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(first, kind="stable")  # leaves by their best-ranked node
        chosen, exact = tightest([int(sizes[i]) for i in order], count)
        mine = np.isin(inverse, order[chosen])
        kept = positions[mine]
        leftover = len(kept) - count
        if leftover:
            # All from one leaf, the one with the last of the ranking: the others are full.
            # It keeps at least one node, or fewer leaves would have been enough.
            last = inverse[mine][-1]
            spare = np.flatnonzero(inverse[mine] == last)[-leftover:]
            kept = np.delete(kept, spare)
        return (len(chosen), leftover, int(positions[0])), kept, exact

    def choose_segments(self, ranked: IntArray, count: int, segment: int) -> Choice | None:
        """Like :meth:`choose` with ``--segment``: groups of that many nodes inside one block.

        Fewest blocks first, then the fewest segments left over. None if it cannot be done.

        :raises ValueError: ``count`` is not a multiple of ``segment``.
        """
        if segment < 1 or count < 1 or count % segment:
            raise ValueError(f"{count} nodes are not a number of segments of {segment}")
        ranked = np.asarray(ranked, dtype=np.int64)
        ids = self.leaf[ranked]
        whole = []  # positions of the nodes that can form segments, block by block
        for unit in dict.fromkeys(ids.tolist()):
            positions = np.flatnonzero(ids == unit)
            usable = len(positions) // segment * segment
            if usable:
                whole.append(positions[:usable])
        sizes = [len(positions) // segment for positions in whole]
        if sum(sizes) * segment < count:
            return None
        chosen, exact = tightest(sizes, count // segment)
        parts = [whole[i] for i in chosen]
        leftover = sum(len(part) for part in parts) - count
        parts[-1] = parts[-1][: len(parts[-1]) - leftover]
        kept = np.sort(np.concatenate(parts))
        return Choice(ranked[kept], self._level(ranked[kept]), len(parts), leftover, exact)

    def _level(self, nodes: IntArray) -> int:
        for level in range(self.levels):
            if len(np.unique(self.units[level, nodes])) == 1:
                return level
        return self.levels


def tightest(sizes: Sequence[int], count: int) -> tuple[list[int], bool]:
    """Indices of the fewest sizes that sum to at least ``count``, and of those the smallest sum.

    Earlier ones are preferred among equals. Exact by dynamic programming over (number taken,
    sum) with sums as bit sets; with very many leaves the largest ones and the smallest last one
    that is enough (then False, unless that leaves nothing over).

    :raises ValueError: all together are too few.
    """
    by_size = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    taken, total = 0, 0
    while total < count:
        if taken == len(sizes):
            raise ValueError("too few")
        total += sizes[by_size[taken]]
        taken += 1
    if len(sizes) * taken > MAX_STEPS:
        missing = count - (total - sizes[by_size[taken - 1]])
        last = max(i for i, leaf in enumerate(by_size) if sizes[leaf] >= missing)
        chosen = sorted([*by_size[: taken - 1], by_size[last]])
        return chosen, sum(sizes[i] for i in chosen) == count
    # reach[j]: bit s set if some j of the sizes so far sum to s; one snapshot before each size.
    limit = (1 << (total + 1)) - 1
    reach = [1] + [0] * taken
    before: list[list[int]] = []
    for size in sizes:
        before.append(reach)
        reach = [reach[0]] + [
            reach[j] | (reach[j - 1] << size & limit) for j in range(1, taken + 1)
        ]
    sums = reach[taken] >> count
    target = count + (sums & -sums).bit_length() - 1
    chosen, left = [], taken
    for i in range(len(sizes) - 1, -1, -1):
        if before[i][left] >> target & 1:
            continue  # possible without this one: keep to those ranked earlier
        chosen.append(i)
        target -= sizes[i]
        left -= 1
    return sorted(chosen), True
