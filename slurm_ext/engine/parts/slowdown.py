"""Order by expected run time over the slowdown a job has had so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.engine.parts.ordering import expected_s
from slurm_ext.engine.view import JobView
from slurm_ext.model.decision import Term
from slurm_ext.model.units import EpochS


@dataclass(frozen=True, slots=True)
class SlowdownAged:
    """Short jobs first, but a job that has waited k times its run time counts as 1 + k times
    shorter: nobody starves, and short jobs are not made to wait long ones' times.

    ``least_s``: run time below which slowdown does not grow faster (as in bounded slowdown).
    """

    least_s: float = 10.0

    def terms(self, views: Sequence[JobView], now_s: EpochS) -> list[tuple[Term, ...]]:
        found: list[tuple[Term, ...]] = []
        for view in views:
            run_s = expected_s(view)
            waited_s = max(0, now_s - view.job.key.submit_s)
            aged = run_s / (1.0 + waited_s / max(self.least_s, run_s))
            found.append((Term("aged_s", aged), Term("submit_s", float(view.first_submit_s))))
        return found
