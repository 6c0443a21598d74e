"""What a placement asks about links and switches, answered for the nodes of one pool."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from slurm_ext.engine.topology import Ask, Ring, lowest
from slurm_ext.model.units import GpuMask

from .fabric import Fabric, FabricKind, Rates
from .fabric_index import FabricIndex, IntArray
from .pick import Ask as Wording
from .pick import likely_cores, predict_pick
from .ring import RingScore, placement_gbps, ring_gbps
from .shape import NodeShape
from .tables import LOCAL_GBPS, FloatArray, ShapeTable, table_of

TRUST = 0.75
"""Weight of the predicted pick against the worst one in :meth:`NodeTopology.loss`: without the
cores of every job known, about two of three predictions hold."""

MAX_REGIONS = 6
MAX_KINDS = 4
"""Node sets offered beside the ranking's own: a placement's cost grows with their number."""


class NodeTopology:
    """Shapes and fabric of nodes in the order of a pool (``engine.topology.TopologyView``).

    ``shapes`` maps node names to shapes; a node without one never loses anything, since no node
    shall be punished for what is not known of it.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        shapes: Mapping[str, NodeShape],
        fabric: Fabric,
        rates: Rates | None = None,
    ) -> None:
        known: dict[NodeShape, int] = {}
        by_identity: dict[int, int] = {}
        classes = []
        for name in nodes:
            shape = shapes.get(name)
            if shape is None:
                classes.append(-1)
                continue
            # Nodes of a class mostly share one object: compare matrices only for new ones.
            if id(shape) not in by_identity:
                by_identity[id(shape)] = known.setdefault(shape, len(known))
            classes.append(by_identity[id(shape)])
        self.names = tuple(nodes)
        self.class_of: IntArray = np.array(classes, dtype=np.int64)
        self.tables: tuple[ShapeTable, ...] = tuple(table_of(shape) for shape in known)
        self.fabric = fabric
        self.rates = rates
        self.index = FabricIndex(fabric, nodes)
        self._ideals: dict[int, float] = {}

    # -- inside nodes ------------------------------------------------------------------

    def column(self, what: str, nodes: IntArray, free: IntArray, gpus: IntArray) -> FloatArray:
        """``best``, ``worst``, ``predicted`` (GB/s) or ``broken`` (GPUs) for each node.

        NaN where the shape or the mask (-1) is not known.
        """
        result = np.full(len(nodes), np.nan)
        classes = np.where(free < 0, -1, self.class_of[nodes])
        counts = np.unique(gpus)
        for c, table in enumerate(self.tables):
            mine = classes == c
            if not mine.any():
                continue
            for k in counts:
                at = np.flatnonzero(mine if len(counts) == 1 else mine & (gpus == k))
                if len(at):
                    result[at] = table.column(what, free[at] & table.shape.all_mask, int(k))
        return result

    def loss(self, nodes: IntArray, free: IntArray, gpus: IntArray, *, several: bool) -> FloatArray:
        """See ``TopologyView``; the worst pick counts besides the predicted one (TRUST)."""
        lost = np.zeros(len(nodes))
        if not self.tables:
            return lost
        top = np.array([self.ideal(int(k)) for k in np.unique(gpus)])
        top = top[np.searchsorted(np.unique(gpus), gpus)]
        if several:
            top = np.minimum(top, self._node_gbps())
        usable = (gpus > 1) & (top > 0)
        for what, weight in (("predicted", TRUST), ("worst", 1.0 - TRUST)):
            found = self.column(what, nodes, free, gpus)
            known = usable & ~np.isnan(found)
            lost[known] += weight * np.maximum(0.0, 1.0 - found[known] / top[known])
        return lost

    def ideal(self, gpus: int) -> float:
        """GB/s of the best set of that size on the best kind of node, 0 if none has so many."""
        if gpus not in self._ideals:
            fits = [float(t.ideal[gpus]) for t in self.tables if gpus < len(t.ideal)]
            self._ideals[gpus] = max(fits, default=0.0)
        return self._ideals[gpus]

    def broken(self, nodes: IntArray, free: IntArray, gpus: IntArray) -> IntArray:
        """See ``TopologyView``."""
        return np.nan_to_num(self.column("broken", nodes, free, gpus)).astype(np.int64)

    def predicted(self, nodes: IntArray, free: IntArray, gpus: IntArray) -> FloatArray:
        """See ``TopologyView``."""
        found = self.column("predicted", nodes, free, gpus)
        found[np.isnan(found) | (found >= LOCAL_GBPS)] = np.inf
        return found

    def score(self, node: int, mask: GpuMask) -> float:
        """See ``TopologyView``."""
        c = int(self.class_of[node])
        if c < 0 or mask.bit_count() < 2 or mask & ~self.tables[c].shape.all_mask:
            return math.inf
        return ring_gbps(self.tables[c].shape, mask)

    def cores(
        self, node: int, free: GpuMask, ask: Ask, free_cores: Mapping[int, int] | None
    ) -> Mapping[int, int]:
        """See ``TopologyView``."""
        c = int(self.class_of[node])
        if c < 0:
            return {}
        shape = self.tables[c].shape
        return likely_cores(shape, free & shape.all_mask, ask.count, free_cores, ask.cores)

    def pick(
        self, node: int, free: GpuMask, ask: Ask, free_cores: Mapping[int, int] | None
    ) -> GpuMask:
        """See ``TopologyView``."""
        c = int(self.class_of[node])
        if c < 0:
            return lowest(free, ask.count)
        shape = self.tables[c].shape
        return predict_pick(
            shape, shape.all_mask & ~free, ask.count, ask=Wording(ask.per),
            free_cores=free_cores, cores=ask.cores,
        )  # fmt: skip

    # -- between nodes -----------------------------------------------------------------

    def _node_gbps(self) -> float:
        if self.rates is None:
            return math.inf
        return max(self.rates.node_gbps, self.rates.block_gbps)

    def ring(
        self, nodes: IntArray, inside: FloatArray, gpus: IntArray, crossing: Mapping[str, int]
    ) -> Ring | None:
        """See ``TopologyView``; without rates only the links inside nodes count."""
        best = min((self.ideal(int(k)) or math.inf for k in gpus if k > 1), default=math.inf)
        names = [self.names[i] for i in nodes]
        several = len(names) > 1
        crossed = self.fabric.crossed(names, self.rates, crossing) if several and self.rates else ()
        if crossed:
            best = min(best, self._node_gbps())
        scores = [
            (name, RingScore(float(gbps), (), float(gbps)))
            for name, gbps in zip(names, inside, strict=True)
        ]
        found = placement_gbps(scores, crossed)
        if math.isinf(found.gbps) or math.isinf(best):
            return None
        return Ring(found.gbps, max(best, found.gbps), found.bottleneck)

    def uplinks(self, nodes: IntArray) -> tuple[str, ...]:
        """See ``TopologyView``."""
        if len(nodes) < 2:
            return ()
        return tuple(uplink.name for uplink in self.fabric.crossed([self.names[i] for i in nodes]))

    def spread(self, nodes: IntArray) -> int:
        """See ``TopologyView``."""
        return max(0, len(self.uplinks(nodes)) - len(nodes))

    def regions(self, ranked: IntArray, count: int) -> list[IntArray]:
        """See ``TopologyView``.

        First nodes of one kind (a ring is as fast as its slowest node), then the closest set with
        the fewest nodes left over, then the units of each level that hold enough, those with the
        best-ranked nodes first.
        """
        if count < 2:
            return []
        alike: list[IntArray] = []
        if len(self.tables) > 1:
            classes = self.class_of[ranked]
            alike = [ranked[classes == c] for c in range(min(len(self.tables), MAX_KINDS))]
        alike = [region for region in alike if len(region) >= count]
        return alike + self._close(ranked, count)

    def _close(self, ranked: IntArray, count: int) -> list[IntArray]:
        if self.fabric.kind is FabricKind.FLAT:
            return []
        tightest = self.index.choose(ranked, count)
        if tightest is None:
            return []
        found = [tightest.nodes]
        for level in range(tightest.level, self.index.levels):
            ids = self.index.units[level, ranked]
            units, first, sizes = np.unique(ids, return_index=True, return_counts=True)
            for u in np.argsort(first):
                if sizes[u] < count:
                    continue
                found.append(ranked[ids == units[u]])
                if len(found) >= MAX_REGIONS:
                    return found
        return found
