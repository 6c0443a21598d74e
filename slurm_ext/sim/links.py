"""What the place costs a job: slower GPUs, several nodes, and other jobs on the same uplinks.

The contention is that of Yu, Ji, Rajan, Liu, On Scheduling Ring-All-Reduce Learning Jobs in
Multi-Tenant GPU Clusters with Communication Contention, MobiHoc 2022 (its model, recalled): a ring
over several nodes goes at the pace of its most crowded uplink.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from .errors import TraceError
from .workload import TraceJob

Where = Sequence[tuple[str, str]]
"""Node and GPU type of each part of a job."""


class Part(NamedTuple):
    """What a job holds on one node; ``mask``: which of its GPUs, 0: not known."""

    node: str
    gpu_type: str
    gpus: int
    mask: int = 0


class Places(Protocol):
    """Says what the places of all running jobs cost them."""

    def speeds(self, placed: Sequence[tuple[TraceJob, Sequence[Part]]]) -> list[float]:
        """Work a second of each job, 1 at best."""
        ...


@dataclass(frozen=True, slots=True)
class Links:
    """``inside_gbps``, ``uplink_gbps``: bandwidth between GPUs of a node, and out of it.

    ``compete``: share of the jobs on an uplink that send at the same time (xi of the paper);
    ``alpha``: what k senders lose beyond a fair share. ``comm``: share of its run time in which a
    job brings GPUs together, where the trace does not say (``comm``). ``gpu_speeds``: of GPU types
    (1 where not named); run times are those on the fastest. ``node_gpus``: of the largest node.
    """

    inside_gbps: float = 1.0
    uplink_gbps: float = 1.0
    compete: float = 1.0
    alpha: float = 0.0
    comm: float = 0.0
    gpu_speeds: Mapping[str, float] = field(default_factory=dict)
    node_gpus: int = 8

    def speeds(self, placed: Sequence[tuple[TraceJob, Sequence[Part]]]) -> list[float]:
        """See ``Places``."""
        where = [[(p.node, p.gpu_type) for p in parts] for _, parts in placed]
        return [
            self.speed(job, place, sharing)
            for (job, _), place, sharing in zip(placed, where, crowds(where), strict=True)
        ]

    def speed(self, job: TraceJob, where: Where, sharing: int) -> float:
        """Work a second, 1 at best. ``sharing``: jobs on its most crowded uplink, itself too."""
        best = self.inside_gbps
        if job.gpus > self.node_gpus:
            best = min(best, self.uplink_gbps)
        return self.at(job, [kind for _, kind in where], best / self.gbps(len(where), sharing))

    def at(self, job: TraceJob, types: Iterable[str], longer: float) -> float:
        """Speed on these types where bringing GPUs together takes so many times as long."""
        fastest = max(self.gpu_speeds.values(), default=1.0)
        slowest = min(self.gpu_speeds.get(kind, 1.0) for kind in types)
        part = (job.comm or self.comm) if job.gpus > 1 else 0.0
        return slowest / max(fastest, slowest) / (1 - part + part * longer)

    def gbps(self, nodes: int, sharing: int) -> float:
        """Bandwidth of a ring over so many nodes."""
        if nodes < 2:
            return self.inside_gbps
        k = max(1.0, self.compete * sharing)
        return min(self.inside_gbps, self.uplink_gbps / (k + self.alpha * (k - 1)))


def crowds(placed: Iterable[Where]) -> list[int]:
    """Jobs on the most crowded uplink of each job, itself too; 1 for a job on one node."""
    rows = [list(where) for where in placed]
    jobs = Counter(node for where in rows if len(where) > 1 for node, _ in where)
    return [max((jobs[n] for n, _ in where), default=1) if len(where) > 1 else 1 for where in rows]


def parse_links(text: str) -> tuple[float, float]:
    """``INSIDE/UPLINK`` in GB/s.

    :raises TraceError: anything else.
    """
    found = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)/(\d{1,6}(?:\.\d+)?)", text)
    if found is None or not float(found[1]) or not float(found[2]):
        raise TraceError(f"--links {text!r}: expected INSIDE/UPLINK in GB/s, such as 240/25")
    return float(found[1]), float(found[2])


def parse_speeds(text: str) -> dict[str, float]:
    """``TYPE=SPEED,...``.

    :raises TraceError: anything else.
    """
    speeds = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if not name or re.fullmatch(r"\d{1,6}(\.\d+)?", value) is None or not float(value):
            raise TraceError(f"--gpu-speeds {part!r}: expected TYPE=SPEED, such as v100=0.5")
        speeds[name] = float(value)
    return speeds
