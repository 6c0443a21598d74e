"""Order of events."""

from __future__ import annotations

import pytest

from slurm_ext.sim.errors import SimulationError
from slurm_ext.sim.events import EventQueue, Kind


def drain(queue: EventQueue) -> list[object]:
    found = []
    while len(queue):
        found.append(queue.take()[2])
    return found


def test_time_then_kind_then_order_of_posting() -> None:
    queue = EventQueue()
    queue.post(5, Kind.SUBMIT, "c")
    queue.post(5, Kind.SUBMIT, "d")
    queue.post(5, Kind.END, "b")
    queue.post(1, Kind.DAEMON, "a")
    assert drain(queue) == ["a", "b", "c", "d"]


def test_the_clock_is_at_the_last_event() -> None:
    queue = EventQueue()
    queue.post(7, Kind.END)
    queue.take()
    assert (queue.now_s, queue.taken) == (7, 1)


def test_refuses_the_past() -> None:
    queue = EventQueue(10)
    with pytest.raises(SimulationError, match="posted for 9"):
        queue.post(9, Kind.END)
