"""Slurm's main scheduler: strict priority order, a partition is closed by its first blocked job.

Source: sched_config.html and slurm.conf(5), SchedulerParameters; a job that names its nodes closes
only these nodes, not its partition (``_schedule`` in job_scheduler.c).
"""

from __future__ import annotations

import numpy as np

from .core import SlurmCore
from .fit import pick


def main_pass(core: SlurmCore, depth: int | None = None) -> int:
    """Start what can start, in order; ``depth`` jobs at most are looked at. Returns starts."""
    open_partitions = set(core.cluster.in_partition)
    closed = np.zeros(len(core.cluster.names), dtype=np.bool_)
    started = 0
    for looked, job in enumerate(core.waiting):
        if not open_partitions or (depth is not None and looked >= depth):
            break
        if job.spec.partition not in open_partitions:
            continue
        allowed = core.allowed(job, core.events.now_s) & ~closed
        shares = pick(core.cluster, core.cluster.free, job.demand, allowed, job.required)
        if shares is not None:
            core.start(job, shares)
            started += 1
        elif job.required and len(job.required) >= job.demand.nodes_min:
            closed[list(job.required)] = True
        else:
            open_partitions.discard(job.spec.partition)
            closed |= core.cluster.in_partition[job.spec.partition]
    return started
