"""Finding an annotation in a comment, and the comment's other text around it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .problem import Problem
from .schema import MARKER, MAX_BYTES, MAX_KEYS

_START = re.compile(r"(?:(?<=[\s;,|(\[])|^)" + re.escape(MARKER))
_WORD = re.compile(r"[^\s;|)\]]*")
_DEEPEST = 2
"""An object with tables in it; nothing in the language needs more."""


@dataclass(frozen=True, slots=True)
class Found:
    """The one annotation of a comment: ``comment[start:end]`` with the marker, ``body`` without.

    ``off``: the opt-out stands beside it or alone (then ``body`` is empty and start == end).
    """

    start: int = 0
    end: int = 0
    body: str = ""
    off: bool = False
    problem: Problem | None = None

    @property
    def there(self) -> bool:
        return self.end > self.start


def find(comment: str) -> Found:
    """Where the annotation of a comment is; the rest is foreign text and never judged."""
    spans: list[tuple[int, int]] = []
    off = False
    at = 0
    while (mark := _START.search(comment, at)) is not None:
        end = _end(comment, mark.end())
        if comment[mark.end() : end] == "off":
            off = True
        else:
            spans.append((mark.start(), end))
        at = max(end, mark.end())
    if not spans:
        return Found(off=off)
    start, end = spans[0]
    body = comment[start + len(MARKER) : end]
    return Found(start, end, body, off, _size_problem(body, spans))


def _size_problem(body: str, spans: list[tuple[int, int]]) -> Problem | None:
    if len(spans) > 1:
        return Problem("twice", "the comment holds more than one annotation",
                       "put all keys into one", at=spans[1][0])  # fmt: skip
    if len(body.encode(errors="replace")) > MAX_BYTES:
        return Problem("too_long", f"the annotation is longer than {MAX_BYTES} bytes", "shorten it")
    return None


def _end(comment: str, at: int) -> int:
    """End of the annotation whose body starts at ``at``."""
    if comment.startswith("{", at):
        return _closing(comment, at)
    word = _WORD.match(comment, at)
    assert word is not None
    return word.end()


def _closing(text: str, at: int) -> int:
    """Just past the brace that closes the one at ``at``; the end of the text if none does."""
    depth = 0
    for i, ch in _outside_texts(text, at):
        depth += (ch == "{") - (ch == "}")
        if depth == 0:
            return i + 1
    return len(text)


def _outside_texts(text: str, at: int) -> Iterator[tuple[int, str]]:
    """Offsets and characters of JSON from ``at`` on that are in no quoted text."""
    quoted = escaped = False
    for i in range(at, len(text)):
        ch = text[i]
        if quoted:
            quoted = escaped or ch != '"'
            escaped = ch == "\\" and not escaped
        elif ch == '"':
            quoted = True
        else:
            yield i, ch


def with_annotation(comment: str, body: str) -> str:
    """The comment with this annotation instead of its own, or after its text."""
    found = find(comment)
    if found.there:
        return comment[: found.start] + MARKER + body + comment[found.end :]
    return f"{comment} {MARKER}{body}" if comment.strip() else MARKER + body


def parse_json(body: str) -> tuple[dict[str, Any], list[Problem]]:
    """Keys and values of a JSON body; whatever is wrong with its form is one problem."""
    if depth(body) > _DEEPEST:
        return {}, [Problem("too_deep", "the JSON is nested too deeply",
                            f"nothing needs more than {_DEEPEST} levels")]  # fmt: skip
    problems: list[Problem] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in items]
        problems.extend(
            Problem("repeated", f"key {json.dumps(name)[:48]} stands twice", "keep one", name)
            for name in sorted({n for n in names if names.count(n) > 1})
        )
        return dict(items)

    def constant(word: str) -> float:
        problems.append(Problem("number", f"{word} is no number that can be used",
                                "write a finite number"))  # fmt: skip
        return 0.0

    try:
        document = json.loads(body, object_pairs_hook=pairs, parse_constant=constant)
    except json.JSONDecodeError as error:
        hint = "JSON wants double quotes around keys and texts, and no comma after the last"
        return {}, [Problem("json", f"not JSON: {error.msg}", hint, at=error.pos)]
    except (RecursionError, ValueError):
        return {}, [Problem("json", "not JSON that can be read", "write it anew")]
    if isinstance(document, dict) and len(document) > MAX_KEYS:
        return {}, [Problem("too_many", f"more than {MAX_KEYS} keys", "remove some")]
    if not isinstance(document, dict):
        return {}, [Problem("json", "not a JSON object", 'write {"key": value, …}')]
    return document, problems


def depth(body: str) -> int:
    """How deeply brackets nest, texts not counted."""
    level = deepest = 0
    for _, ch in _outside_texts(body, 0):
        level += (ch in "{[") - (ch in "}]")
        deepest = max(deepest, level)
    return deepest


def render(values: Mapping[str, Any]) -> str:
    """The shorthand that means these keys and values (as ``pairs`` of shorthand reads it)."""
    return ",".join(f"{key}={_rendered(value)}" for key, value in values.items())


def _rendered(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "/".join(f"{k}:{_rendered(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return "/".join(_rendered(v) for v in value)
    return f"{value!r}" if isinstance(value, float) else str(value)
