"""Compares what text and JSON say of the same moment (for ``slurm-ext doctor``). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from slurm_ext.model.job import BaseState, Job
from slurm_ext.model.observation import Observation

JOB_ALWAYS: Mapping[str, str] = {
    "request": "compared field by field",
}
"""Job fields that are not compared as a whole, with the reason."""

OLD_JSON_BEFORE = (23, 2)
JOB_OLD: Mapping[str, str] = {
    "nice": "v0.0.38 shows null",
    "cron": "v0.0.38 has no cron field",
}
"""Job fields that JSON of 22.05 cannot show."""

REQUEST_OLD: Mapping[str, str] = {
    "cpus_per_task": "v0.0.38 shows null",
    "unplannable": "v0.0.38 has no switches, core_spec, tasks per GPU",
}
REQUEST_OLD_OPEN: Mapping[str, str] = {
    "nodes_min": "v0.0.38 shows no tasks of some jobs; they bound it where --nodes was not given",
}


def differences(text: Observation, json: Observation) -> list[str]:
    """Every field in which the two looks differ and should not, one line each."""
    version = text.controller.version
    found: list[str] = []
    jobs = {job.key: job for job in json.jobs}
    for job in text.jobs:
        other = jobs.pop(job.key, None)
        if other is None:
            found.append(f"job {job.job_id}: only in text")
        else:
            found.extend(job_differences(job, other, version))
    found.extend(f"job {key.job_id}: only in JSON" for key in jobs)
    for kind, mine, theirs in (
        ("node", text.nodes, json.nodes),
        ("partition", text.partitions, json.partitions),
        ("reservation", text.reservations, json.reservations),
    ):
        found.extend(_by_name(kind, mine, theirs, version))
    return found


def job_differences(text: Job, json: Job, version: tuple[int, ...]) -> list[str]:
    """Fields of one job that differ and should not."""
    old = version[:2] < OLD_JSON_BEFORE
    skip = {*JOB_ALWAYS, *(JOB_OLD if old else ())}
    if text.state.base is BaseState.UNKNOWN:
        # Text shows the first flag only and hides the base.
        skip.add("state")
    skip_request = {
        *(REQUEST_OLD if old else ()),
        *(REQUEST_OLD_OPEN if old and text.request.nodes_max is None else ()),
    }
    if text.state.ended:
        skip_request |= {"nodes_min"}  # what it asked for, or what it ended with
    if "details_not_read" in text.request.unplannable:
        # Reported as a problem already; text then knows counts only.
        skip |= {"alloc", "cron"}
        skip_request |= {field.name for field in fields(text.request)}
    name = f"job {text.job_id}"
    # JSON names cores per socket; which CPUs those are takes the node's record.
    text, json = (
        replace(job, alloc=tuple(replace(share, cpu_ids=()) for share in job.alloc))
        for job in (text, json)
    )
    return [
        *_fields(name, text, json, skip),
        *_fields(f"{name} request", text.request, json.request, skip_request),
    ]


PARTITION_SKIP: Mapping[str, str] = {
    "is_default": "JSON shows flags only from v0.0.44 on",
    "hidden": "as is_default",
    "exclusive_user": "as is_default",
}


def _by_name(
    kind: str, mine: Iterable[Any], theirs: Iterable[Any], version: tuple[int, ...]
) -> list[str]:
    others = {one.name: one for one in theirs}
    skip = set(PARTITION_SKIP) if kind == "partition" else set()
    found: list[str] = []
    for one in mine:
        other = others.pop(one.name, None)
        if other is None:
            found.append(f"{kind} {one.name}: only in text")
        else:
            found.extend(_fields(f"{kind} {one.name}", one, other, skip))
    found.extend(f"{kind} {name}: only in JSON" for name in others)
    return found


def _fields(name: str, mine: Any, theirs: Any, skip: Iterable[str]) -> list[str]:
    skipped = set(skip)
    return [
        f"{name} {field.name}: text {a!r}, JSON {b!r}"
        for field in fields(mine)
        if field.name not in skipped
        and (a := getattr(mine, field.name)) != (b := getattr(theirs, field.name))
    ]
