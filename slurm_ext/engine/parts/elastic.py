"""What elastic allocations share: how long a job takes on so many GPUs, and where those lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from slurm_ext.engine.allocation import Contender, Grant, Servers, Slice
from slurm_ext.model.annotation import Speed
from slurm_ext.model.job import JobKey

from .packing import consolidated, scattered
from .speed import fit_theta, rate


def most_gpus(job: Contender) -> int:
    """The largest size the job may have; as requested if it is not elastic."""
    scaling = job.annotation.scaling
    if scaling.kind == "fixed" or not _known(job.annotation.speed):
        return job.gpus
    return scaling.max_gpus or job.gpus


def least_gpus(job: Contender) -> int:
    """The smallest size the job may have; as requested if it is not elastic."""
    scaling = job.annotation.scaling
    if scaling.kind == "fixed" or not _known(job.annotation.speed):
        return job.gpus
    return scaling.min_gpus or 1


def _known(speed: Speed) -> bool:
    return bool(speed.table or speed.theta)


@cache
def fitted(speed: Speed) -> Speed:
    """The ring model (Capes et al. 2018) through a declared table; one point alone as it is."""
    if speed.theta or len(speed.table) < 2:
        return speed
    return Speed(theta=fit_theta([(gpus, 1 / per_s) for gpus, per_s in speed.table]))


def relative_speed(job: Contender, gpus: int, *, fit: bool = False) -> float:
    """Speed on ``gpus`` GPUs over the speed as requested; ``fit``: by the ring model."""
    speed = job.annotation.speed
    if not _known(speed):
        return 1.0 if gpus >= job.gpus else 0.0
    if fit:
        speed = fitted(speed)
    base = rate(speed, job.gpus)
    return rate(speed, gpus) / base if base else 0.0


def time_left_s(job: Contender, gpus: int, *, fit: bool = False) -> float:
    """Seconds to the end on ``gpus`` GPUs from now on, infinite on none."""
    speed = relative_speed(job, gpus, fit=fit)
    return job.remaining_s / speed if speed > 0 else float("inf")


def worth_changing(
    jobs: Sequence[Contender], sizes: Mapping[JobKey, int], free: int, *, fit: bool = False
) -> bool:
    """Whether to change to these sizes: somebody starts, must go, or time is saved in all.

    ``free``: GPUs that these jobs may have together.
    """
    if any(not j.held and sizes.get(j.key) for j in jobs):
        return True
    if sum(j.gpus_held for j in jobs) > free or any(
        j.held and not least_gpus(j) <= j.gpus_held <= most_gpus(j) for j in jobs
    ):
        return True
    saved_s = 0.0
    for job in jobs:
        wanted = sizes.get(job.key, 0)
        if job.held and wanted != job.gpus_held:
            saved_s += time_left_s(job, job.gpus_held, fit=fit) - time_left_s(job, wanted, fit=fit)
            saved_s -= job.annotation.checkpoint.restart_s
    return saved_s > 0


def lay_out(
    targets: Sequence[tuple[Contender, int]], servers: Servers, *, scatter: bool = False
) -> list[Grant]:
    """Slices for the wanted sizes, which together must not be more than there is.

    Who keeps its size keeps its place; the others, largest first, get as few servers as possible,
    the fullest that fit, and where that fails GPUs wherever they are. ``scatter``: the others,
    smallest first, get GPUs of the emptiest servers.
    """
    free = list(servers.gpus)
    size = max(servers.gpus)
    slices: dict[int, tuple[Slice, ...]] = {}
    for i, (job, gpus) in enumerate(targets):
        if gpus and job.gpus_held == gpus:
            slices[i] = job.held
            _take(free, job.held)
    rest = [i for i, (_, gpus) in enumerate(targets) if gpus and i not in slices]
    for i in sorted(rest, key=lambda i: targets[i][1] if scatter else -targets[i][1]):
        gpus = targets[i][1]
        packed = () if scatter else consolidated(free, gpus, size)
        slices[i] = packed or scattered(free, gpus)
        _take(free, slices[i])
    return [Grant(targets[i][0].key, slices[i]) for i in sorted(slices)]


def _take(free: list[int], slices: Sequence[Slice]) -> None:
    for s in slices:
        free[s.server] -= s.gpus
