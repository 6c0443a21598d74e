"""What goes on in the cluster over time: GPUs in use, jobs and GPUs waiting, as step functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .outcome import SimResult

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Series:
    """Step functions: from ``at_s[i]`` to ``at_s[i + 1]`` the values are those at ``i``.

    Shapes (n,). ``used``: GPUs held by jobs; ``waiting``: jobs that hold none; ``wanted``: GPUs
    those ask for; ``asked``: GPUs all jobs in the system ask for.
    """

    at_s: FloatArray
    used: FloatArray
    waiting: FloatArray
    wanted: FloatArray
    asked: FloatArray

    def integral(self, values: FloatArray) -> float:
        """Of values over time, in value-seconds."""
        return float((values[:-1] * np.diff(self.at_s)).sum())

    def mean_between(
        self, values: FloatArray, start_s: FloatArray, end_s: FloatArray
    ) -> FloatArray:
        """Mean over each stretch of time; the value at its start where it is empty."""
        steps = np.diff(self.at_s, append=self.at_s[-1])
        total = np.concatenate(([0.0], np.cumsum(values * steps)))

        def upto(at_s: FloatArray) -> FloatArray:
            i = np.clip(np.searchsorted(self.at_s, at_s, side="right") - 1, 0, None)
            found: FloatArray = total[i] + values[i] * (at_s - self.at_s[i])
            return found

        length = end_s - start_s
        at_start = values[np.searchsorted(self.at_s, start_s, side="right") - 1]
        safe = np.maximum(length, 1e-9)
        return np.where(length > 0, (upto(end_s) - upto(start_s)) / safe, at_start)


def series(result: SimResult) -> Series:
    """The course of a run, from the first submit to the last end."""
    rows: list[tuple[float, float, float, float, float]] = []  # time, used, waiting, wanted, asked
    for o in result.jobs:
        gpus = o.spec.gpus
        rows.append((o.spec.submit_s, 0, 1, gpus, gpus))
        rows.append((o.end_s, 0, -1, -gpus, -gpus))
        for span in o.held:
            rows.append((span.start_s, span.gpus, -1, -gpus, 0))
            rows.append((span.end_s, -span.gpus, 1, gpus, 0))
    changes = np.array(rows, dtype=np.float64).reshape(-1, 5)
    at_s, where = np.unique(changes[:, 0], return_inverse=True)
    sums = np.zeros((len(at_s), 4))
    np.add.at(sums, where, changes[:, 1:])
    values = np.cumsum(sums, axis=0)
    return Series(at_s, *(values[:, i] for i in range(4)))
