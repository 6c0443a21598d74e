"""Ranking through SiteFactor: the few jobs that Slurm must consider first, in our order.

The main scheduler of Slurm walks a partition in priority order and stops at the first job that
cannot start (slurm.conf(5), SchedulerParameters). So it is enough to put the jobs we want next
in front: they start the moment room appears, and the first that cannot start keeps lower jobs from
slipping past. The priorities handed out never exceed what the managed jobs have among themselves by
more than one step per rung, so nothing is lifted over jobs that are not ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .view import JobView

STEP = 10
"""Distance between rungs: room for Slurm's age factor to drift before a rewrite is due."""

MAX_PRIORITY = 4_294_967_293


@dataclass(frozen=True, slots=True)
class Rung:
    """A SiteFactor to be written (absolute; 0 takes our boost away)."""

    view: JobView
    site_factor: int


def rungs(front: Sequence[JobView], rest: Sequence[JobView]) -> list[Rung]:
    """SiteFactors that put ``front`` in this order before ``rest``; only those that must change.

    All views are of one partition. Walks from the last rung up: a job already above everything
    below it keeps its number, so an unchanged queue needs no write.
    """
    ceiling = max((v.natural_priority for v in (*front, *rest)), default=0)
    highest = min(MAX_PRIORITY, ceiling + 4 * STEP * max(1, len(front)))
    changed = _climb(front, rest, highest)
    if changed is None:  # old boosts have climbed on each other: start again from the ground
        changed = _climb(front, rest, highest, afresh=True) or []
    changed.reverse()
    changed.extend(
        Rung(v, v.entry.original_site_factor)
        for v in rest
        if v.entry is not None and v.entry.site_factor != v.entry.original_site_factor
    )
    return changed


def _climb(
    front: Sequence[JobView], rest: Sequence[JobView], highest: int, *, afresh: bool = False
) -> list[Rung] | None:
    below = max((_standing(v, v.natural_priority) for v in rest), default=(0, 0))
    changed = []
    for view in reversed(front):
        priority = view.natural_priority if afresh else view.job.priority
        if _standing(view, priority) <= below:
            priority = below[0] + STEP
        if priority > highest:
            return None
        if priority != view.job.priority:
            changed.append(Rung(view, priority - view.natural_priority))
        below = _standing(view, priority)
    return changed


def _standing(view: JobView, priority: int) -> tuple[int, int]:
    """Slurm considers the older job id first among equal priorities."""
    return priority, -view.job.job_id
