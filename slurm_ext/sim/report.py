"""Comparisons as a table for people, and as CSV and JSON for programs."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from typing import TextIO

from rich.table import Table

from .compare import Comparison
from .metrics import Interval
from .outcome import SimResult

SHOWN = (
    ("jct_mean_s", "JCT mean, s"), ("jct_median_s", "JCT median"), ("jct_p95_s", "JCT p95"),
    ("jct_p99_s", "JCT p99"), ("wait_mean_s", "wait mean, s"), ("wait_median_s", "wait median"),
    ("wait_p95_s", "wait p95"), ("wait_p99_s", "wait p99"), ("slowdown_mean", "bounded slowdown"),
    ("makespan_s", "makespan, s"), ("utilisation", "utilisation"),
    ("killed", "killed at their limit"), ("deadlines", "jobs with a deadline"),
    ("missed", "deadlines missed"), ("restarts", "restarts"), ("lost_gpu_h", "lost GPU hours"),
    ("stranded_gpu_h", "stranded GPU hours"), ("fragmentation", "fragmentation"),
    ("ftf_worst", "worst finish-time fairness"), ("ftf_unfair", "share of unfair ends"),
    ("jain", "Jain's index"),
)  # fmt: skip

PER_TABLE = 3
"""Scenarios side by side: as many as an 80-column terminal shows."""

JOB_COLUMNS = (
    "job_id", "source_id", "user", "gpus", "submit_s", "first_start_s", "start_s", "end_s",
    "run_s", "limit_s", "jct_s", "state", "restarts", "lost_s", "nodes",
)  # fmt: skip


def tables(comparisons: Sequence[Comparison], per_table: int = PER_TABLE) -> list[Table]:
    """A line a figure, a column a scenario: means over the seeds, with half of the 95 % interval.

    Figures that are nought everywhere are left out.
    """
    shown = [(n, head) for n, head in SHOWN if any(c.means[n].high for c in comparisons)]
    found = []
    for start in range(0, len(comparisons), per_table):
        part = comparisons[start : start + per_table]
        table = Table()
        table.add_column("")
        for comparison in part:
            table.add_column(comparison.label, justify="right")
        for name, head in shown:
            table.add_row(head, *(_cell(name, c.means[name]) for c in part))
        found.append(table)
    return found


def _cell(name: str, value: Interval) -> str:
    fine = name in ("utilisation", "fragmentation", "ftf_unfair", "jain")
    digits = 3 if fine else 2 if name in ("slowdown_mean", "ftf_worst") else 1
    text = f"{value.mean:.{digits}f}"
    half = (value.high - value.low) / 2
    return f"{text} ± {half:.{digits}f}" if half else text


def write_json(comparisons: Sequence[Comparison], file: TextIO) -> None:
    """Everything: means, bounds, and the figures of every seed."""
    document = [
        {
            "scenario": c.label,
            "events_per_s": round(c.events_per_s, 1),
            "means": {n: {"mean": i.mean, "low": i.low, "high": i.high}
                      for n, i in c.means.items()},
            "runs": [row.as_dict() for row in c.rows],
        }
        for c in comparisons
    ]  # fmt: skip
    json.dump(document, file, indent=2)
    file.write("\n")


def write_csv(comparisons: Sequence[Comparison], file: TextIO) -> None:
    """One line a scenario and seed."""
    writer = csv.writer(file, lineterminator="\n")
    names = list(comparisons[0].rows[0].as_dict()) if comparisons else []
    writer.writerow(["scenario", "run", *names])
    for comparison in comparisons:
        for number, row in enumerate(comparison.rows):
            writer.writerow([comparison.label, number, *row.as_dict().values()])


def write_jobs(result: SimResult, file: TextIO) -> None:
    """One line a job."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(JOB_COLUMNS)
    for o in result.jobs:
        s = o.spec
        writer.writerow([
            s.job_id, s.source_id, s.user, s.gpus, s.submit_s, o.first_start_s, o.start_s,
            o.end_s, s.run_s, "" if s.limit_s is None else s.limit_s, o.jct_s, o.state,
            o.restarts, o.lost_s, " ".join(o.nodes),
        ])  # fmt: skip
