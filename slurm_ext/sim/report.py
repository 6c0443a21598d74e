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
    ("jct_mean_s", "JCT mean"), ("jct_median_s", "median"), ("jct_p95_s", "p95"),
    ("jct_p99_s", "p99"), ("wait_mean_s", "wait mean"), ("wait_p95_s", "p95"),
    ("slowdown_mean", "slowdown"), ("makespan_s", "makespan"), ("utilisation", "util."),
    ("killed", "killed"), ("restarts", "restarts"),
)  # fmt: skip

JOB_COLUMNS = (
    "job_id", "source_id", "user", "gpus", "submit_s", "first_start_s", "start_s", "end_s",
    "run_s", "limit_s", "jct_s", "state", "restarts", "lost_s", "nodes",
)  # fmt: skip


def table(comparisons: Sequence[Comparison]) -> Table:
    """Means over the seeds, with the half width of the interval where there are several."""
    found = Table(caption="seconds; means over seeds, ± half of the 95 % interval")
    found.add_column("scenario", no_wrap=True)
    for _, head in SHOWN:
        found.add_column(head, justify="right")
    for comparison in comparisons:
        cells = [_cell(name, comparison.means[name]) for name, _ in SHOWN]
        found.add_row(comparison.label, *cells)
    return found


def _cell(name: str, value: Interval) -> str:
    digits = 3 if name == "utilisation" else 2 if name == "slowdown" else 1
    if name in ("killed", "restarts"):
        digits = 0 if value.mean == int(value.mean) else 1
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
