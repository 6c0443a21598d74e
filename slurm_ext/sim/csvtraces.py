"""Traces as comma-separated tables: Philly, ITP (ElasticFlow), Synergy, and our own."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import zip_longest
from typing import Any

from .sensitivity import PROFILES
from .workload import TraceJob

Row = Mapping[str, str]
Parsed = tuple[int, TraceJob | str]
"""Line number, and the job or what is wrong with the row."""

OWN_COLUMNS = tuple(f.name for f in fields(TraceJob))
_TEXTS = {"gpu_type", "user", "partition", "model", "state", "speed", "source_id"}


def philly(lines: Iterable[str]) -> Iterator[Parsed]:
    """Microsoft Philly (Jeon et al., ATC 2019): submit, duration, num_gpus, user, state."""
    need = ("job_id", "submit", "duration", "num_gpus")
    return table(lines, need, lambda row, ordinal: TraceJob(
        job_id=ordinal,
        submit_s=seconds(row["submit"]),
        run_s=seconds(row["duration"]),
        gpus=int(row["num_gpus"]),
        user=row.get("user") or "",
        state=row.get("state") or "COMPLETED",
        source_id=row["job_id"],
    ))  # fmt: skip


def itp(lines: Iterable[str]) -> Iterator[Parsed]:
    """Microsoft ITP as published with ElasticFlow (ASPLOS 2023): no users, no limits."""
    need = ("job_id", "submission_time", "duration", "num_gpu")
    return table(lines, need, lambda row, ordinal: TraceJob(
        job_id=ordinal,
        submit_s=seconds(row["submission_time"]),
        run_s=seconds(row["duration"]),
        gpus=int(row["num_gpu"]),
        source_id=row["job_id"],
    ))  # fmt: skip


def synergy(lines: Iterable[str]) -> Iterator[Parsed]:
    """``id,model,arrival,iterations,gpus`` without a head line; run time at the fair share.

    Arrivals are cut to whole seconds; the order of the ids keeps their order.
    """
    head = "id,model,arrival,iterations,gpus"
    for line, parsed in table([head, *lines], tuple(head.split(",")), _synergy_job):
        yield line - 1, parsed  # the head line is ours: the file's own lines begin with 1


def _synergy_job(row: Row, ordinal: int) -> TraceJob:
    model = row["model"]
    if model not in PROFILES:
        raise ValueError(f"model {model!r} has no known iteration time")
    return TraceJob(
        job_id=ordinal,
        submit_s=seconds(row["arrival"]),
        run_s=max(1, round(int(row["iterations"]) * PROFILES[model].iteration_s)),
        gpus=int(row["gpus"]),
        model=model,
        iterations=int(row["iterations"]),
        source_id=row["id"],
    )


def own(lines: Iterable[str]) -> Iterator[Parsed]:
    """The internal format as a table, as ``write`` makes it; columns left out have defaults."""
    return table(lines, ("job_id", "submit_s", "run_s", "gpus"), _own_job)


def _own_job(row: Row, ordinal: int) -> TraceJob:
    values: dict[str, object] = {}
    for name in OWN_COLUMNS:
        text = row.get(name) or ""
        if name in _TEXTS:
            if text:
                values[name] = text
        elif text:
            values[name] = float(text) if name == "comm" else seconds(text)
    return TraceJob(**values)  # type: ignore[arg-type]


def to_row(job: TraceJob) -> list[str]:
    """One line of the internal format, in the order of :data:`OWN_COLUMNS`."""
    values = (getattr(job, name) for name in OWN_COLUMNS)
    return ["" if value is None else str(value) for value in values]


def seconds(text: str) -> int:
    """Whole seconds of a number; what comes after the point is cut off.

    :raises ValueError: not a number, or absurdly large.
    """
    value = float(text)
    if value != value or abs(value) > 1e15:
        raise ValueError(f"{text!r} is not a time")
    return int(value)


MOST_CHARS = 100_000
"""Of a line; csv takes no field longer than 131,072 characters."""


def table(
    lines: Iterable[str], need: tuple[str, ...], make: Callable[[Row, int], TraceJob]
) -> Iterator[Parsed]:
    """Rows made into jobs; jobs are numbered from 1 in file order, bad rows by file line."""
    rows = _rows(lines)
    _, names = next(rows, (1, []))
    missing = [name for name in need if name not in names]
    if missing:
        yield 1, f"no column {', '.join(missing)}"
        return
    for ordinal, (number, values) in enumerate(rows, 1):
        row: dict[str, Any] = dict(zip_longest(names, values[: len(names)]))
        try:
            if any(row[name] is None for name in need):
                raise ValueError("too few fields")
            yield number, make(row, ordinal)
        except (ValueError, TypeError, OverflowError) as error:
            yield number, str(error)


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Fields of each line that is not empty, with its number.

    Line by line: a quotation mark that is not closed must not swallow the rows after it.
    """
    for number, line in enumerate(lines, 1):
        if values := next(csv.reader([line[:MOST_CHARS]]), []):
            yield number, values
