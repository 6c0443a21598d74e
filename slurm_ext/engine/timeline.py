"""When occupied resources come back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.units import EpochS

from .durations import expected_end_s
from .settings import BackfillSettings
from .steps import Release


def releases(
    jobs: Iterable[Job],
    now_s: EpochS,
    settings: BackfillSettings,
    estimates: Mapping[JobKey, Estimate],
    leaving: Mapping[JobKey, EpochS] = MappingProxyType({}),
) -> list[Release]:
    """Releases of all occupying jobs, earliest first; suspended jobs never release.

    ``leaving``: when jobs that are being stopped will have left.
    """
    default_s, durations = settings.default_limit_s, settings.durations
    found = [
        Release(
            leaving.get(j.key)
            or expected_end_s(j, now_s, default_s, durations, estimates.get(j.key), settings.late),
            j.alloc,
        )
        for j in jobs
        if j.alloc and j.state.base != "SUSPENDED"
    ]
    return sorted(found, key=lambda r: r.end_s)
