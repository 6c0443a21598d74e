"""What it costs to requeue a running job, in GPU-seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from slurm_ext.model.annotation import Annotation
from slurm_ext.model.job import Job
from slurm_ext.model.progress import Progress
from slurm_ext.model.units import EpochS


class RequeueCost(NamedTuple):
    """GPU-seconds: work done again, saving before the end, starting up again."""

    lost_gpu_s: float
    grace_gpu_s: float
    restart_gpu_s: float

    @property
    def total_gpu_s(self) -> float:
        return self.lost_gpu_s + self.grace_gpu_s + self.restart_gpu_s


@dataclass(frozen=True, slots=True)
class LostWork:
    """Work since the last checkpoint, and what saving and starting again take.

    With a checkpoint signal (and ``count_on_signal``) nothing is lost, but the job needs its
    grace time to save. With checkpoints of its own, what it has done since the newest one it told
    of is lost, or one whole interval if it tells nothing. With neither, all work is lost.
    """

    count_on_signal: bool = True

    def cost(
        self, job: Job, annotation: Annotation, now_s: EpochS, progress: Progress | None = None
    ) -> RequeueCost:
        """The cost of one running job; its restart time is the annotated one."""
        gpus = max(1, sum(share.gpus for share in job.alloc))
        ran_s = max(0, now_s - job.start_s) if job.start_s is not None else 0
        saving = annotation.checkpoint
        lost_s, grace_s = ran_s, 0
        if saving.interval_s:
            lost_s = min(ran_s, saving.interval_s)
        saved = progress.last_checkpoint if progress is not None else None
        if saved is not None and saved.run == job.restarts:
            lost_s = min(ran_s, max(0, round(now_s - saved.at_s)))
        if saving.signal and self.count_on_signal:
            lost_s, grace_s = 0, saving.grace_s
        return RequeueCost(
            float(lost_s * gpus), float(grace_s * gpus), float(saving.restart_s * gpus)
        )
