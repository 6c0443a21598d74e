"""Reading a batch script as sbatch does: options and annotations up to the first command.

sbatch(1) reads ``#SBATCH`` at the very start of a line and stops at the first line that is
neither empty nor a comment. The rules for quotes were tried on Slurm 22.05: both kinds of quotes,
a backslash escapes any character inside them, ``#`` outside of them ends the line. ``#SLURM_EXT``
cannot be a directive: sbatch takes ``#SLURM`` for an old form of ``#SBATCH`` and refuses the job.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .problem import Problem, shown
from .shorthand import Pair, pairs

DIRECTIVE = "##SLURM_EXT"
MAX_HEAD = 65536
"""Characters that are read at most; sbatch takes scripts up to 4 MiB, no head is that long."""

_OURS = re.compile(re.escape(DIRECTIVE) + r"(?=\s|$)")
_NEARLY = re.compile(r"\s*#+\s*SLURM[-_ ]?EXT\b", re.IGNORECASE)
_COMMENT_OPTION = re.compile(r"--com(?:m|me|men|ment)?(?:=(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Line:
    """One ``##SLURM_EXT`` line: its pairs (offsets within the line)."""

    number: int
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Comment:
    """The value of ``#SBATCH --comment``: line number, column of the value, text unquoted."""

    number: int
    column: int
    value: str


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of a script says. ``comment``: the last one, which is what counts."""

    lines: tuple[Line, ...] = ()
    comment: Comment | None = None
    problems: tuple[Problem, ...] = ()


def read(script: str) -> Head:
    """The directives of a script; lines that come too late or are misspelt are problems."""
    lines: list[Line] = []
    comment: Comment | None = None
    problems: list[Problem] = []
    command, quiet = 0, False
    if len(script) > MAX_HEAD:
        script = script[:MAX_HEAD].rpartition("\n")[0]
    for number, text in enumerate(script.split("\n"), 1):
        if text.endswith("\r") and number == 1:
            problems.append(
                Problem("dos", "lines end as in DOS; sbatch refuses the script",
                        "convert it with dos2unix", line=1, column=len(text))
            )  # fmt: skip
        text = text.rstrip("\r")
        if not command and text.strip() and not text.lstrip().startswith("#"):
            command = number
        if command:
            problems += _late(number, text, command, sbatch=not quiet)
            # One warning is enough, and what follows "<<" may be the script of another job.
            quiet = quiet or text.startswith("#SBATCH") or "<<" in text
        elif _OURS.match(text):
            found, faults = pairs_of(text)
            lines.append(Line(number, tuple(found)))
            problems += [p.placed(number, p.at + 1) for p in faults]
        elif text.startswith("#SBATCH"):
            comment = _comment_of(number, text) or comment
        elif _NEARLY.match(text):
            problems.append(_misspelt(number, text))
    return Head(tuple(lines), comment, tuple(problems))


def pairs_of(text: str) -> tuple[list[Pair], list[Problem]]:
    """Pairs of one directive line, offsets within the line; `` #`` starts a remark."""
    body = re.split(r"\s#", text[len(DIRECTIVE) :], maxsplit=1)[0]
    found, faults = pairs(" " * len(DIRECTIVE) + body)
    if not found and not faults:
        faults = [Problem("empty", "the line says nothing", "write key=value, or remove it")]
    return found, faults


def _late(number: int, text: str, command: int, *, sbatch: bool) -> list[Problem]:
    if sbatch and text.startswith("#SBATCH"):
        remedy = "move all #SBATCH lines above it: sbatch ignores them here"
    elif _NEARLY.match(text):
        remedy = "move it above the first command, as #SBATCH lines"
    else:
        return []
    return [Problem("late", f"not read: the first command is in line {command}", remedy,
                    line=number, column=1, error=False)]  # fmt: skip


def _misspelt(number: int, text: str) -> Problem:
    column = len(text) - len(text.lstrip()) + 1
    if text.startswith("#SLURM"):
        what = "sbatch takes a line that starts with #SLURM for an option and refuses the script"
    else:
        what = f"{shown(text.strip()[:20])} is an ordinary remark"
    return Problem(
        "directive", what, f"start the line with {DIRECTIVE}", line=number, column=column
    )


def _comment_of(number: int, text: str) -> Comment | None:
    """The last ``--comment`` of one ``#SBATCH`` line."""
    found: Comment | None = None
    words = split(text[len("#SBATCH") :])
    for i, (at, word) in enumerate(words):
        option = _COMMENT_OPTION.fullmatch(word)
        if option is None:
            continue
        if option[1] is not None:
            found = Comment(number, _column(text, at + word.index("=") + 1), option[1])
        elif i + 1 < len(words):
            found = Comment(number, _column(text, words[i + 1][0]), words[i + 1][1])
    return found


def _column(text: str, at: int) -> int:
    """Column of the value that starts at ``at`` behind ``#SBATCH``, its quote not counted."""
    at += len("#SBATCH")
    return at + 1 + (text[at : at + 1] in ("'", '"'))


def split(text: str) -> list[tuple[int, str]]:
    """Words of an ``#SBATCH`` line with their offsets, unquoted as sbatch does it."""
    words: list[tuple[int, str]] = []
    i, end = 0, len(text)
    while True:
        while i < end and text[i].isspace():
            i += 1
        if i >= end or text[i] == "#":
            return words
        start, word, quote = i, "", ""
        while i < end and (quote or not (text[i].isspace() or text[i] == "#")):
            ch = text[i]
            if ch == "\\" and i + 1 < end and (quote or not text[i + 1].isspace()):
                i += 1
                word += text[i]
            elif quote and ch == quote:
                quote = ""
            elif not quote and ch in "'\"":
                quote = ch
            else:
                word += ch
            i += 1
        words.append((start, word))
