"""A whole batch script: what its annotation is, wherever it stands, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .check import Understood, of_found, of_values
from .directives import Head, Line, read
from .problem import Problem, shown
from .schema import MARKER, MAX_BYTES
from .shorthand import native
from .text import find, render, with_annotation


@dataclass(frozen=True, slots=True)
class Script:
    """``understood``: what would reach Slurm. ``raw``: keys and values of the ``##SLURM_EXT``
    lines, as written; empty if there are none, or if the comment's annotation replaces them."""

    understood: Understood
    problems: tuple[Problem, ...]
    raw: dict[str, Any]
    comment: str

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(p for p in self.problems if p.error)


def read_script(text: str, comment: str | None = None) -> Script:
    """The annotation of a script. ``comment``: given on the command line, in its place.

    An annotation in the comment replaces the lines of the script as a whole, as an option on
    the command line replaces one in the script.
    """
    head = read(text)
    in_script = comment is None and head.comment is not None
    if comment is None:
        comment = head.comment.value if head.comment is not None else ""
    found = find(comment)
    if found.there:
        understood = of_found(found)
        problems = [_in_comment(p, head, in_script) for p in understood.problems]
        problems += [_ignored(line) for line in head.lines]
        return Script(understood, (*head.problems, *problems), {}, comment)
    raw, problems = _collect(head.lines)
    understood = of_values(raw) if raw else Understood(off=found.off)
    where = {pair.key: (line.number, pair.at + 1) for line in head.lines for pair in line.pairs}
    if raw and len(with_annotation(comment, render(raw)).encode(errors="replace")) > MAX_BYTES:
        problems.append(_too_long(head.lines[0]))
    problems += [p.placed(*where.get(p.key, (head.lines[0].number, 1)))
                 for p in understood.problems]  # fmt: skip
    return Script(understood, (*head.problems, *problems), raw, comment)


def _collect(lines: tuple[Line, ...]) -> tuple[dict[str, Any], list[Problem]]:
    raw: dict[str, Any] = {}
    problems: list[Problem] = []
    for line in lines:
        for pair in line.pairs:
            if pair.key in raw:
                problems.append(Problem("repeated", f"key {shown(pair.key)} stands twice",
                                        "keep one of them", pair.key, line=line.number,
                                        column=pair.at + 1))  # fmt: skip
            raw[pair.key] = native(pair.key, pair.value)
    return raw, problems


def _in_comment(problem: Problem, head: Head, in_script: bool) -> Problem:
    if not in_script or head.comment is None:
        return problem
    # Exact where the value needed no escapes before the key.
    return problem.placed(head.comment.number, head.comment.column + problem.at)


def _too_long(line: Line) -> Problem:
    return Problem("too_long", f"comment and annotation are longer than {MAX_BYTES} bytes, more "
                   "than Slurm takes", "shorten them", line=line.number, column=1)  # fmt: skip


def _ignored(line: Line) -> Problem:
    return Problem("ignored", f"not used: the comment has an annotation ({MARKER}…) of its own",
                   "keep one of them", line=line.number, column=1, error=False)  # fmt: skip
