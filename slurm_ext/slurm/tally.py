"""How often Slurm was asked, how long it took, and how it ended: for the metrics."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of one kind: how many, and their seconds in all."""

    count: int = 0
    seconds: float = 0.0


class Tally:
    """Counts calls by command and outcome; safe to use from several threads."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], Calls] = {}
        self._lock = threading.Lock()

    def note(self, command: str, outcome: str, seconds: float) -> None:
        """One call more. ``outcome``: ``ok``, ``refused`` or ``unavailable``."""
        with self._lock:
            before = self._calls.get((command, outcome), Calls())
            self._calls[command, outcome] = Calls(before.count + 1, before.seconds + seconds)

    def seen(self) -> dict[tuple[str, str], Calls]:
        """(command, outcome) -> calls since the start of the process."""
        with self._lock:
            return dict(self._calls)


TALLY = Tally()
"""Of this process: a command is a command, whoever starts it."""


def kind_of(argv: Sequence[str]) -> str:
    """The command without its arguments; of scontrol and sacctmgr with the verb."""
    name = argv[0].rpartition("/")[2]
    verbs = [w for w in argv[1:] if not w.startswith("-")]
    if name not in ("scontrol", "sacctmgr"):
        return name
    return f"{name} {verbs[0].partition('=')[0][:20]}" if verbs else f"{name} batch"
