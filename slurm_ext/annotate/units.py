"""Human forms of durations, sizes, moments and ranges to plain numbers.

Every function raises ValueError for a text that is not of its form.
"""

from __future__ import annotations

import math
import re
from datetime import datetime

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(s|sec|m|min|h|d)?")
_CLOCK = re.compile(r"(?:([0-9]{1,3})-)?([0-9]{1,2}):([0-5][0-9]):([0-5][0-9])")
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(?:([KkMmGgTt])(?:[Ii]?[Bb])?)?")
_AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([kM]?)")
_RANGE = re.compile(r"([0-9]{1,5})(?:\.\.([0-9]{1,5}))?")

_SECONDS = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_MIB = {"k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1 << 20}


def _match(pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(f"not {what}")
    return found


def duration_s(value: float | str) -> int:
    """Whole seconds, rounded up: 90, "90s", "1.5h", "2d", "[D-]HH:MM:SS"."""
    if isinstance(value, int | float):
        return math.ceil(value)
    if clock := _CLOCK.fullmatch(value):
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    found = _match(_DURATION, value, "a duration")
    return math.ceil(float(found[1]) * _SECONDS[found[2] or ""])


def size_mib(value: int | str) -> int:
    """MiB, rounded up: 512 (MiB, as sbatch --mem has it), "512M", "16G", "1.5T", "16GiB"."""
    if isinstance(value, int):
        return value
    found = _match(_SIZE, value, "a size")
    return math.ceil(float(found[1]) * _MIB[(found[2] or "").lower()])


def moment_s(value: int | str) -> int:
    """Epoch second of an ISO 8601 moment; without an offset it is in this machine's own zone."""
    if isinstance(value, int) or value.isdigit():
        return int(value)
    try:
        moment = int(datetime.fromisoformat(value).timestamp())
    except OverflowError as error:
        raise ValueError("not a moment") from error
    if moment <= 0:
        raise ValueError("before 1970")
    return moment


def gpu_range(value: int | str) -> tuple[int, int]:
    """Least and most: 4 -> (4, 4), "1..8" -> (1, 8)."""
    found = _match(_RANGE, str(value), "a range")
    return int(found[1]), int(found[2] or found[1])


def amount(value: float | str) -> float:
    """A plain number: 160, "90k", "1.5M"."""
    if isinstance(value, int | float):
        return float(value)
    found = _match(_AMOUNT, value, "a number")
    return float(found[1]) * {"": 1, "k": 1e3, "M": 1e6}[found[2]]


def speed_table(value: dict[str, float] | str) -> tuple[tuple[int, float], ...]:
    """(GPUs, units of work per second), ascending: "1:7.2/2:13.9" or a mapping."""
    if isinstance(value, str):
        pairs = [part.partition(":")[::2] for part in value.split("/")]
        if len({count for count, _ in pairs}) < len(pairs):
            raise ValueError("a GPU count stands twice")
    else:
        pairs = [(count, str(speed)) for count, speed in value.items()]
    table = sorted((int(count), float(speed)) for count, speed in pairs)
    if not all(math.isfinite(speed) and speed > 0 for _, speed in table):
        raise ValueError("a speed is not positive")
    return tuple(table)


def numbers(value: list[float] | str) -> tuple[float, ...]:
    """ "a/b/c/d" or a list, none negative, not all 0."""
    found = tuple(float(v) for v in (value.split("/") if isinstance(value, str) else value))
    if not all(math.isfinite(v) and v >= 0 for v in found) or not any(found):
        raise ValueError("negative or all 0")
    return found
