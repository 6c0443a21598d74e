"""One end for all calls of a look, however many there are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from slurm_ext.errors import SlurmUnavailableError


class Deadline:
    """Shared by what asks Slurm on behalf of one look; safe to read from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end: float | None = None

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Calls made inside end together after ``seconds``."""
        self._end = self._clock() + seconds
        try:
            yield
        finally:
            self._end = None

    def left(self, limit_s: float) -> float:
        """The time a call that may take ``limit_s`` has got.

        :raises SlurmUnavailableError: none.
        """
        end = self._end
        if end is None:
            return limit_s
        left = end - self._clock()
        if left <= 0:
            raise SlurmUnavailableError(
                "the time for a look at Slurm is used up; see cycle.observe_timeout_s"
            )
        return min(limit_s, left)
