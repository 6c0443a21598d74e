"""How good the free GPUs of one kind of node are for k of them, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from slurm_ext.engine.topology import Ask
from slurm_ext.model.units import GpuMask

from .fabric_index import IntArray
from .pick import Ask as Wording
from .pick import predict_pick
from .ring import EXACT_GPUS, ring_gbps
from .sets import best_set, worst_set
from .shape import NodeShape

MAX_PICKS = 1 << 16
FloatArray = npt.NDArray[np.float64]
LOCAL_GBPS = 1e6
"""Stands for "no traffic" in tables: larger than any link, but finite so that it subtracts."""


class ShapeTable:
    """Scores of one node class: ``best``, ``worst``, ``predicted`` for (free mask, k), in GB/s.

    Up to 8 GPUs everything is in dense arrays of 2^n rows by n + 1 columns (18 kB each); for
    larger nodes values are worked out when first asked for and kept.
    """

    def __init__(self, shape: NodeShape) -> None:
        self.shape = shape
        self.dense = shape.count <= EXACT_GPUS
        self._picks: dict[object, GpuMask] = {}
        self._kept: dict[tuple[str, GpuMask, int], float] = {}
        islands = shape.islands()
        self.islands = () if shape.all_mask in islands else islands
        n = shape.count
        if self.dense:
            self._best = np.zeros((1 << n, n + 1))
            self._worst = np.zeros((1 << n, n + 1))
            self._predicted = np.full((1 << n, n + 1), np.nan)  # filled when first asked for
            self._broken = np.full((1 << n, n + 1), np.nan)
            self._fill()
        self.ideal = np.array([0.0] + [self.value("best", shape.all_mask, k)
                                       for k in range(1, n + 1)])  # fmt: skip

    def _fill(self) -> None:
        """Sets of a free mask are the mask itself or sets of it less one GPU."""
        for free in range(1, len(self._best)):
            size = free.bit_count()
            own = _finite(ring_gbps(self.shape, free))
            smaller = [free ^ (1 << i) for i in range(self.shape.count) if free >> i & 1]
            self._best[free] = self._best[smaller].max(axis=0)
            self._worst[free, :size] = self._worst[smaller, :size].min(axis=0)
            self._best[free, size] = self._worst[free, size] = own

    def value(self, what: str, free: GpuMask, k: int) -> float:
        """One number: ``best``, ``worst``, ``predicted`` or ``broken``; 0 if k are not free."""
        if k < 1 or k > free.bit_count():
            return 0.0
        if self.dense and what in ("best", "worst"):
            return float((self._best if what == "best" else self._worst)[free, k])
        key = (what, free, k)
        if key not in self._kept:
            self._kept[key] = self._compute(what, free, k)
        return self._kept[key]

    def _compute(self, what: str, free: GpuMask, k: int) -> float:
        if what in ("predicted", "broken"):
            pick = predict_pick(self.shape, self.shape.all_mask & ~free, k)
            if what == "predicted":
                return _finite(ring_gbps(self.shape, pick))
            cut = (island & ~pick for island in self.islands if island & ~free == 0 < island & pick)
            return float(sum(rest.bit_count() for rest in cut))
        found = (best_set if what == "best" else worst_set)(self.shape, free, k)
        return _finite(found.gbps) if found is not None else 0.0

    def pick(self, free: GpuMask, ask: Ask, free_cores: Mapping[int, int] | None) -> GpuMask:
        """The GPUs Slurm will probably take; equal questions are frequent and answered once."""
        known = None if free_cores is None else tuple(free_cores.items())
        key = (free, ask, known)
        found = self._picks.get(key)
        if found is None:
            if len(self._picks) >= MAX_PICKS:
                self._picks.clear()
            found = self._picks[key] = predict_pick(
                self.shape, self.shape.all_mask & ~free, ask.count, ask=Wording(ask.per),
                free_cores=free_cores, cores=ask.cores,
            )  # fmt: skip
        return found

    def column(self, what: str, free: IntArray, k: int) -> FloatArray:
        """The value for many free masks at once."""
        if k < 1 or k > self.shape.count:
            return np.zeros(len(free))
        if self.dense:
            table: FloatArray = getattr(self, f"_{what}")
            found: FloatArray = table[free, k]
            missing = np.isnan(found)
            if missing.any():
                for mask in np.unique(free[missing]):
                    table[mask, k] = self.value(what, int(mask), k)
                found = table[free, k]
            return found
        masks, inverse = np.unique(free, return_inverse=True)
        values = np.array([self.value(what, int(m), k) for m in masks], dtype=np.float64)
        column: FloatArray = values[inverse]
        return column


@lru_cache(maxsize=256)
def table_of(shape: NodeShape) -> ShapeTable:
    """The table of a shape; made once, since it does not change."""
    return ShapeTable(shape)


def _finite(gbps: float) -> float:
    return min(gbps, LOCAL_GBPS)
