"""What the place costs a job by the links and switches of a site, as placement itself sees them.

The number is the predicted bandwidth of a ring all-reduce (``slurm_ext.topology.ring``): the
slowest of the links in a node and of the uplinks the ring crosses, shared with the other rings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isinf
from pathlib import Path

import numpy as np

from slurm_ext.engine.topology import TopologyView
from slurm_ext.model.node import Node
from slurm_ext.topology.fabric import Rates
from slurm_ext.topology.fabric_read import read_fabric
from slurm_ext.topology.findings import TopologyError
from slurm_ext.topology.presets import PRESETS
from slurm_ext.topology.site import NO_FABRIC, ShapeGroup, SiteTopology

from .errors import TraceError
from .links import Links, Part
from .workload import TraceJob


def read_site(preset: str, file: Path | None, node_gbps: float) -> SiteTopology:
    """Nodes of a known kind, under the switches of a topology file.

    :raises TraceError: unknown preset, or the file cannot be read or understood.
    """
    if preset and preset not in PRESETS:
        raise TraceError(f"--preset {preset!r}: one of {', '.join(PRESETS)}")
    groups = (ShapeGroup((), PRESETS[preset].shape),) if preset else ()
    fabric = NO_FABRIC
    if file is not None:
        try:
            fabric = read_fabric(file.read_text(encoding="utf-8"), str(file))
        except (OSError, UnicodeDecodeError, TopologyError) as error:
            raise TraceError(f"--topology {file}: {error}") from error
    return SiteTopology(groups, fabric, Rates(node_gbps))


class SiteLinks:
    """``Places`` by a site's topology.

    ``links``: GPU types and shares of communication, and what is in a node of unknown shape;
    ``nodes``: all nodes of the cluster.
    """

    def __init__(self, site: SiteTopology, links: Links, nodes: Sequence[Node]) -> None:
        self.links = links
        self.node_gbps = site.rates.node_gbps if site.rates is not None else links.uplink_gbps
        self.view: TopologyView = site.on(nodes)
        self.index = {node.name: i for i, node in enumerate(nodes)}
        self._full = {node.name: node.gpu_mask for node in nodes}
        self._best: dict[int, float] = {}

    def speeds(self, placed: Sequence[tuple[TraceJob, Sequence[Part]]]) -> list[float]:
        """See ``Places``."""
        crossed = [self._uplinks(parts) for _, parts in placed]
        crossing = Counter(name for names in crossed for name in names)
        found = []
        for (job, parts), names in zip(placed, crossed, strict=True):
            others = {n: crossing[n] - 1 for n in names if crossing[n] > 1}
            longer = 1.0
            if job.gpus > 1:
                longer = max(1.0, self._best_of(job.gpus) / self._gbps(parts, others))
            found.append(self.links.at(job, [p.gpu_type for p in parts], longer))
        return found

    def _uplinks(self, parts: Sequence[Part]) -> tuple[str, ...]:
        return self.view.uplinks(np.array([self.index[p.node] for p in parts], dtype=np.int64))

    def _gbps(self, parts: Sequence[Part], others: dict[str, int]) -> float:
        nodes = np.array([self.index[p.node] for p in parts], dtype=np.int64)
        gpus = np.array([p.gpus for p in parts], dtype=np.int64)
        inside = np.array([self._inside(p) for p in parts])
        ring = self.view.ring(nodes, inside, gpus, others)
        if ring is None:
            return float(inside.min())
        return ring.gbps

    def _inside(self, part: Part) -> float:
        """Of the GPUs it holds; where those are not known, of the best as many."""
        if part.gpus < 2:
            return float("inf")
        if part.mask:
            score = self.view.score(self.index[part.node], part.mask)
        else:
            node = np.array([self.index[part.node]], dtype=np.int64)
            free = np.array([self._full[part.node]], dtype=np.int64)
            score = float(self.view.predicted(node, free, np.array([part.gpus]))[0])
        return self.links.inside_gbps if isinf(score) else score

    def _best_of(self, gpus: int) -> float:
        """GB/s of so many GPUs alone on the fewest nodes."""
        if gpus not in self._best:
            size = self.links.node_gpus
            best = max(
                self._inside(Part(name, "", min(gpus, size)))
                for name, mask in self._full.items()
                if mask.bit_count() >= min(gpus, size)
            )
            self._best[gpus] = best if gpus <= size else min(best, self.node_gbps)
        return self._best[gpus]
