"""Measured tables of training applications, as published with Pollux (OSDI 2021).

One folder an application: ``placements.csv`` (``placement,local_bsz,step_time,sync_time``; a
placement is the GPUs on each node, as digits), ``scalability.csv`` (the same by ``num_nodes`` and
``num_replicas``), ``validation-BATCH.csv`` (``progress,iteration,metric,grad_sqr,grad_var``, a line
an epoch). Times in seconds.
"""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from math import ceil, isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slurm_ext.sim.errors import TraceError

FloatArray = npt.NDArray[np.float64]

MOST_NODES = 16
"""Nodes of the largest cluster that was measured."""

MOST_GPUS = 64
"""GPUs of that cluster."""

EPOCHS = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
"""Epochs of each application; others have as many as the shortest of their tables."""

LOCAL_MAX = {"yolov3": 8}
"""Samples a GPU has memory for, where it is less than was measured."""

ONE_GPU = frozenset({"ncf"})
"""Run on one GPU with the greatest batch when left to choose."""


class Step(NamedTuple):
    """Seconds of a step, and those of them in which GPUs are brought together."""

    step_s: float
    sync_s: float


@dataclass(eq=False)
class Application:
    """One application. ``progress``: work done after each epoch, in steps of the smallest batch."""

    name: str
    epochs: dict[int, dict[str, FloatArray]]
    placements: dict[tuple[int, ...], FloatArray]
    spread: FloatArray
    local_min: int
    local_max: int
    last_epoch: int
    progress: list[float] = field(init=False)
    _steps: dict[tuple[tuple[int, ...], int], Step] = field(init=False, default_factory=dict)
    _between: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        rows = min(len(t["progress"]) for t in self.epochs.values())
        least = [min(float(t["progress"][i]) for t in self.epochs.values()) for i in range(rows)]
        self.progress = [0.0, *least]

    @property
    def batch(self) -> int:
        """The batch size it was written for."""
        return min(self.epochs)

    @property
    def max_batch(self) -> int:
        return max(self.epochs)

    def split(self, batch: int, gpus: int) -> tuple[int, int]:
        """Samples a GPU at once and further rounds for a batch of fixed size."""
        each = ceil(batch / gpus - 1e-8)
        rounds = ceil(each / self.local_max - 1e-8) - 1
        if gpus == 1 and batch > self.batch:
            rounds = max(1, rounds)  # gradients of one round tell nothing of their variance
        local = ceil(each / (rounds + 1) - 1e-8)
        return self.clipped(local, rounds, gpus), rounds

    def clipped(self, local: int, rounds: int, gpus: int) -> int:
        """Samples a GPU, so that the batch is not above the greatest one."""
        return min(local, int(self.max_batch / (gpus * (rounds + 1))))

    def step(self, placement: Sequence[int], local: int) -> Step:
        """Times on these GPUs a node; nan where nothing near enough was measured."""
        parts = tuple(p for p in placement if p)
        least = min(parts[i:] + parts[:i] for i in range(len(parts)))
        found = self._steps.get((least, local))
        if found is None:
            found = self._steps[least, local] = self._look_up(least, local)
        return found

    def _look_up(self, parts: tuple[int, ...], local: int) -> Step:
        table = self.placements.get(parts)
        if table is not None:
            if not table[0, 0] <= local <= table[-1, 0]:
                return Step(float("nan"), float("nan"))
            return Step(*(float(np.interp(local, table[:, 0], table[:, c])) for c in (1, 2)))
        if self._between is None:
            make = _scipy("interpolate").LinearNDInterpolator
            self._between = make(self.spread[:, :3], self.spread[:, 3:])
        at = [min(len(parts), MOST_NODES), sum(parts), local]
        return Step(*(float(v) for v in self._between(at)[0]))

    def gradient(self, batch: int, epoch: int) -> tuple[float, float]:
        """Squared norm and variance of the gradient in an epoch, linear between measured sizes."""
        found = self._between_batches(batch, lambda t: t["grad_sqr"][epoch])
        return found, self._between_batches(batch, lambda t: t["grad_var"][epoch])

    def steps(self, batch: int, epoch: int) -> float:
        """Steps of that batch size up to the end of an epoch (from 0)."""
        return self._between_batches(batch, lambda t: t["iteration"][epoch])

    def _between_batches(self, batch: int, of: Callable[[dict[str, FloatArray]], float]) -> float:
        sizes = sorted(self.epochs)
        i = bisect_left(sizes, batch)
        if i == len(sizes) or (i == 0 and batch < sizes[0]):
            raise TraceError(f"{self.name}: batch {batch}, measured from {sizes[0]} to {sizes[-1]}")
        high = float(of(self.epochs[sizes[i]]))
        if sizes[i] == batch:
            return high
        low = float(of(self.epochs[sizes[i - 1]]))
        part = (batch - sizes[i - 1]) / (sizes[i] - sizes[i - 1])
        return low + part * (high - low)

    def step_s(self, batch: int, gpus: int, node_gpus: int) -> float:
        """Seconds of a whole step of a fixed batch on as few nodes as possible."""
        local, rounds = self.split(batch, gpus)
        wholes, rest = divmod(gpus, node_gpus)
        found = self.step([node_gpus] * wholes + [rest], local)
        return found.step_s + rounds * (found.step_s - found.sync_s)

    def run_s(self, batch: int, gpus: int, node_gpus: int) -> float:
        """Seconds of a whole run without interruption on as few nodes as possible."""
        return self.steps(batch, self.last_epoch) * self.step_s(batch, gpus, node_gpus)


@cache
def load(folder: Path) -> dict[str, Application]:
    """All applications of a folder, by name.

    :raises TraceError: none there, or a table that cannot be read.
    """
    found = {}
    for path in sorted(folder.glob("*/placements.csv")):
        try:
            found[path.parent.name] = _application(path.parent)
        except (OSError, KeyError, ValueError) as error:
            raise TraceError(f"{path.parent}: not tables of an application: {error}") from error
    if not found:
        raise TraceError(f"{folder}: no folder of an application with a placements.csv in it")
    return found


def _application(folder: Path) -> Application:
    name = folder.name
    epochs = {}
    for path in folder.glob("validation-*.csv"):
        rows = _rows(path, ("progress", "iteration", "metric", "grad_sqr", "grad_var"))
        epochs[int(path.stem.split("-")[-1])] = {k: np.array(v) for k, v in rows.items()}
    if not epochs:
        raise ValueError("no validation-BATCH.csv")
    columns = ("local_bsz", "step_time", "sync_time")
    placed = _rows(folder / "placements.csv", ("placement", *columns))
    tables: dict[tuple[int, ...], list[list[float]]] = {}
    near: dict[tuple[int, int, float], list[list[float]]] = {}
    for i, digits in enumerate(placed["placement"]):
        parts = tuple(int(d) for d in str(int(digits)))
        row = [placed[c][i] for c in columns]
        tables.setdefault(parts, []).append(row)
        near.setdefault((len(parts), sum(parts), row[0]), []).append(row[1:])
    spread = [[*key, *np.mean(rows, axis=0)] for key, rows in sorted(near.items())]
    wide = _rows(folder / "scalability.csv", ("num_nodes", "num_replicas", *columns))
    spread += [list(row) for row in zip(*wide.values(), strict=True)]
    last = EPOCHS.get(name, min(len(t["progress"]) for t in epochs.values())) - 1
    if any(len(t["progress"]) <= last for t in epochs.values()):
        raise ValueError(f"fewer than {last + 1} epochs in a validation-BATCH.csv")
    return Application(
        name, epochs, {p: np.array(sorted(rows)) for p, rows in tables.items()}, np.array(spread),
        int(min(placed["local_bsz"])), LOCAL_MAX.get(name, int(max(placed["local_bsz"]))), last,
    )  # fmt: skip


def _rows(path: Path, columns: Sequence[str]) -> dict[str, list[float]]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        raise ValueError(f"{path.name} is empty")
    found = {c: [float(row[c]) for row in rows] for c in columns}
    if not all(isfinite(v) for values in found.values() for v in values):
        raise ValueError(f"{path.name}: a number is not finite")
    return found


def _scipy(part: str) -> Any:
    try:
        return import_module(f"scipy.{part}")
    except ImportError as error:
        raise TraceError("measured tables need scipy: pip install 'slurm-ext[learn]'") from error
