"""The default order: a weighted sum of named factors, and a hard bound on being passed over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import fsum
from operator import mul

from slurm_ext.engine.policy import Factor
from slurm_ext.engine.view import JobView
from slurm_ext.errors import PolicyError
from slurm_ext.model.annotation import Annotation
from slurm_ext.model.decision import Term
from slurm_ext.model.job import Job, JobKey, SlurmFactors
from slurm_ext.model.units import EpochS

_NOT_OVERDUE = Term("overdue_s", 0.0)

LEAST_REST = 0.1
"""A job that outran its estimate before a requeue is taken to have this share of it left."""


LARGEST = 1e15
"""Of all parameters: their sums and products stay exact enough to compare."""

LEAST_SCALE = 1e-6
"""Of what is divided by."""


@dataclass(frozen=True, slots=True)
class WeightedFactors:
    """Factors from 0 (last) to 1 (first), each times its ``weight_…``; the highest sum goes first.

    ``priority``: Slurm's own priority without our SiteFactor, over the highest one that waits.
    ``slurm_age``, ``fair_share``, ``qos``, ``partition``, ``size``, ``association``: the factors
    it is made of, as Slurm has normalised them (sprio(1)); 0 where they are not to be had.
    ``age``: time since submission over ``max_age_s``, at most 1 (as PriorityMaxAge, slurm.conf(5)).
    ``short``: h / (h + GPU-seconds still to run), h = ``half_gpu_s``; Shortest Remaining Service
    First when it is the only one (Gu et al., NSDI 2019).
    ``attained``: the same of the GPU-seconds had before a requeue (least attained service first).
    ``deadline``: h / (h + slack), h = ``half_slack_s``; slack is the time until the latest start
    that still meets the annotated deadline or sbatch's --deadline; 0 without one or after it.
    ``lane``: 1 for jobs annotated ``debug`` with a limit up to ``lane_max_s``, as long as all such
    jobs together, running ones included, hold at most ``lane_gpus`` GPUs.
    ``gang``: g / (g + h), g GPUs of the job, h = ``half_gang_gpus``: wide jobs first.

    A job that has waited ``max_wait_s`` (0: no bound) goes before all others, the longest wait
    first: from then on nothing that is submitted later is ahead of it.
    """

    weight_priority: float = 1.0
    weight_slurm_age: float = 0.0
    weight_fair_share: float = 0.0
    weight_qos: float = 0.0
    weight_partition: float = 0.0
    weight_size: float = 0.0
    weight_association: float = 0.0
    weight_age: float = 0.5
    weight_short: float = 4.0
    weight_attained: float = 0.0
    weight_deadline: float = 1.0
    weight_lane: float = 2.0
    weight_gang: float = 0.0
    max_age_s: float = 7 * 86400.0
    half_gpu_s: float = 43200.0
    half_slack_s: float = 3600.0
    half_gang_gpus: float = 8.0
    lane_gpus: int = 4
    lane_max_s: float = 3600.0
    max_wait_s: float = 7 * 86400.0

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            scale = f.name.startswith("half_") or f.name == "max_age_s"
            low = LEAST_SCALE if scale else 0
            if not low <= value <= LARGEST:  # so is NaN refused
                raise PolicyError(
                    f"policy.parameters.{f.name}: {value:g} cannot be; give a number "
                    f"from {low:g} to {LARGEST:g}"
                )

    @property
    def reads_factors(self) -> bool:
        """See ``policy.ReadsFactors``."""
        return any(getattr(self, f"weight_{name}") for name in SLURM_NAMES)

    def beside(
        self, running: Iterable[Job], annotations: Mapping[JobKey, Annotation]
    ) -> WeightedFactors:
        """The same order, less in the lane by what it already holds."""
        if not (self.weight_lane and self.lane_gpus and annotations):
            return self
        held = sum(
            sum(share.gpus for share in job.alloc)
            for job in running
            if self._in_lane(annotations.get(job.key), job.limit_s)
        )
        return replace(self, lane_gpus=max(0, self.lane_gpus - held))

    def terms(self, views: Sequence[JobView], now_s: EpochS) -> list[tuple[Term, ...]]:
        found: list[tuple[Term, ...]] = []
        weights = self._weights()
        for v, values in zip(views, self._values(views, now_s), strict=True):
            score = fsum(map(mul, weights, values))  # exact, so the same bits on any Python
            waited_s = now_s - v.job.key.submit_s
            overdue = self.max_wait_s and waited_s >= self.max_wait_s
            found.append((
                Term("overdue_s", -float(waited_s)) if overdue else _NOT_OVERDUE,
                Term("neg_score", -score),
                Term("neg_priority", -float(v.natural_priority)),
                Term("submit_s", float(v.first_submit_s)),
            ))  # fmt: skip
        return found

    def factors(self, views: Sequence[JobView], now_s: EpochS) -> list[tuple[Factor, ...]]:
        """What the sums are made of, in the order of ``views``."""
        names, weights = self._names(), self._weights()
        return [
            tuple(Factor(n, v, w) for n, v, w in zip(names, values, weights, strict=True))
            for values in self._values(views, now_s)
        ]

    def _weights(self) -> tuple[float, ...]:
        return tuple(getattr(self, f"weight_{name}") for name in self._names())

    def _names(self) -> tuple[str, ...]:
        return NAMES + SLURM_NAMES if self.reads_factors else NAMES

    def _values(self, views: Sequence[JobView], now_s: EpochS) -> list[tuple[float, ...]]:
        """One row a view, columns as :meth:`_names`. Only sums, products and quotients: the same
        bits on any machine."""
        highest = max((v.natural_priority for v in views), default=0)
        lane, half_gpu_s, half_gang = self._lane(views), self.half_gpu_s, self.half_gang_gpus
        rows: list[tuple[float, ...]] = []
        for v in views:
            gpus = v.job.request.gpus
            rest_gpu_s = rest_s(v) * max(1, gpus)
            rows.append((
                max(0, v.natural_priority) / highest if highest > 0 else 0.0,
                min(1.0, max(0, now_s - v.job.key.submit_s) / self.max_age_s),
                half_gpu_s / (half_gpu_s + rest_gpu_s),
                half_gpu_s / (half_gpu_s + v.attained_gpu_s) if v.attained_gpu_s else 1.0,
                self._urgency(v, now_s),
                1.0 if v.key in lane else 0.0,
                gpus / (gpus + half_gang),
            ))  # fmt: skip
        if not self.reads_factors:
            return rows
        return [(*row, *(v.job.factors or NO_FACTORS)) for v, row in zip(views, rows, strict=True)]

    def _urgency(self, view: JobView, now_s: EpochS) -> float:
        annotated = view.annotation.deadline_s if view.annotation is not None else 0
        if not annotated and view.job.deadline_s is None:
            return 0.0
        deadlines = [d for d in (annotated, view.job.deadline_s) if d]
        if not deadlines or min(deadlines) <= now_s:
            return 0.0
        slack_s = max(0.0, min(deadlines) - now_s - rest_s(view, careful=True))
        return self.half_slack_s / (self.half_slack_s + slack_s)

    def _lane(self, views: Sequence[JobView]) -> frozenset[JobKey]:
        """The waiting jobs the lane has room for, first come, first served."""
        if not self.weight_lane:
            return frozenset()
        room = self.lane_gpus
        chosen = []
        asking = [v for v in views if self._in_lane(v.annotation, v.job.limit_s)]
        for v in sorted(asking, key=lambda v: (v.first_submit_s, v.key.job_id)):
            need = v.job.request.gpus * max(1, v.job.array_count)
            if need <= room:
                chosen.append(v.key)
                room -= need
        return frozenset(chosen)

    def _in_lane(self, annotation: Annotation | None, limit_s: int | None) -> bool:
        asks = annotation is not None and annotation.debug
        return asks and limit_s is not None and limit_s <= self.lane_max_s


NAMES = ("priority", "age", "short", "attained", "deadline", "lane", "gang")
"""The factors of :class:`WeightedFactors`, in the order they are summed up."""

SLURM_WEIGHTS = {
    "slurm_age": "PriorityWeightAge",
    "fair_share": "PriorityWeightFairshare",
    "qos": "PriorityWeightQOS",
    "partition": "PriorityWeightPartition",
    "size": "PriorityWeightJobSize",
    "association": "PriorityWeightAssoc",
}
"""Slurm's own factors, in the order of ``SlurmFactors``, each with the setting of slurm.conf
without which Slurm does not work it out."""

SLURM_NAMES = tuple(SLURM_WEIGHTS)
"""They follow :data:`NAMES` where one of them has a weight."""

NO_FACTORS = SlurmFactors()


def rest_s(view: JobView, *, careful: bool = False) -> float:
    """Seconds a job is expected to run from its next start; its limit if nothing is known.

    ``careful``: the 90 % quantile in place of the best guess. Work done before a requeue counts
    only for a job that says how it saves its state.
    """
    if view.estimate is None:
        whole_s = float(view.duration_s)
    else:
        whole_s = view.estimate.p90_s if careful else view.estimate.point_s
    if not view.attained_gpu_s or view.annotation is None:
        return whole_s
    saving = view.annotation.checkpoint
    if not (saving.signal or saving.interval_s):
        return whole_s
    done_s = view.attained_gpu_s / max(1, view.job.request.gpus)
    return max(whole_s * LEAST_REST, whole_s - done_s)
