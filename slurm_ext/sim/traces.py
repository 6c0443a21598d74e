"""Reading traces of any known format into a :class:`Workload`; rows that cannot be are counted."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal

from . import csvtraces, published, slurmdump, swf
from .errors import TraceError
from .physics import curve_of
from .sensitivity import PROFILES
from .training import tables
from .training import trace as training_trace
from .workload import BadRow, TraceJob, Workload

Parser = Callable[[Iterable[str]], Iterator[tuple[int, TraceJob | str]]]
OnBad = Literal["skip", "stop"]

POLLUX = "pollux"
"""Needs the measured tables of its applications."""

FORMATS: dict[str, Parser] = {
    "swf": swf.parse,
    "philly": csvtraces.philly,
    "itp": csvtraces.itp,
    "synergy": csvtraces.synergy,
    "helios": published.helios,
    "acme": published.acme,
    "pai2020": published.pai_2020,
    "pai2023": published.pai_2023,
    "csv": csvtraces.own,
    "sacct": slurmdump.parse,
}

KINDS = (*FORMATS, POLLUX)
"""Names of all formats."""

MARKS = {
    "submit_s": "csv", "submission_time": "itp", "num_gpus": "philly", "num_replicas": POLLUX,
    "scheduled_time": "pai2023", "inst_num": "pai2020",
}  # fmt: skip
"""A column that only this format has."""

DEMO = Path(__file__).with_name("demo.csv")
"""A generated workload: ``sim generate --jobs 300 --cluster 4x8 --seed 5``."""

LISTED = 20
"""Bad rows named in the message of an error."""


def read(
    path: Path,
    kind: str = "",
    *,
    max_gpus: int | None = None,
    on_bad: OnBad = "skip",
    training: Path | None = None,
) -> Workload:
    """A trace file (``.gz`` too; ``demo``: the one that comes with the package).

    ``kind`` empty: guessed from name and head line. ``training``: the folder of measured tables
    that the format ``pollux`` takes its run times from.

    Rows that cannot be (not a number, negative times, no run time, no GPUs, more than
    ``max_gpus``, an id twice) are left out and listed in ``Workload.bad``.

    :raises TraceError: unreadable, unknown format, no usable row, or a bad row with ``stop``.
    """
    if path == Path("demo"):
        path = DEMO
    try:
        lines = _lines(path)
    except (OSError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: {error}") from error
    kind = kind or _guess(path, lines)
    parse = _parser(kind, training)
    jobs: list[TraceJob] = []
    bad: list[BadRow] = []
    seen: set[int] = set()
    for number, parsed in parse(lines):
        if isinstance(parsed, str):
            bad.append(BadRow(number, parsed))
            continue
        why = problem(parsed, max_gpus) or (
            f"id {parsed.job_id} twice" if parsed.job_id in seen else ""
        )
        if why:
            bad.append(BadRow(number, why))
        else:
            seen.add(parsed.job_id)
            jobs.append(parsed)
    if bad and (on_bad == "stop" or not jobs):
        raise TraceError(describe_bad(path.name, bad).replace("\n", "; "))
    if not jobs:
        raise TraceError(f"{path}: no jobs")
    return Workload.of(path.name, jobs, bad)


def _parser(kind: str, training: Path | None) -> Parser:
    if kind in FORMATS:
        return FORMATS[kind]
    if kind != POLLUX:
        raise TraceError(f"unknown trace format {kind!r}; known: {', '.join(KINDS)}")
    if training is None:
        raise TraceError("format pollux has no run times: --training names the measured tables")
    return partial(training_trace.parse, apps=tables.load(training))


def problem(job: TraceJob, max_gpus: int | None = None) -> str:
    """Why a job cannot be, or nothing."""
    if job.submit_s < 0:
        return f"submit time {job.submit_s}"
    if job.run_s <= 0:
        return f"run time {job.run_s}"
    if job.gpus <= 0:
        return f"{job.gpus} GPUs"
    if max_gpus is not None and job.gpus > max_gpus:
        return f"{job.gpus} GPUs, the cluster has {max_gpus}"
    if not 0 <= job.comm < 1:
        return f"comm {job.comm}: from 0 to below 1"
    if job.limit_s is not None and job.limit_s <= 0:
        return f"time limit {job.limit_s}"
    if job.speed:
        try:
            curve_of(job.speed)
        except ValueError as error:
            return str(error)
    return ""


def describe_bad(name: str, bad: Iterable[BadRow]) -> str:
    """Bad rows with line numbers, the first of them if there are many."""
    rows = list(bad)
    lines = [f"{name}:{row.line}: {row.why}" for row in rows[:LISTED]]
    if len(rows) > LISTED:
        lines.append(f"... and {len(rows) - LISTED} more")
    return "\n".join([f"{name}: {len(rows)} rows cannot be used", *lines])


def write(workload: Workload, path: Path) -> None:
    """Write the internal format (``csv``; see ``workload`` for the columns)."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(csvtraces.OWN_COLUMNS)
        writer.writerows(csvtraces.to_row(job) for job in workload.jobs)


def _lines(path: Path) -> list[str]:
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
            return list(file)
    with path.open(encoding="utf-8", errors="replace") as file:
        return list(file)


def _guess(path: Path, lines: list[str]) -> str:
    if ".swf" in path.suffixes:
        return "swf"
    head = lines[0].strip().split(",") if lines else []
    if {"gpu_num", "submit_time"} <= set(head):
        return "acme" if "type" in head else "helios"
    for column, kind in MARKS.items():
        if column in head:
            return kind
    if {"submit", "state"} <= {h.lower() for h in "".join(lines[:1]).strip().split("|")}:
        return "sacct"
    if len(head) == 5 and head[1] in PROFILES:
        return "synergy"
    raise TraceError(f"{path}: unknown format; name one of {', '.join(KINDS)}")
