"""Published traces of GPU clusters by the columns their authors document.

Helios (Hu et al., SC 2021), Acme (Hu et al., NSDI 2024), Alibaba PAI 2020 (Weng et al., NSDI 2022)
and 2023 (Weng et al., ATC 2023). Times become seconds since the first submit. A part of a GPU
counts as a whole one; jobs without GPUs are left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from math import ceil

from .csvtraces import Parsed, Row, seconds, table
from .workload import TraceJob

PAI_TASKS = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu",
    "plan_mem", "plan_gpu", "gpu_type",
)  # fmt: skip
"""Columns of ``pai_task_table.csv``, which has no head line."""


def helios(lines: Iterable[str]) -> Iterator[Parsed]:
    """``cluster_log.csv`` of Helios; virtual clusters are left out, times are taken as UTC."""
    return _from_first(table(lines, _LOG, _log_job))


def acme(lines: Iterable[str]) -> Iterator[Parsed]:
    """``trace_seren.csv`` and ``trace_kalos.csv`` of Acme; the workload type becomes the model."""
    return _from_first(table(lines, (*_LOG, "type"), _log_job))


_LOG = (
    "job_id", "user", "node_num", "gpu_num", "cpu_num", "state", "submit_time", "duration",
)  # fmt: skip


def _log_job(row: Row, ordinal: int) -> TraceJob:
    gpus, nodes = _count(row["gpu_num"]), _count(row["node_num"])
    pods_gib = _number(row.get("mem_per_pod_GB") or "0")
    return TraceJob(
        job_id=ordinal,
        submit_s=_moment(row["submit_time"]),
        run_s=seconds(row["duration"]),
        gpus=gpus,
        nodes=nodes if 0 < nodes <= gpus else 0,
        cpus=_count(row["cpu_num"]),
        mem_mib=ceil(pods_gib * 1024 * max(1, nodes)),
        user=row["user"],
        model=row.get("type") or "",
        state=row["state"] or "COMPLETED",
        source_id=row["job_id"],
    )


def pai_2020(lines: Iterable[str]) -> Iterator[Parsed]:
    """``pai_task_table.csv``: each task with GPUs is a job of all its instances.

    A task is taken to have come when it started, because submit times are of whole jobs. GPU types
    are those a task got, not what it asked for, and are left out.
    """
    rows = iter(lines)
    first = next(rows, "")
    given = first.startswith(PAI_TASKS[0])
    head = [first] if given else [",".join(PAI_TASKS), first]
    for line, parsed in _from_first(table(chain(head, rows), PAI_TASKS[:9], _pai_task)):
        yield line if given else line - 1, parsed


def _pai_task(row: Row, ordinal: int) -> TraceJob:
    instances, gpus = _count(row["inst_num"]), ceil(_number(row["plan_gpu"] or "0") / 100)
    start_s = _known(row, "start_time")
    return TraceJob(
        job_id=ordinal,
        submit_s=start_s,
        run_s=_known(row, "end_time") - start_s,
        gpus=instances * gpus,
        cpus=ceil(instances * _number(row["plan_cpu"] or "0") / 100),
        mem_mib=ceil(instances * _number(row["plan_mem"] or "0") * 1024),
        state=row["status"] or "COMPLETED",
        source_id=f"{row['job_name']}/{row['task_name']}",
    )


def pai_2023(lines: Iterable[str]) -> Iterator[Parsed]:
    """``openb_pod_list_*.csv``; a pod that names several GPU types is taken to run on any."""
    need = ("name", "cpu_milli", "memory_mib", "num_gpu", "creation_time", "deletion_time",
            "scheduled_time")  # fmt: skip
    return _from_first(table(lines, need, _pod))


def _pod(row: Row, ordinal: int) -> TraceJob:
    spec = row.get("gpu_spec") or ""
    return TraceJob(
        job_id=ordinal,
        submit_s=_known(row, "creation_time"),
        run_s=_known(row, "deletion_time") - _known(row, "scheduled_time"),
        gpus=_count(row["num_gpu"]),
        cpus=ceil(_number(row["cpu_milli"]) / 1000),
        mem_mib=_count(row["memory_mib"]),
        gpu_type="" if spec == "nan" or "|" in spec else spec,
        state=row.get("pod_phase") or "COMPLETED",
        source_id=row["name"],
    )


def _from_first(found: Iterable[Parsed]) -> Iterator[Parsed]:
    """Times since the first submit of all jobs that can be read."""
    rows = list(found)
    first_s = min((p.submit_s for _, p in rows if isinstance(p, TraceJob)), default=0)
    for line, parsed in rows:
        if isinstance(parsed, TraceJob):
            parsed = replace(parsed, submit_s=parsed.submit_s - first_s)
        yield line, parsed


def _moment(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _known(row: Row, column: str) -> int:
    if not row[column] or row[column] == "nan":
        raise ValueError(f"no {column}: the job has not ended")
    return seconds(row[column])


def _count(text: str) -> int:
    value = _number(text)
    if value != int(value) or value < 0:
        raise ValueError(f"{text!r} is not a number of things")
    return int(value)


def _number(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e15:
        raise ValueError(f"{text!r} is not a quantity")
    return value
