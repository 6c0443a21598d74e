"""Shortest first among those that have waited long enough for their length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log

from slurm_ext.engine.parts.ordering import expected_s
from slurm_ext.engine.view import JobView
from slurm_ext.model.decision import Term
from slurm_ext.model.units import EpochS


@dataclass(frozen=True, slots=True)
class Tokens:
    """A job's tokens are 1 + waited / expected run time; those near the most go first.

    The bar is the greatest number of tokens, lowered to a power of ``base``; jobs at or above it
    come first, in each class the shortest. So a long job waits, but not for ever: its tokens reach
    the bar in the end (Choi and Rhu, PREMA, HPCA 2020).
    """

    base: float = 3.0

    def terms(self, views: Sequence[JobView], now_s: EpochS) -> list[tuple[Term, ...]]:
        expected = [max(1.0, expected_s(v)) for v in views]
        tokens = [
            1.0 + max(0, now_s - v.job.key.submit_s) / e
            for v, e in zip(views, expected, strict=True)
        ]
        if not tokens:
            return []
        bar = self.base ** floor(log(max(tokens)) / log(self.base) + 1e-9)
        return [
            (
                Term("below_bar", float(t < bar)),
                Term("expected_s", e),
                Term("submit_s", float(v.first_submit_s)),
            )
            for v, e, t in zip(views, expected, tokens, strict=True)
        ]
