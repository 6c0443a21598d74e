"""A site's links and switches as one frozen value that can be written to a file and read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from slurm_ext.engine.topology import UNKNOWN, TopologyView
from slurm_ext.model.node import Node

from .fabric import Fabric, Rates, flat
from .findings import Finding, warning
from .shape import NodeShape
from .view import NodeTopology

NO_FABRIC = flat()


@dataclass(frozen=True, slots=True)
class ShapeGroup:
    """Nodes with the same shape; no names: all that no other group names."""

    nodes: tuple[str, ...]
    shape: NodeShape


@dataclass(frozen=True, slots=True)
class SiteTopology:
    """``engine.topology.Topology``: shapes of nodes, the fabric, its bandwidths.

    ``rates`` None: bandwidths between nodes are not known: then only the number of leaves or
    blocks counts.
    """

    groups: tuple[ShapeGroup, ...] = ()
    fabric: Fabric = NO_FABRIC
    rates: Rates | None = None

    def shapes(self, names: Iterable[str]) -> Mapping[str, NodeShape]:
        """Shapes of the nodes that have one; of two groups that name a node the first counts."""
        general = next((g.shape for g in self.groups if not g.nodes), None)
        named = {name: g.shape for g in reversed(self.groups) for name in g.nodes}
        found = {name: named.get(name, general) for name in names}
        return {name: shape for name, shape in found.items() if shape is not None}

    def on(self, nodes: Sequence[Node]) -> TopologyView:
        """Answers for these nodes; those whose GPUs differ from the shape count as unknown."""
        return _view(self, tuple((node.name, node.gpu_mask) for node in nodes))


@lru_cache(maxsize=4)
def _view(site: SiteTopology, nodes: tuple[tuple[str, int], ...]) -> TopologyView:
    if not site.groups and not site.fabric.units:
        return UNKNOWN
    shapes = site.shapes(name for name, _ in nodes)
    kept = {
        name: shape
        for name, mask in nodes
        if (shape := shapes.get(name)) is not None and shape.all_mask == mask
    }
    return NodeTopology([name for name, _ in nodes], kept, site.fabric, site.rates)


def mismatches(site: SiteTopology, nodes: Sequence[Node]) -> tuple[Finding, ...]:
    """Shapes that do not agree with what Slurm says of a node.

    A shape with another number of GPUs (a card was taken out, MIG was switched on) would answer
    for indices that do not exist: such a node counts as unknown.
    """
    shapes = site.shapes(node.name for node in nodes)
    return tuple(
        warning(
            "shape_mismatch",
            node.name,
            f"the shape has {shape.count} GPUs, Slurm has {node.gpu_count}",
            "gather the links of this node again",
        )
        for node in nodes
        if (shape := shapes.get(node.name)) is not None and node.gpu_mask != shape.all_mask
    )
