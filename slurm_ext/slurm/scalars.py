"""Tolerant readers for the values of Slurm's JSON in all its shapes (v0.0.38 to v0.0.45).

A number is plain, null, a string, or ``{"set": …, "infinite": …, "number": …}``; empty objects
may be null. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slurm_ext.model.units import EpochS
from slurm_ext.slurm.times import Special

_NO_VALUE = frozenset(
    {0xFFFE, 0xFFFF, 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF}
)


def number(value: Any) -> int | Special:
    """A whole number, UNLIMITED, or UNSET (null, not set, or one of Slurm's NO_VAL)."""
    if isinstance(value, dict):
        if value.get("infinite") is True:
            return Special.UNLIMITED
        if value.get("set") is False:
            return Special.UNSET
        return number(value.get("number"))
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        if value.strip().lower() in ("infinity", "inf", "unlimited", "infinite"):
            return Special.UNLIMITED
        text = value.strip()
        return (
            int(text) if text.isdecimal() and text.isascii() and len(text) < 20 else Special.UNSET
        )
    if isinstance(value, float):
        return int(value) if abs(value) < 1e18 else Special.UNLIMITED
    if isinstance(value, int):
        return Special.UNSET if value in _NO_VALUE else value
    return Special.UNSET


def integer(value: Any, default: int = 0) -> int:
    """A whole number or the default."""
    found = number(value)
    return found if isinstance(found, int) else default


def moment(value: Any) -> EpochS | None:
    """A time; 0 means none in every version."""
    return integer(value) or None


def text(value: Any) -> str:
    """A string; null and lists of strings too (26.05 splits some)."""
    if isinstance(value, str):
        return "" if value in ("(null)", "N/A") else value
    if isinstance(value, list):
        return ",".join(item for item in value if isinstance(item, str))
    return ""


def words(value: Any) -> tuple[str, ...]:
    """A list of strings, or a comma-separated string."""
    if isinstance(value, str):
        return tuple(part for part in text(value).split(",") if part)
    if isinstance(value, list):
        return tuple(item for item in value if isinstance(item, str) and item)
    return ()


def get(value: Any, *path: str) -> Any:
    """A value deep inside objects; None where anything on the way is missing."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """The objects of a list (or of an object's values), whatever else is in it."""
    items = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    for item in items:
        if isinstance(item, dict):
            yield item
