"""The one score: predicted bus bandwidth of a ring all-reduce over a set of GPUs, in GB/s.

Bus bandwidth is what each GPU sends per second while the ring is full (``busbw`` of
nccl-tests); a ring all-reduce of m bytes over w GPUs then takes 2·m/w·(w-1)/busbw seconds, the
first term of SJF-BCO's iteration time (arXiv 2207.07817) with B = busbw.

Inside a node two models are taken together and the better counts:

* one ring over all links: as fast as its slowest link. The only model for PCIe and NVSwitch,
  where a GPU has one port and a second ring would share it;
* several rings in parallel over direct NVLinks (DGX-1, four-GPU boards), both ways round each,
  as NCCL runs them: the greatest total rate (see ``packing``).

Exact up to 8 GPUs and for sets in which all links are alike; larger sets get a heuristic ring
with an upper bound, so the gap is known (:class:`RingScore`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from slurm_ext.model.units import GpuMask, indices_of

from .packing import parallel_rings_gbps
from .shape import LinkClass, Matrix, NodeShape

EXACT_GPUS = 8
NO_TRAFFIC = math.inf
"""Score of a single GPU: nothing is sent."""


@dataclass(frozen=True, slots=True)
class RingScore:
    """``gbps`` predicted; ``ring`` the order of GPUs of the best single ring.

    ``upper``: no ring can be faster; equal to ``gbps`` when ``exact``.
    """

    gbps: float
    ring: tuple[int, ...]
    upper: float

    @property
    def exact(self) -> bool:
        return self.gbps >= self.upper

    @property
    def gap(self) -> float:
        """Largest possible error as a share of ``upper`` (0: exact)."""
        return 0.0 if self.exact else 1.0 - self.gbps / self.upper


def ring_gbps(shape: NodeShape, mask: GpuMask) -> float:
    """Predicted ring bandwidth of a GPU set of one node (inf for one GPU, 0 for none)."""
    return ring_score(shape, mask).gbps


def ring_score(shape: NodeShape, mask: GpuMask) -> RingScore:
    """The same with the ring found and how far from optimal it may be.

    :raises ValueError: the mask has GPUs that the shape does not have.
    """
    if mask < 0 or mask >> shape.count:
        raise ValueError(f"GPU mask {mask:#x} does not fit a node of {shape.count} GPUs")
    gpus = indices_of(mask)
    if len(gpus) < 2:
        value = NO_TRAFFIC if gpus else 0.0
        return RingScore(value, gpus, value)
    values = tuple(tuple(shape.gbps[i][j] for j in gpus) for i in gpus)
    direct = tuple(
        tuple(
            shape.gbps[i][j] if i != j and shape.links[i][j].kind is LinkClass.NVLINK else 0.0
            for j in gpus
        )
        for i in gpus
    )
    gbps, order, upper = _score(values, direct)
    return RingScore(gbps, tuple(gpus[i] for i in order), upper)


@lru_cache(maxsize=65536)
def _score(values: Matrix, direct: Matrix) -> tuple[float, tuple[int, ...], float]:
    """Cached on the sub-matrices: equal sets, also of different nodes, are computed once."""
    n = len(values)
    gbps, order, upper = _single_ring(values)
    if 2 < n <= EXACT_GPUS:
        many = parallel_rings_gbps(direct)
        gbps, upper = max(gbps, many), max(upper, many)
    elif n > EXACT_GPUS:
        # Rings over direct links leave each GPU by all of them at most.
        upper = max(upper, min(sum(row) for row in direct))
    return gbps, order, upper


def _single_ring(values: Matrix) -> tuple[float, tuple[int, ...], float]:
    n = len(values)
    levels = sorted({values[i][j] for i in range(n) for j in range(i)}, reverse=True)
    if len(levels) == 1 or n <= 3:
        return levels[-1], tuple(range(n)), levels[-1]
    bound = _bound(values)
    candidates = [level for level in levels if level <= bound]
    if n <= EXACT_GPUS:
        for level in candidates:
            ring = _cycle(values, level)
            if ring:
                return level, ring, level
    ring = _improved(values, _greedy(values))
    return _slowest(values, ring), ring, bound


def _bound(values: Matrix) -> float:
    """Every GPU needs two neighbours, so its second-best link is a bound for any ring."""
    return min(
        sorted((v for j, v in enumerate(row) if j != i), reverse=True)[1]
        for i, row in enumerate(values)
    )


def _cycle(values: Matrix, level: float) -> tuple[int, ...]:
    """A ring over all GPUs with links of at least ``level``, or nothing (bitmask search).

    ``ends[s]``: the GPUs at which a path from GPU 0 through exactly the set s can end. GPU 0 is
    fixed as the start: rings that are rotations of each other are looked at once.
    """
    n = len(values)
    near = [sum(1 << j for j in range(n) if j != i and values[i][j] >= level) for i in range(n)]
    ends = [0] * (1 << n)
    ends[1] = 1
    for s in range(1, 1 << n, 2):
        here = ends[s]
        if not here:
            continue
        for v in range(1, n):
            if not s >> v & 1 and here & near[v]:
                ends[s | 1 << v] |= 1 << v
    full = (1 << n) - 1
    last = ends[full] & near[0]
    if not last:
        return ()
    path, s, v = list[int](), full, (last & -last).bit_length() - 1
    while v:
        path.append(v)
        s ^= 1 << v
        before = ends[s] & near[v]
        v = (before & -before).bit_length() - 1
    return (0, *reversed(path))


def _slowest(values: Matrix, ring: Sequence[int]) -> float:
    return min(values[a][b] for a, b in zip(ring, (*ring[1:], ring[0]), strict=True))


def _greedy(values: Matrix) -> tuple[int, ...]:
    """From GPU 0 always on to the nearest GPU not yet visited."""
    ring, left = [0], set(range(1, len(values)))
    while left:
        here = ring[-1]
        step = max(left, key=lambda j: (values[here][j], -j))
        ring.append(step)
        left.remove(step)
    return tuple(ring)


def _improved(values: Matrix, ring: tuple[int, ...]) -> tuple[int, ...]:
    """2-opt on the slowest links: reverse a stretch while that makes the ring better.

    Better means fewer links at the slowest speed or a faster slowest one; it ends because the
    sorted list of link speeds grows with each step.
    """
    n = len(ring)

    def speeds(order: Sequence[int]) -> list[float]:
        return sorted(values[a][b] for a, b in zip(order, (*order[1:], order[0]), strict=True))

    best, found = speeds(ring), True
    while found:
        found = False
        for i in range(n - 1):
            for j in range(i + 2, n + (i > 0)):
                other = ring[: i + 1] + ring[i + 1 : j][::-1] + ring[j:]
                value = speeds(other)
                if value > best:
                    ring, best, found = other, value, True
    return ring


# -- several nodes -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Uplink:
    """One shared way out of a node or switch that a ring must pass.

    ``jobs`` other jobs already send through it. ``name`` is for explanations.
    """

    name: str
    gbps: float
    jobs: int = 0


@dataclass(frozen=True, slots=True)
class Prediction:
    """The score of a whole placement and what limits it."""

    gbps: float
    bottleneck: str
    exact: bool = True


def shared_gbps(gbps: float, jobs: int, alpha: float = 0.0) -> float:
    """What is left of an uplink for us beside ``jobs`` others: gbps / f(k), k = jobs + 1.

    f(k) = k + alpha·(k-1) as in SJF-BCO (arXiv 2207.07817); alpha 0 is a fair share.
    """
    k = jobs + 1
    return gbps / (k + alpha * (k - 1))


def placement_gbps(
    inside: Iterable[tuple[str, RingScore]], uplinks: Iterable[Uplink], alpha: float = 0.0
) -> Prediction:
    """One ring through all nodes: the slowest node or the slowest shared uplink.

    ``inside``: the score of the job's GPUs on each node. ``uplinks``: those that this job's ring
    crosses (``Fabric.crossed``); each is passed once per direction, so it counts in full. A node
    with one GPU does not limit the ring.
    """
    best = Prediction(NO_TRAFFIC, "")
    exact = True
    for name, score in inside:
        exact = exact and score.exact
        if score.gbps < best.gbps:
            best = Prediction(score.gbps, f"links inside {name}")
    for uplink in uplinks:
        gbps = shared_gbps(uplink.gbps, uplink.jobs, alpha)
        if gbps < best.gbps:
            with_jobs = f" shared with {uplink.jobs} jobs" if uplink.jobs else ""
            best = Prediction(gbps, f"uplink of {uplink.name}{with_jobs}")
    return Prediction(best.gbps, best.bottleneck, exact)
