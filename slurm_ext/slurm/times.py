"""Times as Slurm prints them: limits, elapsed times and timestamps.

All of Slurm's commands are run with ``TZ=UTC`` and ``SLURM_TIME_FORMAT=standard`` (see
:mod:`slurm_ext.slurm.run`), so that a timestamp without a zone has one meaning.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache

from slurm_ext.model.units import EpochS


class Special(Enum):
    """What stands in the place of a number of seconds."""

    UNLIMITED = "unlimited"
    UNSET = "unset"
    UNREADABLE = "unreadable"


_UNLIMITED = frozenset({"UNLIMITED", "INFINITE", "-1", "INFINITY"})
_UNSET = frozenset(
    {"", "NOT_SET", "N/A", "UNKNOWN", "NONE", "PARTITION_LIMIT", "(NULL)", "INVALID", "NOW"}
)
_DURATION = re.compile(
    r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?(?:\.\d+)?", re.ASCII
)
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)
_STAMP_NO_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d", re.ASCII)


@lru_cache(maxsize=4096)
def duration_s(text: str) -> int | Special:
    """Seconds of a limit or elapsed time (``MM``, ``MM:SS``, ``HH:MM:SS``, ``D-HH[:MM[:SS]]``).

    So ``30:00`` is thirty minutes and ``1-12`` is 36 hours. Source: parse_time.c, sbatch(1).
    """
    upper = text.strip().upper()
    if upper in _UNLIMITED:
        return Special.UNLIMITED
    if upper in _UNSET:
        return Special.UNSET
    found = _DURATION.fullmatch(upper)
    if found is None:
        return Special.UNREADABLE
    days, *rest = found.groups()
    numbers = [int(part) for part in rest if part is not None]
    if days is not None:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
        return ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(numbers) == 1:
        return numbers[0] * 60
    if len(numbers) == 2:
        return numbers[0] * 60 + numbers[1]
    return (numbers[0] * 60 + numbers[1]) * 60 + numbers[2]


@lru_cache(maxsize=65536)
def moment_s(text: str) -> EpochS | Special:
    """Seconds since the epoch of a timestamp in UTC (``2026-11-30T14:54:59``)."""
    if _STAMP.fullmatch(text) or _STAMP_NO_SECONDS.fullmatch(text):
        try:
            return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
        except ValueError:
            return Special.UNREADABLE
    if text.strip().upper() in _UNSET:
        return Special.UNSET
    return Special.UNREADABLE


def stamp(moment: EpochS) -> str:
    """The timestamp that ``scontrol`` reads as this moment when run with ``TZ=UTC``."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def known(value: int | Special) -> int | None:
    """The number, or None for anything that is not one."""
    return value if isinstance(value, int) else None
