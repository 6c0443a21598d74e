"""Which waiting jobs Slurm could start before we look again: only these need deferring."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slurm_ext.model.decision import Mode, Verdict
from slurm_ext.model.job import JobKey
from slurm_ext.model.units import EpochS

from .planner import Planner
from .pool import Free
from .search import possible
from .settings import LeverSettings
from .steps import Release
from .view import JobView, pinnable


def exposed_free(planner: Planner, before: Free, soon: Sequence[Release], until_s: EpochS) -> Free:
    """What Slurm may hand out before ``until_s``: free now, plus what is expected back by then.

    ``before`` is the free state at the start of the cycle: places kept by us are free to Slurm.
    """
    free = before.copy()
    for release in soon:
        if release.end_s <= until_s:
            for share in release.shares:
                planner.pool.apply(free, share, +1)
    return free


def plugs(planner: Planner, views: Sequence[JobView]) -> frozenset[JobKey]:
    """The first blocked job of each partition: once it does not fit, it must not stay deferred.

    The main scheduler stops at it, so nothing behind it slips past when room appears. Deferred, it
    would not be seen at all, and the jobs behind it would take its room.
    """
    first: dict[str, JobKey] = {}
    for view in views:
        if view.mode is not Mode.ENFORCE or planner.decisions[view.key].verdict is not Verdict.WAIT:
            continue
        for name in view.job.partitions:
            first.setdefault(name, view.key)
    return frozenset(first.values())


def overtaking(planner: Planner, views: Sequence[JobView]) -> frozenset[JobKey]:
    """Unpinned jobs told to start that could take the nodes of a start ahead of them.

    Slurm places them as it likes, at once if nothing holds them, while a job with a pin has to be
    taken hold of first. Until those ahead are seen running these must not be let go.
    """
    found: list[JobKey] = []
    promised = np.zeros(len(planner.pool.nodes), dtype=np.bool_)
    for view in views:
        decision = planner.decisions[view.key]
        starts = decision.verdict in (Verdict.START, Verdict.STARTING)
        if view.mode is not Mode.ENFORCE or not starts or decision.placement is None:
            continue
        if pinnable(view.job, view.entry):
            promised[[planner.pool.index[name] for name in decision.placement.nodes]] = True
        elif decision.verdict is Verdict.START and (planner.allowed(view).nodes & promised).any():
            found.append(view.key)
    return frozenset(found)


def frontier(
    planner: Planner,
    views: Sequence[JobView],
    free: Free,
    levers: LeverSettings,
    *,
    plugged: bool,
) -> frozenset[JobKey]:
    """Keys of the WAIT jobs to defer.

    With ``plugged`` (our first blocked job stands in front of its partition by SiteFactor) the main
    scheduler cannot pass it, and only jobs that fit what is ``free`` can be started by backfill.
    Without it, or with ``frontier = "wide"``, every job that could ever start is exposed as soon
    as any job ends; then the first ``frontier_max_jobs`` in Slurm's own order are deferred.
    """
    wide = levers.frontier == "wide" or not plugged
    seen: dict[object, bool] = {}
    found: list[JobView] = []
    for view in views:
        decision = planner.decisions[view.key]
        if view.mode is not Mode.ENFORCE or decision.verdict is not Verdict.WAIT:
            continue
        if wide:
            found.append(view)
            continue
        shape, allowed = planner.asked(view)
        key = (shape.number, allowed.number)
        if key not in seen:
            seen[key] = possible(planner.pool, free, shape.demand, allowed.nodes, allowed.required)
        if seen[key]:
            found.append(view)
    if len(found) > levers.frontier_max_jobs:
        found.sort(key=lambda v: (-v.natural_priority, v.key))
        found = found[: levers.frontier_max_jobs]
    return frozenset(v.key for v in found)
