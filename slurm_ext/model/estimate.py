"""What is expected of a job's run time, as a distribution."""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple


class Estimate(NamedTuple):
    """Seconds of run time: quantiles, the best single guess, and what it rests on.

    ``level``: what the weightiest samples share with the job (``user+size+stem``, ``account``,
    ``site``, ``limit`` for no history at all); ``n`` their number. ``beyond``: the job has run
    longer than anything known, so that the numbers are a rule of thumb.
    Of a running job the numbers are the whole run time given the time already run, not the rest.
    """

    p10_s: float
    p50_s: float
    p90_s: float
    point_s: float
    n: int
    level: str
    beyond: bool = False

    @property
    def sound(self) -> bool:
        """Whether it can be planned with: finite times from 0 on, the quantiles in order."""
        return (
            isfinite(self.p90_s)
            and isfinite(self.point_s)
            and self.point_s >= 0
            and 0 <= self.p10_s <= self.p50_s <= self.p90_s
        )
