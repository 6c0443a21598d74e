"""Calls to Slurm as metrics, read from the tally when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from slurm_ext.slurm.tally import TALLY, Tally

if TYPE_CHECKING:
    from prometheus_client.metrics_core import CounterMetricFamily

LABELS = ("command", "outcome")


class Calls:
    """A collector of prometheus_client."""

    def __init__(self, tally: Tally = TALLY) -> None:
        self._tally = tally

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Calls and their seconds, by command and outcome."""
        from prometheus_client.metrics_core import CounterMetricFamily

        count = CounterMetricFamily(
            "slurm_ext_slurm_calls", "Calls to Slurm by command and outcome", labels=LABELS
        )
        seconds = CounterMetricFamily(
            "slurm_ext_slurm_call_seconds", "Seconds spent in calls to Slurm", labels=LABELS
        )
        for labels, calls in sorted(self._tally.seen().items()):
            count.add_metric(labels, calls.count)
            seconds.add_metric(labels, calls.seconds)
        yield count
        yield seconds
