"""Whether a workload has what a policy needs; refused by the name of the missing field if not."""

from __future__ import annotations

from collections.abc import Callable

from slurm_ext.engine.policy import Policy

from .errors import TraceError
from .workload import TraceJob, Workload

FIELDS: dict[str, tuple[str, Callable[[TraceJob], bool], str]] = {
    "limits": ("limit_s", lambda j: j.limit_s is not None, "--limits exact or --default-limit-s"),
    "durations": ("limit_s", lambda j: j.limit_s is not None, "--limits exact takes run times"),
    "checkpoints": ("checkpoint_s", lambda j: j.checkpoint_s > 0, "--lossless lets all jobs save"),
    "users": ("user", lambda j: bool(j.user), "a trace with users"),
    "speed": ("speed", lambda j: bool(j.speed), "speeds by GPU count, such as 1:1 2:1.8 4:3.1"),
    "goodput": ("speed", lambda j: bool(j.speed), "or --training with measured tables"),
    "models": ("model", lambda j: bool(j.model), "model names with known sensitivity"),
}
"""Need -> field of the workload, what it must be, and the remedy. ``priority`` is always met."""


BY_TABLES = frozenset({"speed", "goodput", "durations"})
"""Needs that measured tables of the applications meet."""


def check(
    policy: Policy, workload: Workload, *, lossless: bool = False, trained: bool = False
) -> None:
    """Refuse a workload in which no job has what the policy needs.

    ``lossless``: jobs are told to save. ``trained``: they run by measured tables.

    :raises TraceError: with the name of the field, and the remedy.
    """
    for need in policy.needs:
        if need not in FIELDS or (need == "checkpoints" and lossless):
            continue
        if trained and need in BY_TABLES:
            continue
        name, present, remedy = FIELDS[need]
        if not any(present(job) for job in workload.jobs):
            raise TraceError(
                f"policy {policy.name} needs {need}: no job of {workload.name} has the field "
                f"{name}; {remedy}"
            )
