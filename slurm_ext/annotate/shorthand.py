"""``key=value,key=value``: the short form, in comments and on directive lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .problem import Problem, shown
from .schema import KEYS, MAX_KEYS

_PIECE = re.compile(r"[^,\s]+")
_INTEGER = re.compile(r"[+-]?[0-9]{1,12}")
_NUMBER = re.compile(r"[0-9]{1,16}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?", re.IGNORECASE)
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


@dataclass(frozen=True, slots=True)
class Pair:
    """One ``key=value`` with the offset of its key in the text that was read."""

    key: str
    value: str
    at: int


def pairs(text: str) -> tuple[list[Pair], list[Problem]]:
    """The pairs of one text; commas and white space separate them.

    A key alone stands for ``key=true`` where the key is a flag.
    """
    found: list[Pair] = []
    problems: list[Problem] = []
    for number, piece in enumerate(_PIECE.finditer(text)):
        if number == MAX_KEYS:
            problems.append(Problem("too_many", f"more than {MAX_KEYS} keys", "remove some",
                                    at=piece.start()))  # fmt: skip
            break
        key, equals, value = piece[0].partition("=")
        if not equals and KEYS.get(key, {}).get("x-kind") == "flag":
            value = "true"
        elif not equals or not key or not value:
            problems.append(
                Problem("pair", f"{shown(piece[0])} is not key=value",
                        "write key=value, without blanks", at=piece.start())
            )  # fmt: skip
            continue
        found.append(Pair(key, value, piece.start()))
    return found, problems


def native(key: str, value: str) -> Any:
    """The text of a value as the schema wants it: numbers and flags are no texts there."""
    kind = KEYS.get(key, {}).get("x-kind")
    if kind == "flag" and value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE
    if kind in ("count", "amount", "duration", "size") and _INTEGER.fullmatch(value):
        return int(value)
    if kind in ("amount", "duration") and _NUMBER.fullmatch(value):
        return float(value)
    return value
