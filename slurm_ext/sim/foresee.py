"""Predicted run times inside a simulation: from jobs that have ended before, nothing else."""

from __future__ import annotations

from slurm_ext.model.estimate import Estimate

from .workload import TraceJob


class History:
    """Mean run time of a user's ended jobs of equal size, else of all ended jobs of that size.

    The simplest causal predictor, as the baselines of Hu et al. (SC 2021) use it; the daemon's own
    learns more. Capped by the job's limit.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[str, int], tuple[int, float]] = {}

    def ended(self, job: TraceJob) -> None:
        """Learn from a job that has ended."""
        for key in ((job.user, job.gpus), ("", job.gpus)):
            count, total_s = self._sums.get(key, (0, 0.0))
            self._sums[key] = (count + 1, total_s + job.run_s)

    def estimate(self, job: TraceJob) -> Estimate | None:
        """What is expected of a job; None while nothing of its size has ended."""
        for level, key in (("user+size", (job.user, job.gpus)), ("size", ("", job.gpus))):
            count, total_s = self._sums.get(key, (0, 0.0))
            if count:
                mean_s = total_s / count
                if job.limit_s is not None:
                    mean_s = min(mean_s, job.limit_s)
                return Estimate(mean_s, mean_s, mean_s, mean_s, count, level)
        return None
