"""Orders of the waiting jobs; lower terms go first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.engine.view import JobView
from slurm_ext.model.decision import Term
from slurm_ext.model.units import EpochS


@dataclass(frozen=True, slots=True)
class SubmitOrder:
    """First come, first served by submit time."""

    def terms(self, views: Sequence[JobView], now_s: EpochS) -> list[tuple[Term, ...]]:
        return [(Term("submit_s", float(v.first_submit_s)),) for v in views]


@dataclass(frozen=True, slots=True)
class ShortestFirst:
    """Shortest expected run time first; ``times_gpus`` weighs it by the GPUs held (area).

    The learnt point estimate counts where there is one, else the time limit.

    ``aging_s`` seconds of waiting count as one second less of run time per second divided by it
    (0: no aging), so that long jobs are not starved for ever.
    """

    times_gpus: bool = False
    aging_s: float = 0.0

    def terms(self, views: Sequence[JobView], now_s: EpochS) -> list[tuple[Term, ...]]:
        found: list[tuple[Term, ...]] = []
        for v in views:
            size = expected_s(v) * (max(1, v.job.request.gpus) if self.times_gpus else 1)
            waited = max(0, now_s - v.job.key.submit_s)
            aged = size - (waited * size / self.aging_s if self.aging_s else 0.0)
            submit_s = Term("submit_s", float(v.first_submit_s))
            found.append((Term("expected_s", float(aged)), submit_s))
        return found


@dataclass(frozen=True, slots=True)
class HeadThenShortest:
    """The first of each partition in order of submission, then the others, shortest expected first.

    With EASY backfill: first come, first served, and of those that may pass the shortest (SJBF,
    Tsafrir, Etsion, Feitelson, IEEE TPDS 18(6), 2007). Exact with one start a decision; with more,
    the second to start is the shortest that fits, not the next in line.
    """

    def terms(self, views: Sequence[JobView], now_s: EpochS) -> list[tuple[Term, ...]]:
        heads = set()
        seen: set[str] = set()
        for v in sorted(views, key=lambda v: (v.first_submit_s, v.key.job_id)):
            if not seen.issuperset(v.job.partitions):
                heads.add(v.key)
            seen.update(v.job.partitions)
        return [
            (
                Term("behind_head", float(v.key not in heads)),
                Term("expected_s", 0.0 if v.key in heads else expected_s(v)),
                Term("submit_s", float(v.first_submit_s)),
            )
            for v in views
        ]


def expected_s(view: JobView) -> float:
    """Seconds a job will run: its estimate, at most its limit; without one the limit."""
    if view.estimate is None:
        return float(view.duration_s)
    limit_s = view.job.limit_s
    return view.estimate.point_s if limit_s is None else min(view.estimate.point_s, limit_s)
