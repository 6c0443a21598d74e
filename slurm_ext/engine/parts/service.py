"""Order of the waiting jobs by the service they are expected to need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.engine.parts.ordering import expected_s
from slurm_ext.engine.view import JobView
from slurm_ext.model.decision import Term
from slurm_ext.model.units import EpochS


@dataclass(frozen=True, slots=True)
class LeastService:
    """Least expected run time times GPUs first, by the estimate where there is one, else the limit.

    ``times_gpus`` off: run time alone.
    """

    times_gpus: bool = True

    def terms(self, views: Sequence[JobView], now_s: EpochS) -> list[tuple[Term, ...]]:
        found: list[tuple[Term, ...]] = []
        for v in views:
            gpus = max(1, v.job.request.gpus) if self.times_gpus else 1
            found.append((Term("service_gpu_s", expected_s(v) * gpus),
                          Term("submit_s", float(v.first_submit_s))))  # fmt: skip
        return found


@dataclass(frozen=True, slots=True)
class LeastAttained:
    """Queues by the GPU-seconds a job has had before it was stopped last, then submit time."""

    limits: tuple[float, ...] = (3250.0, 7200.0)

    def terms(self, views: Sequence[JobView], now_s: EpochS) -> list[tuple[Term, ...]]:
        return [
            (
                Term("queue", float(sum(v.attained_gpu_s >= limit for limit in self.limits))),
                Term("submit_s", float(v.first_submit_s)),
            )
            for v in views
        ]
