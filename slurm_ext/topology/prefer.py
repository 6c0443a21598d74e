"""Tables a node preference reads: how good each node's free GPUs are for k of them.

The engine must not import this package (both are pure and only share the model). It reads an
object of this form through a protocol of its own, put into its context by whoever builds both
(daemon, simulator, command line). All answers are arrays over candidate nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from slurm_ext.model.node import Node
from slurm_ext.model.units import GpuMask

from .fabric import Fabric
from .fabric_index import Choice, FabricIndex, IntArray
from .findings import Finding, warning
from .pick import predict_pick
from .ring import EXACT_GPUS, ring_gbps
from .sets import best_set, worst_set
from .shape import NodeShape

FloatArray = npt.NDArray[np.float64]
Masks = Sequence[GpuMask] | IntArray
"""Used GPUs of all nodes; an array is some fifty times faster than a list of Python numbers."""
LOCAL_GBPS = 1e6
"""Stands for "no traffic" in tables: larger than any link, but finite so that it subtracts."""
_UNIT = 10.0
"""Penalties are whole tenths of a GB/s: finer differences are noise."""


class TopologyView(Protocol):
    """What a preference needs; :class:`NodeTopology` provides it."""

    def best(self, nodes: IntArray, used: Masks, gpus: int) -> FloatArray: ...
    def loss(self, nodes: IntArray, used: Masks, gpus: int) -> IntArray: ...
    def arrange(self, ranked: IntArray, count: int) -> IntArray: ...


class ShapeTable:
    """Scores of one node class: ``best``, ``worst``, ``predicted`` for (free mask, k), in GB/s.

    Up to 8 GPUs everything is in dense arrays of 2^n rows by n + 1 columns (18 kB each); for
    larger nodes values are worked out when first asked for and kept.
    """

    def __init__(self, shape: NodeShape) -> None:
        self.shape = shape
        self.dense = shape.count <= EXACT_GPUS
        self._kept: dict[tuple[str, GpuMask, int], float] = {}
        n = shape.count
        if self.dense:
            self._best = np.zeros((1 << n, n + 1))
            self._worst = np.zeros((1 << n, n + 1))
            self._predicted = np.full((1 << n, n + 1), np.nan)  # filled when first asked for
            self._fill()
        self.ideal = np.array([0.0] + [self.value("best", shape.all_mask, k)
                                       for k in range(1, n + 1)])  # fmt: skip

    def _fill(self) -> None:
        """Sets of a free mask are the mask itself or sets of it less one GPU."""
        for free in range(1, len(self._best)):
            size = free.bit_count()
            own = _finite(ring_gbps(self.shape, free))
            smaller = [free ^ (1 << i) for i in range(self.shape.count) if free >> i & 1]
            self._best[free] = self._best[smaller].max(axis=0)
            self._worst[free, :size] = self._worst[smaller, :size].min(axis=0)
            self._best[free, size] = self._worst[free, size] = own

    def value(self, what: str, free: GpuMask, k: int) -> float:
        """One number: ``best``, ``worst`` or ``predicted``; 0 if k GPUs are not free."""
        if k < 1 or k > free.bit_count():
            return 0.0
        if self.dense and what != "predicted":
            return float((self._best if what == "best" else self._worst)[free, k])
        key = (what, free, k)
        if key not in self._kept:
            self._kept[key] = self._compute(what, free, k)
        return self._kept[key]

    def _compute(self, what: str, free: GpuMask, k: int) -> float:
        if what == "predicted":
            used = self.shape.all_mask & ~free
            return _finite(ring_gbps(self.shape, predict_pick(self.shape, used, k)))
        found = (best_set if what == "best" else worst_set)(self.shape, free, k)
        return _finite(found.gbps) if found is not None else 0.0

    def column(self, what: str, free: IntArray, k: int) -> FloatArray:
        """The value for many free masks at once."""
        if k < 1 or k > self.shape.count:
            return np.zeros(len(free))
        if self.dense:
            tables = {"best": self._best, "worst": self._worst, "predicted": self._predicted}
            found: FloatArray = tables[what][free, k]
            for mask in np.unique(free[np.isnan(found)]):
                self._predicted[mask, k] = self.value(what, int(mask), k)
            return tables[what][free, k] if np.isnan(found).any() else found
        masks, inverse = np.unique(free, return_inverse=True)
        values = np.array([self.value(what, int(m), k) for m in masks], dtype=np.float64)
        column: FloatArray = values[inverse]
        return column


def _finite(gbps: float) -> float:
    return min(gbps, LOCAL_GBPS)


def matching(
    nodes: Sequence[Node], shapes: Mapping[str, NodeShape]
) -> tuple[dict[str, NodeShape], tuple[Finding, ...]]:
    """The shapes that agree with what Slurm says of a node, and findings about the others.

    A shape with another number of GPUs (a card was taken out, MIG was switched on) would answer
    for indices that do not exist: such a node counts as unknown.
    """
    kept: dict[str, NodeShape] = {}
    findings = []
    for node in nodes:
        shape = shapes.get(node.name)
        if shape is None:
            continue
        if node.gpu_mask == shape.all_mask:
            kept[node.name] = shape
            continue
        findings.append(
            warning(
                "shape_mismatch",
                node.name,
                f"the shape has {shape.count} GPUs, Slurm has {node.gpu_count}",
                "gather the links of this node again",
            )
        )
    return kept, tuple(findings)


class NodeTopology:
    """Shapes and fabric of all nodes in the order of the pool.

    ``shapes`` maps node names to shapes; nodes without one score 0 for every set (unknown, so
    their loss is 0 too: no node is punished for what is not known of it).
    """

    def __init__(
        self, nodes: Sequence[str], shapes: Mapping[str, NodeShape], fabric: Fabric
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
        self.class_of: IntArray = np.array(classes, dtype=np.int64)
        self.tables = tuple(ShapeTable(shape) for shape in known)
        self.index = FabricIndex(fabric, nodes)

    def _gather(self, whats: Sequence[str], nodes: IntArray, used: Masks, gpus: int) -> FloatArray:
        """One row for each wanted value, one column for each node."""
        result = np.zeros((len(whats), len(nodes)))
        classes = self.class_of[nodes]
        for c, table in enumerate(self.tables):
            at = np.flatnonzero(classes == c)
            if not len(at):
                continue
            everything = table.shape.all_mask
            if isinstance(used, np.ndarray):
                free = everything & ~used[nodes[at]]
            else:
                free = np.array([everything & ~used[i] for i in nodes[at]], dtype=np.int64)
            for row, what in enumerate(whats):
                result[row, at] = table.column(what, free, gpus)
        return result

    def best(self, nodes: IntArray, used: Masks, gpus: int) -> FloatArray:
        """Best score of ``gpus`` free GPUs on each node (GB/s; 0: unknown or too few free).

        ``used``: masks of occupied GPUs of *all* nodes, as in ``Pool.used_masks``.
        """
        row: FloatArray = self._gather(("best",), nodes, used, gpus)[0]
        return row

    def worst(self, nodes: IntArray, used: Masks, gpus: int) -> FloatArray:
        """Score of the worst set any rule could take."""
        row: FloatArray = self._gather(("worst",), nodes, used, gpus)[0]
        return row

    def predicted(self, nodes: IntArray, used: Masks, gpus: int) -> FloatArray:
        """Score of the set Slurm will probably take (plenty of cores assumed)."""
        row: FloatArray = self._gather(("predicted",), nodes, used, gpus)[0]
        return row

    def loss(self, nodes: IntArray, used: Masks, gpus: int) -> IntArray:
        """Penalties for ``NodePreference.key``: two rows, lower is better, in 0.1 GB/s.

        First what the probable pick falls short of the best set on the best kind of candidate,
        then the same for the worst pick. Nodes of unknown shape lose nothing.
        """
        if gpus < 2:  # one GPU sends nothing
            return np.zeros((2, len(nodes)), dtype=np.int64)
        classes = self.class_of[nodes]
        top = max(
            (
                float(table.ideal[gpus])
                for c, table in enumerate(self.tables)
                if gpus < len(table.ideal) and (classes == c).any()
            ),
            default=0.0,
        )
        rows = top - self._gather(("predicted", "worst"), nodes, used, gpus)
        rows[:, classes < 0] = 0.0
        return np.rint(np.maximum(rows, 0.0) * _UNIT).astype(np.int64)

    def choose(self, ranked: IntArray, count: int) -> Choice | None:
        """See :meth:`FabricIndex.choose`."""
        return self.index.choose(ranked, count)

    def arrange(self, ranked: IntArray, count: int) -> IntArray:
        """The ranking with the nodes of :meth:`choose` first, the rest behind in their order."""
        found = self.index.choose(ranked, count)
        if found is None or count < 2:
            return ranked
        rest = ranked[~np.isin(ranked, found.nodes)]
        return np.concatenate([found.nodes, rest])
