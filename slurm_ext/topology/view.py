"""What a placement asks about links and switches, answered for the nodes of one pool."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slurm_ext.engine.topology import Ask, Ring, lowest, share_lost
from slurm_ext.model.units import GpuMask

from .fabric import DEFAULT_RATES, Fabric, FabricKind, Rates
from .fabric_index import FabricIndex, IntArray
from .pick import likely_cores
from .ring import RingScore, Uplink, placement_gbps, shared_gbps
from .shape import NodeShape
from .tables import LOCAL_GBPS, FloatArray, ShapeTable, table_of

TRUST = 0.75
"""Weight of the predicted pick against the worst one in :meth:`NodeTopology.loss`: without the
cores of every job known, about two of three predictions hold."""

MAX_CROSSED = 4096
MAX_RINGS = 1 << 16
MAX_REGIONS = 6
MAX_KINDS = 4
"""Node sets offered beside the ranking's own: a placement's cost grows with their number."""


class _Crossed(NamedTuple):
    uplinks: tuple[Uplink, ...]
    slowest: Uplink


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
        self._within: dict[tuple[int, GpuMask], Ring | None] = {}
        self._crossed: dict[bytes, _Crossed] = {}

    # -- inside nodes ------------------------------------------------------------------

    def column(self, what: str, nodes: IntArray, free: IntArray, gpus: IntArray) -> FloatArray:
        """``best``, ``worst``, ``predicted`` (GB/s) or ``broken`` (GPUs) for each node.

        NaN where the shape or the mask (-1) is not known.
        """
        result = np.full(len(nodes), np.nan)
        classes = np.where(free < 0, -1, self.class_of[nodes])
        counts = _counts(gpus)
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
        top = np.zeros(len(nodes))
        for k in _counts(gpus):
            top[gpus == k] = self.ideal(int(k))
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
        if not any(table.islands for table in self.tables):
            return np.zeros(len(nodes), dtype=np.int64)
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
        return self.tables[c].value("best", mask, mask.bit_count())

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
        return self.tables[c].pick(free, ask, free_cores)

    # -- between nodes -----------------------------------------------------------------

    def _node_gbps(self) -> float:
        if self.rates is None:
            return math.inf
        return max(self.rates.node_gbps, self.rates.block_gbps)

    def ring(
        self, nodes: IntArray, inside: FloatArray, gpus: IntArray, crossing: Mapping[str, int]
    ) -> Ring | None:
        """See ``TopologyView``; without rates only the links inside nodes count."""
        best, uplink = self._bounds(nodes, gpus, crossing)
        slowest = int(inside.argmin())
        gbps = float(inside[slowest])
        found = placement_gbps(
            [(self.names[nodes[slowest]], RingScore(gbps, (), gbps))],
            [] if uplink is None else [uplink],
        )
        if math.isinf(found.gbps) or math.isinf(best):
            return None
        return Ring(found.gbps, max(best, found.gbps), found.bottleneck)

    def ring_within(self, node: int, mask: GpuMask) -> Ring | None:
        """See ``TopologyView``."""
        key = node, mask
        if key not in self._within:
            if len(self._within) >= MAX_RINGS:
                self._within.clear()
            nodes, inside = np.array([node]), np.array([self.score(node, mask)])
            self._within[key] = self.ring(nodes, inside, np.array([mask.bit_count()]), {})
        return self._within[key]

    def lost(
        self, nodes: IntArray, inside: FloatArray, gpus: IntArray, crossing: Mapping[str, int]
    ) -> float:
        """See ``TopologyView``."""
        best, uplink = self._bounds(nodes, gpus, crossing)
        gbps = float(inside.min())
        if uplink is not None:
            gbps = min(gbps, shared_gbps(uplink.gbps, uplink.jobs))
        return 0.0 if math.isinf(gbps) or math.isinf(best) else share_lost(gbps, best)

    def _bounds(
        self, nodes: IntArray, gpus: IntArray, crossing: Mapping[str, int]
    ) -> tuple[float, Uplink | None]:
        """The best such a job could have anywhere, and the uplink that limits it here."""
        best = min(
            (self.ideal(k) or math.inf for k in _counts(gpus).tolist() if k > 1), default=math.inf
        )
        if len(nodes) < 2 or self.rates is None:
            return best, None
        crossed = self._crossing(nodes)
        slowest = crossed.slowest
        for uplink in crossed.uplinks:
            jobs = crossing.get(uplink.name, 0)
            if jobs and shared_gbps(uplink.gbps, jobs) < shared_gbps(slowest.gbps, slowest.jobs):
                slowest = replace(uplink, jobs=jobs)
        return min(best, self._node_gbps()), slowest

    def uplinks(self, nodes: IntArray) -> tuple[str, ...]:
        """See ``TopologyView``."""
        if len(nodes) < 2:
            return ()
        return tuple(uplink.name for uplink in self._crossing(nodes).uplinks)

    def _crossing(self, nodes: IntArray) -> _Crossed:
        """With the bandwidth each has alone; a placement is asked about a few times."""
        key = nodes.tobytes()
        found = self._crossed.get(key)
        if found is None:
            if len(self._crossed) >= MAX_CROSSED:
                self._crossed.clear()
            rates = self.rates or DEFAULT_RATES
            uplinks = self.fabric.crossed([self.names[i] for i in nodes.tolist()], rates)
            found = _Crossed(uplinks, min(uplinks, key=lambda u: u.gbps))
            self._crossed[key] = found
        return found

    def spread(self, nodes: IntArray) -> int:
        """See ``TopologyView``."""
        if len(nodes) < 2:
            return 0
        return max(0, len(self._crossing(nodes).uplinks) - len(nodes))

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
            enough, first = self.index.holding(ids, count)[:2]
            nearest = enough[np.argsort(first)][: MAX_REGIONS - len(found)]
            found += [ranked[ids == unit] for unit in nearest]
            if len(found) == MAX_REGIONS:
                break
        return found


def _counts(gpus: IntArray) -> IntArray:
    """The different numbers of GPUs; mostly all are equal."""
    if len(gpus) and (gpus == gpus[0]).all():
        return gpus[:1]
    return np.unique(gpus)
