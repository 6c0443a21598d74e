"""A reader for the small part of YAML that topology.yaml(5) uses, strict about all the rest.

Understood: block lists and mappings, one-line plain and quoted scalars, one-line lists of plain
scalars, comments, one leading ``---``. Everything else (anchors, tags, block scalars, flow
mappings, tabs, several documents, values over several lines) is an error with its line, never a
guess. What is accepted means the same to a full YAML reader; a test compares the two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from .findings import TopologyError

_KEY = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*)\s*:(?:\s+(\S.*)|\s*)")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_BAD = re.compile(r"[^\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd]|[\u2028\u2029\ufeff]")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"\\]*)\"")
_RESERVED = ",[]{}#&*!|>'\"%@`"
_REMEDY = "keep to the plain style of the example in topology.yaml(5)"
_MAX_DEPTH = 24


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value as written (no numbers, no booleans: the reader of the file decides)."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Seq:
    items: tuple[Value, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Map:
    items: dict[str, Value]
    line: int


Value: TypeAlias = Scalar | Seq | Map


@dataclass(slots=True)
class _Line:
    indent: int
    text: str
    number: int


def read_yaml(text: str, source: str) -> Value | None:
    """The one document of the text, None if it is empty.

    :raises TopologyError: anything outside the subset, with its line.
    """
    lines = _lines(text, source)
    if not lines:
        return None
    reader = _Reader(lines, source)
    value = reader.block(lines[0].indent, 0)
    if reader.at < len(lines):
        raise reader.error("unexpected indentation")
    return value


def _lines(text: str, source: str) -> list[_Line]:
    found: list[_Line] = []
    started = False
    for number, raw in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        bad = _BAD.search(raw)
        if bad:
            raise TopologyError(
                source, number, f"character {bad.group()!r} is not allowed", "use blanks, no tabs"
            )
        stripped = raw.strip(" ")
        if not stripped or stripped.startswith("#"):
            continue
        if raw.startswith(("---", "...", "%")):
            if _COMMENT.sub("", raw).rstrip() != "---" or found or started:
                raise TopologyError(source, number, "more than one document", _REMEDY)
            started = True
            continue
        found.append(_Line(len(raw) - len(raw.lstrip(" ")), stripped, number))
    return found


class _Reader:
    """Recursive descent over lines; ``at`` is the next line not yet read."""

    def __init__(self, lines: list[_Line], source: str) -> None:
        self.lines = lines
        self.source = source
        self.at = 0

    def error(self, problem: str) -> TopologyError:
        line = self.lines[min(self.at, len(self.lines) - 1)]
        return TopologyError(self.source, line.number, f"{problem}: {line.text[:40]!r}", _REMEDY)

    def _here(self) -> _Line | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    def block(self, indent: int, depth: int) -> Value:
        """The list, mapping or scalar that starts at the current line."""
        line = self.lines[self.at]
        if depth > _MAX_DEPTH:
            raise self.error("nested too deeply")
        if _is_dash(line.text):
            return self._sequence(indent, depth)
        if _KEY.fullmatch(line.text):
            return self._mapping(indent, depth)
        if depth == 0:
            raise self.error("neither a list nor a mapping")
        value = self._scalar(line.text, line.number)
        self.at += 1
        return value

    def _sequence(self, indent: int, depth: int) -> Seq:
        first = self.lines[self.at].number
        items: list[Value] = []
        while (line := self._here()) and line.indent == indent and _is_dash(line.text):
            rest = line.text[1:].lstrip(" ")
            if not rest or rest.startswith("#"):
                items.append(self._nested(line, indent, depth))
                continue
            # The item goes on in the same line: read it as a block of its own, further right.
            line.indent, line.text = indent + len(line.text) - len(rest), rest
            items.append(self.block(line.indent, depth + 1))
        self._no_deeper(indent)
        return Seq(tuple(items), first)

    def _mapping(self, indent: int, depth: int) -> Map:
        first = self.lines[self.at].number
        items: dict[str, Value] = {}
        while (line := self._here()) and line.indent == indent and not _is_dash(line.text):
            match = _KEY.fullmatch(line.text)
            if match is None:
                raise self.error("expected key: value")
            key, rest = match.group(1), match.group(2) or ""
            if key in items:
                raise self.error(f"{key} is given twice")
            if not rest or rest.startswith("#"):
                items[key] = self._nested(line, indent, depth, dash_at=indent)
            else:
                items[key] = self._scalar(rest, line.number)
                self.at += 1
        self._no_deeper(indent)
        return Map(items, first)

    def _nested(self, line: _Line, indent: int, depth: int, dash_at: int = -1) -> Value:
        """What belongs to a key or dash with nothing behind it (a list may stand under its key
        without further indentation)."""
        self.at += 1
        below = self._here()
        if below and (below.indent > indent or (below.indent == dash_at and _is_dash(below.text))):
            return self.block(below.indent, depth + 1)
        return Scalar("", line.number)

    def _no_deeper(self, indent: int) -> None:
        line = self._here()
        if line and line.indent > indent:
            raise self.error("unexpected indentation")

    def _scalar(self, text: str, number: int) -> Value:
        quoted = _QUOTED.match(text)
        if quoted:
            if _COMMENT.sub("", text[quoted.end() :]).strip():
                raise self.error("text after a quoted value")
            inner = quoted.group(1) if quoted.group(1) is not None else quoted.group(2)
            return Scalar(inner or "", number)
        plain = _COMMENT.sub("", text).strip()
        if plain.startswith("[") and plain.endswith("]"):
            return self._flow(plain[1:-1], number)
        self._check_plain(plain)
        return Scalar(plain, number)

    def _flow(self, inner: str, number: int) -> Seq:
        parts = [part.strip() for part in inner.split(",")]
        if not inner.strip():
            return Seq((), number)
        if parts[-1] == "":
            parts.pop()
        for part in parts:
            if re.search(r"[\[\]{}'\"]", part):
                raise self.error("only plain values in a one-line list")
            self._check_plain(part)
        return Seq(tuple(Scalar(part, number) for part in parts), number)

    def _check_plain(self, text: str) -> None:
        if (
            not text
            or text[0] in _RESERVED
            or re.match(r"[-?:](\s|$)", text)
            or re.search(r":(\s|$)", text)
        ):
            raise self.error("not a plain value")


def _is_dash(text: str) -> bool:
    return text == "-" or text.startswith("- ")
