"""Several scenarios on the same workloads, each seed once, with confidence intervals over seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .cluster import ClusterSpec
from .metrics import Interval, Metrics, intervals, measure
from .outcome import SimResult
from .scenario import Scenario, run
from .workload import Workload


@dataclass(frozen=True, slots=True)
class Comparison:
    """One scenario over all workloads: a row a workload, and means with 95 % intervals.

    ``events_per_s``: events of all runs over their wall time. ``first``: the run of the first
    workload, for plots.
    """

    label: str
    rows: tuple[Metrics, ...]
    means: Mapping[str, Interval]
    events_per_s: float
    first: SimResult


def compare(
    scenarios: Sequence[Scenario],
    workloads: Sequence[Workload],
    spec: ClusterSpec,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Comparison]:
    """Run every scenario on every workload (at least one), in the order given."""
    found = []
    for scenario in scenarios:
        rows, events, wall_s = [], 0, 0.0
        first: SimResult | None = None
        for workload in workloads:
            label = f"{scenario.label}, {workload.name}"
            report = (lambda d, t, n=label: progress(n, d, t)) if progress is not None else None
            result = run(scenario, workload, spec, report)
            first = first or result
            rows.append(measure(result))
            events += result.events
            wall_s += result.wall_s
        speed = events / wall_s if wall_s else 0.0
        assert first is not None
        found.append(Comparison(scenario.label, tuple(rows), intervals(rows), speed, first))
    return found
