"""What an annotation means for its job, key by key, defaults filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .check import Understood
from .schema import KEYS

_UNITS = {"duration": " s", "size": " MiB"}


@dataclass(frozen=True, slots=True)
class Meaning:
    """One key: its ``value`` in plain units as text, if it was ``given``, and why it matters."""

    key: str
    value: str
    given: bool
    description: str
    why: str


def meanings(understood: Understood) -> list[Meaning]:
    """Every key of the language with what holds for this job."""
    given = understood.given or {}
    return [
        Meaning(key, _text(part["x-kind"], given.get(key, part["default"])), key in given,
                part["description"], part["x-why"])
        for key, part in KEYS.items() if key != "version"
    ]  # fmt: skip


def _text(kind: str, value: Any) -> str:
    if value in ("", 0) and not isinstance(value, bool):
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind == "range":
        return f"{value[0]}..{value[1]}"
    if kind == "table":
        return ", ".join(f"{n}: {speed:g}/s" for n, speed in value)
    if kind == "numbers":
        return ", ".join(f"{v:g}" for v in value)
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value}{_UNITS.get(kind, '')}"
