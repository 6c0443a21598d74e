"""Array task lists: ``0-9%2``, ``[0-467]``, ``0-10:2``, and lists cut short with ``...``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_NO_VAL = "4294967294"
"""scontrol of an array that was cancelled with no task left to show (seen on 24.11)."""
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Tasks:
    """One task (``task``), several (``tasks`` raw, ``count``), or none of an array.

    ``count`` None: the list was cut short or cannot be read.
    ``throttle`` 0: none.
    """

    task: int | None = None
    tasks: str = ""
    count: int | None = 1
    throttle: int = 0


NO_ARRAY = Tasks()


@lru_cache(maxsize=65536)
def parse_tasks(text: str) -> Tasks:
    """The tasks a queue record stands for (the ArrayTaskId of squeue and scontrol)."""
    raw = text.strip()
    if raw in ("", "N/A", "(null)", "-", _NO_VAL):
        return NO_ARRAY
    if raw.isdecimal() and raw.isascii() and len(raw) <= 9:
        return Tasks(task=int(raw))
    body, _, limit = raw.replace("[", "").replace("]", "").partition("%")
    throttle = int(limit) if limit.isdecimal() and limit.isascii() and len(limit) <= 9 else 0
    return Tasks(tasks=raw, count=_count(body), throttle=throttle)


def _count(body: str) -> int | None:
    total = 0
    for part in body.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            return None
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        if last < first or step < 1:
            return None
        total += (last - first) // step + 1
    return total
