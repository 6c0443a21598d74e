"""Reading Slurm's ``key=value`` files: comments, continuation, quotes, host lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hostlist import BadHostlist, expand_hostlist

from .findings import TopologyError

# As in Slurm's parse_config.c: blanks around the sign are allowed, the value ends at a blank
# unless it is quoted. Keys are ASCII.
_PAIR = re.compile(r"\s*([A-Za-z0-9_.]+)\s*=\s*(?:\"([^\"]*)\"|([^\s\"]\S*)?)(?=\s|$)")
_COMMENT = re.compile(r"(?<!\\)#.*")
_NUMBER = re.compile(r"[0-9]{1,9}")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_MAX_LINE = 1 << 20
_MAX_RANGE = 1 << 16


@dataclass(frozen=True, slots=True)
class ConfLine:
    """One logical line: the number of its first physical line and its text, or its pairs."""

    number: int
    text: str


def logical_lines(text: str) -> Iterator[ConfLine]:
    """Lines without comments and blank ones, continuations (a trailing backslash) joined."""
    number, parts = 0, list[str]()
    for i, raw in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        stripped = _COMMENT.sub("", raw).rstrip()
        if not parts:
            number = i
        if stripped.endswith("\\"):
            parts.append(stripped[:-1])
            continue
        parts.append(stripped)
        joined = " ".join(parts).strip()
        parts = []
        if joined:
            yield ConfLine(number, joined)
    if joined := " ".join(parts).strip():
        yield ConfLine(number, joined)


def pairs_of(line: ConfLine, source: str) -> dict[str, str]:
    """``key=value`` pairs of a line, keys in lower case.

    :raises TopologyError: text that is no pair, or a key given twice.
    """
    if len(line.text) > _MAX_LINE:
        raise TopologyError(source, line.number, "line too long", "split it")
    found: dict[str, str] = {}
    at = 0
    while at < len(line.text):
        match = _PAIR.match(line.text, at)
        if match is None:
            rest = line.text[at:].strip()[:40]
            raise TopologyError(
                source, line.number, f"expected key=value, found {rest!r}",
                "write one key=value after another, values with blanks in double quotes",
            )  # fmt: skip
        key = match.group(1).lower()
        if key in found:
            raise TopologyError(
                source, line.number, f"{match.group(1)}= is given twice", "keep one of the two"
            )
        found[key] = match.group(2) if match.group(2) is not None else (match.group(3) or "")
        at = match.end()
        if not line.text[at:].strip():
            break
    return found


def hosts(text: str, source: str, line: int, key: str = "Nodes") -> tuple[str, ...]:
    """The names of a Slurm host list expression, in order, doubles kept once.

    :raises TopologyError: an expression that is cut, empty or out of bounds.
    """
    if not text or text == "(null)":
        return ()
    try:
        if re.search(r"[^\x21-\x7e]", text):
            raise BadHostlist("blank or non-ASCII character")
        names = expand_hostlist(text)
    except (BadHostlist, ValueError, IndexError, RecursionError, OverflowError) as error:
        raise TopologyError(
            source, line, f"{key}={text[:60]!r} is not a host list ({error})",
            "check the brackets; unset SLURM_TOPO_LEN if scontrol cut the line",
        ) from None  # fmt: skip
    return tuple(dict.fromkeys(names))


def number(text: str, source: str, line: int, key: str, *, upper: int = 10**9) -> int:
    """A plain non-negative number.

    :raises TopologyError: anything else, or more than ``upper``.
    """
    if not _NUMBER.fullmatch(text) or int(text) > upper:
        raise TopologyError(
            source, line, f"{key}={text[:40]!r} is not a number up to {upper}",
            "write plain decimal digits",
        )  # fmt: skip
    return int(text)


def ranges(text: str, source: str, line: int, key: str) -> frozenset[int]:
    """``0-3,8`` -> {0, 1, 2, 3, 8}.

    :raises TopologyError: not such a list.
    """
    found: set[int] = set()
    for part in text.strip("[]").split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise TopologyError(
                source, line, f"{key}={text[:40]!r} is not a list of ranges",
                "write it like 0-15,32-47",
            )  # fmt: skip
        low, high = int(match.group(1)), int(match.group(2) or match.group(1))
        if low > high or high - low > _MAX_RANGE:
            raise TopologyError(
                source, line, f"{key}: the range {part.strip()} is out of bounds",
                "give the lower end first",
            )  # fmt: skip
        found.update(range(low, high + 1))
    return frozenset(found)
