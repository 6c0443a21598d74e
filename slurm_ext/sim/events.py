"""The clock of a simulation: events in time order, and a fixed order within one second."""

from __future__ import annotations

import heapq
from enum import IntEnum
from typing import Any

from .errors import SimulationError


class Kind(IntEnum):
    """What happens, in the order in which it happens within a second.

    Resources come back before anybody looks; Slurm's own schedulers are faster than the daemon.
    """

    END = 0  # a process ends, or is told to
    FREED = 1  # its nodes are clean again
    BEGIN = 2  # a begin time has come
    SUBMIT = 3
    MAIN = 4  # main scheduler, after an event
    FULL = 5  # main scheduler, whole queue
    BACKFILL = 6
    DAEMON = 7


class EventQueue:
    """Events by (time, kind, order of posting); ``now_s`` is the time of the last one taken."""

    __slots__ = ("_heap", "_posted", "now_s", "taken")

    def __init__(self, start_s: int = 0) -> None:
        self.now_s = start_s
        self.taken = 0
        self._heap: list[tuple[int, int, int, Any]] = []
        self._posted = 0

    def __len__(self) -> int:
        return len(self._heap)

    def post(self, at_s: int, kind: Kind, subject: Any = None) -> None:
        """Add an event.

        :raises SimulationError: it lies in the past.
        """
        if at_s < self.now_s:
            raise SimulationError(f"event {kind.name} posted for {at_s}, it is {self.now_s}")
        self._posted += 1
        heapq.heappush(self._heap, (at_s, int(kind), self._posted, subject))

    def next_s(self) -> int | None:
        """Time of the next event."""
        return self._heap[0][0] if self._heap else None

    def take(self) -> tuple[int, Kind, Any]:
        """The next event; the clock moves to it."""
        at_s, kind, _, subject = heapq.heappop(self._heap)
        self.now_s = at_s
        self.taken += 1
        return at_s, Kind(kind), subject
