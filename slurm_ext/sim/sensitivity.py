"""What CPUs and memory do for the speed of known models (Synergy, OSDI 2022, artifact).

Profiled on V100 servers of 8 GPUs, 24 CPUs and 500 GB; the proportional share is 3 CPUs and 62.5 GB
a GPU. Speeds are relative to that share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from typing import NamedTuple

from slurm_ext.engine.allocation import Slice
from slurm_ext.model.annotation import Annotation, Checkpoint, Sensitivity

from .workload import TraceJob

GIB_MIB = 1024
FAIR_CPUS = 3.0


class Profile(NamedTuple):
    """Class, CPUs and GiB a GPU at which it is fastest, speed there, seconds an iteration."""

    kind: str
    cpus: int
    mem_gib: float
    speed: float
    iteration_s: float


PROFILES = {
    "alexnet": Profile("image", 12, 125.0, 2.94, 0.600),
    "shufflenet": Profile("image", 12, 125.0, 2.89, 0.615),
    "resnet18": Profile("image", 9, 62.5, 2.40, 0.640),
    "mobilenet": Profile("image", 6, 62.5, 1.55, 0.710),
    "resnet50": Profile("image", 4, 62.5, 1.15, 0.780),
    "m5": Profile("speech", 6, 187.5, 2.50, 0.600),
    "deepspeech": Profile("speech", 3, 62.5, 1.00, 0.757),
    "gnmt": Profile("language", 1, 20.0, 1.00, 0.120),
    "transformer": Profile("language", 1, 20.0, 1.00, 0.670),
    "lstm": Profile("language", 1, 20.0, 1.00, 0.011),
}
PROFILES["res18"] = PROFILES["resnet18"]
PROFILES["res50"] = PROFILES["resnet50"]


@dataclass(frozen=True, slots=True)
class TwoSpeeds:
    """A job with all it can use runs at its best speed, with less at the proportional one.

    Between the two CPU counts it is linear (a server may not have all a job of several GPUs can
    use). ``whole_iterations``: only whole iterations of a round count, as in the artifact.
    A job of an unknown model is not sensitive.
    """

    whole_iterations: bool = False

    def speed(self, job: TraceJob, slices: Sequence[Slice], active: int) -> float:
        profile = PROFILES.get(job.model)
        if profile is None or profile.speed <= 1:
            return 1.0
        cpus = sum(s.cpus for s in slices) / job.gpus
        mem_gib = sum(s.mem_mib for s in slices) / job.gpus / GIB_MIB
        if cpus >= profile.cpus - 1e-6 and mem_gib >= profile.mem_gib - 1e-6:
            return profile.speed
        if mem_gib < profile.mem_gib - 1e-6 or cpus <= FAIR_CPUS:
            return 1.0
        part = (cpus - FAIR_CPUS) / (profile.cpus - FAIR_CPUS)
        return 1.0 + part * (profile.speed - 1.0)

    def work_s(self, job: TraceJob) -> float:
        profile = PROFILES.get(job.model)
        if not job.iterations or profile is None:
            return float(job.run_s)
        return job.iterations * profile.iteration_s

    def first_speed(self, job: TraceJob) -> float:
        profile = PROFILES.get(job.model)
        return profile.speed if profile is not None else 1.0

    def annotation(self, job: TraceJob) -> Annotation:
        checkpoint = Checkpoint(interval_s=job.checkpoint_s, restart_s=job.restart_s)
        profile = PROFILES.get(job.model)
        if profile is None:
            return Annotation(checkpoint=checkpoint, family=job.model)
        known = Sensitivity(profile.kind, profile.cpus, round(profile.mem_gib * GIB_MIB))
        return Annotation(checkpoint=checkpoint, sensitivity=known, family=job.model)

    def done_s(self, job: TraceJob, passed_s: float, speed: float) -> float:
        profile = PROFILES.get(job.model)
        if not self.whole_iterations or profile is None:
            return passed_s * speed
        return floor(passed_s * speed / profile.iteration_s + 1e-9) * profile.iteration_s
