"""CPUs and memory at a job's start, where an allocation chooses them then (Synergy without TUNE's
taking back from running jobs)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil

import numpy as np

from slurm_ext.model.annotation import Sensitivity
from slurm_ext.model.decision import Shape
from slurm_ext.model.job import NodeShare, Request
from slurm_ext.model.reshape import shape_of

from .allocation import Amount, AtLaunch
from .allow import Allowed
from .pool import Pool
from .sizes import with_cpus

NOTHING = Amount(0.0, 0.0)


def fair_share(pool: Pool, allowed: Allowed) -> Amount:
    """The proportional share of a GPU on the poorest of the nodes."""
    gpus = pool.capacity.gpus.sum(axis=0)
    having = np.flatnonzero(allowed.static & (gpus > 0))
    if not len(having):
        return NOTHING
    cpus = pool.capacity.cpus[having] / gpus[having]
    memory = pool.capacity.mem[having] / gpus[having]
    return Amount(float(cpus.min()), float(memory.min()))


CLASS_CPUS = {"image": 9, "speech": 6, "language": 1}
"""CPUs per GPU of a class of which no more is known (Synergy, OSDI 2022, artifact, V100): the
median of its image models (4 to 12), the one speech model that gains from more than its share,
and what each language model needs."""


def of_class(known: Sensitivity, asked_cpus: float) -> Sensitivity:
    """With the CPUs of its class where only that is declared.

    A class that may need more keeps what was asked for (per GPU). Memory is not guessed: too
    little kills a job.
    """
    usual = CLASS_CPUS.get(known.kind, 0)
    if known.cpus_per_gpu or not usual:
        return known
    if known.kind != "language":
        usual = max(usual, ceil(asked_cpus))
    return replace(known, cpus_per_gpu=usual)


def amounts(
    request: Request, known: Sensitivity, allocation: AtLaunch, fair: Amount
) -> Iterator[tuple[Shape | str, bool]]:
    """Shapes to try, best first, or why there is none; whether each is more than fair and asked."""
    before, gpus = shape_of(request), request.gpus
    asked = Amount(
        max(before.cpus, request.cpus_per_gpu * gpus) / gpus,
        before.mem_node_mib * before.nodes / gpus,
    )
    for amount in allocation.at_launch(of_class(known, asked.cpus), fair, asked):
        memory = ceil(amount.mem_mib * before.gpus_per_node) if before.mem_node_mib else 0
        more = amount.cpus > max(fair.cpus, asked.cpus) or (
            bool(memory) and amount.mem_mib > max(fair.mem_mib, asked.mem_mib)
        )
        yield with_cpus(request, ceil(amount.cpus * gpus), memory), more


def leaves_share(pool: Pool, shares: Sequence[NodeShare], fair: Amount) -> bool:
    """Whether every GPU left free on these nodes keeps its proportional share."""
    gpus = pool.free.gpus.sum(axis=0)
    for share in shares:
        i = pool.index[share.node]
        left = int(gpus[i]) - share.gpus
        if pool.free.cpus[i] - share.cpus < fair.cpus * left:
            return False
        if pool.memory_counts and pool.free.mem[i] - share.mem_mib < fair.mem_mib * left:
            return False
    return True
