"""Standard Workload Format (Feitelson; https://www.cs.huji.ac.il/labs/parallel/workload/swf.html).

Eighteen numbers a line, ``;`` begins a comment, -1 means unknown. Processors stand for GPUs:
the requested number where given, else the allocated one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .workload import TraceJob

_STATES = {0: "FAILED", 1: "COMPLETED", 5: "CANCELLED"}


def parse(lines: Iterable[str]) -> Iterator[tuple[int, TraceJob | str]]:
    """(line number, job or what is wrong with the row)."""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith(";"):
            yield number, _row(text.split())


def _row(fields: list[str]) -> TraceJob | str:
    if len(fields) < 11:
        return f"{len(fields)} fields, expected 18"
    try:
        values = [int(float(f)) for f in fields]
    except (ValueError, OverflowError):
        return "not a number"
    job_id, submit_s, _, run_s, allocated = values[:5]
    processors = values[7] if values[7] > 0 else allocated
    return TraceJob(
        job_id=job_id,
        submit_s=submit_s,
        run_s=run_s,
        gpus=processors,
        limit_s=values[8] if values[8] > 0 else None,
        user=f"user{values[11]}" if len(values) > 11 and values[11] >= 0 else "",
        state=_STATES.get(values[10], "COMPLETED"),
        source_id=fields[0],
    )
