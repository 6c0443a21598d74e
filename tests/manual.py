"""The ``slurm-ext`` commands that the manual shows, as words."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from slurm_ext.cli import submit
from slurm_ext.cli.common import parse_overrides
from slurm_ext.cli.main import build_parser
from slurm_ext.daemon.config import load

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
ENDS = {"|", "&&", "||", ";", "&", ">", ">>", "<"}
WRAPPERS = {"sudo", "watch", "time"}


def shell_lines(page: str) -> list[str]:
    """What a page shows as shell: lines of ``sh`` blocks, joined where they go on, and `inline`."""
    lines = []
    for language, block in FENCE.findall(page):
        if language == "sh":
            lines += block.replace("\\\n", " ").splitlines()
    return lines + INLINE.findall(FENCE.sub("", page))


def commands(lines: list[str]) -> list[tuple[str, ...]]:
    """Arguments of each ``slurm-ext`` call in these lines, in order, each once."""
    found: dict[tuple[str, ...], None] = {}
    for line in lines:
        if "slurm-ext " not in line:
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # prose with an apostrophe
            continue
        for part in _split(words):
            while part and (part[0] in WRAPPERS or re.fullmatch(r"[A-Z_]+=.*", part[0])):
                part = part[1:]
            if len(part) > 1 and part[0].rpartition("/")[2] == "slurm-ext":
                found[tuple(part[1:])] = None
    return list(found)


def _split(words: list[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    target = False  # of a redirection: no argument
    for word in words:
        if word in ENDS or word in ("(", ")"):
            target = "<" in word or ">" in word
            if not target:
                parts.append([])
        elif not target:
            parts[-1].append(word)
        else:
            target = False
    return parts


def parse(words: tuple[str, ...]) -> None:
    """Parse as ``main`` does, and what ``--set`` gives as the configuration.

    :raises SystemExit: the command line is wrong.
    :raises ConfigError: ``--set`` is.
    """
    args = build_parser().parse_args(submit.shielded(words) if words[0] == "submit" else words)
    if hasattr(args, "config"):
        load(Path("/dev/null"), parse_overrides(args.overrides))


LIVE = (
    "doctor", "plan", "status", "why", "frag", "forecast", "snapshot", "replay", "pause", "resume",
    "reload", "annotate explain", "top --once", "config", "history sync", "history fit",
    "history report", "history predict", "requeue",
)  # fmt: skip
"""How commands begin that can be run on a test cluster. Others need files of the reader's own,
change the host, or run for ever."""


def live_commands(waiting: int, running: int) -> list[tuple[str, ...]]:
    """The manual's commands for a cluster with a daemon, placeholders filled in, in an order that
    works: a snapshot is written before it is read, what stops a job comes last."""
    found = []
    for words in commands([line for path in PAGES for line in shell_lines(path.read_text())]):
        text = " ".join(words)
        named_only = text in ("why", "requeue")
        if "--help" in words or named_only or not text.startswith(LIVE):
            continue
        job = str(running if words[0] in ("requeue", "annotate") else waiting)
        filled = {"JOB": job, "JOBID": job, "FILE": "fault.json.gz"}
        found.append(tuple(filled.get(word, word) for word in words))
    late = ("replay", "pause", "resume", "history fit", "history report", "history predict",
            "requeue")  # fmt: skip
    order = {begin: i for i, begin in enumerate(late, 1)}

    def place(words: tuple[str, ...]) -> int:
        return next((i for begin, i in order.items() if " ".join(words).startswith(begin)), 0)

    return sorted(dict.fromkeys(found), key=place)
