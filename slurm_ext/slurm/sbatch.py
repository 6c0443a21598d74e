"""sbatch's command line: which word is the script, what --comment says, and starting it.

Options of sbatch(1) of 22.05 to 26.05. Only their shape matters here: whether an option takes the
next word as its value. sbatch reads options up to the first word that is none (getopt with "+").
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_ext.errors import SlurmCommandError

_VALUE = """account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment
    constraint container container-id core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task
    deadline delay-boot dependency distribution error exclude export export-file extra
    extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres
    gres-flags hint input job-name kill-on-invalid-dep licenses mail-type mail-user mcs-label mem
    mem-bind mem-per-cpu mem-per-gpu mincpus network nodefile nodelist nodes ntasks
    ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode output partition
    power prefer priority profile qos reservation segment signal sockets-per-node switches
    thread-spec threads-per-core time time-min tmp tres-bind tres-per-task uid
    wait-all-nodes wckey wrap"""
_FLAGS = """consolidate-segments contiguous exclusive get-user-env help hold ignore-pbs nice no-kill
    no-requeue oom-kill-step overcommit oversubscribe parsable propagate quiet reboot requeue
    spread-job spread-segments stepmgr test-only usage use-min-nodes verbose version wait"""
VALUE = frozenset(_VALUE.split())
"""Long options that take a value, as the next word unless it follows ``=``."""
FLAGS = frozenset(_FLAGS.split())
"""These take no value, or one only after ``=``."""

_SHORT_VALUE = frozenset("AaBbCcDdeFGiJLMmNnopqSTtwx")
MAX_SCRIPT = 8 << 20
"""Bytes read of a script; Slurm's own limit is 4 MiB (max_script_size)."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """``words``: all of them. ``script_at``: index of the script, len(words) if there is none.
    ``options_end``: index where the options end, before a ``--``.

    ``cut``: the last option lacks its value, which sbatch will say.
    ``comments``: where ``--comment`` stands: (index of its first word, number of words, value).
    """

    words: tuple[str, ...]
    script_at: int
    options_end: int
    wrapped: bool = False
    cut: bool = False
    comments: tuple[tuple[int, int, str], ...] = field(default=())

    @property
    def comment(self) -> str | None:
        """The comment that counts: the last one; None if none is given."""
        return self.comments[-1][2] if self.comments else None

    @property
    def script(self) -> str | None:
        """The script's path; None if it is read from standard input, or wrapped."""
        return self.words[self.script_at] if self.script_at < len(self.words) else None

    def with_comment(self, comment: str) -> tuple[str, ...]:
        """The words with this comment in place of their own; all others as they were."""
        if self.cut:
            return self.words
        option = f"--comment={comment}"
        if not self.comments:
            at = self.options_end
            return (*self.words[:at], option, *self.words[at:])
        at, length, _ = self.comments[-1]
        return (*self.words[:at], option, *self.words[at + length :])


def parse(words: Sequence[str]) -> CommandLine:
    """Reads sbatch's words as getopt_long does, abbreviations of long options included."""
    comments: list[tuple[int, int, str]] = []
    wrapped = False
    at = 0
    while at < len(words):
        word = words[at]
        if not word.startswith("-") or word in ("-", "--"):
            break
        length = 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = _long(name)
            if name in VALUE and not equals:
                length = 2
                value = words[at + 1] if at + 1 < len(words) else ""
            if name == "comment":
                comments.append((at, length, value))
            wrapped = wrapped or name == "wrap"
        elif _takes_next(word):
            length = 2
        at += length
    script_at = at + 1 if list(words[at : at + 1]) == ["--"] else min(at, len(words))
    return CommandLine(tuple(words), script_at, at, wrapped, at > len(words), tuple(comments))


def _long(name: str) -> str:
    """The full name of an abbreviated long option; an unknown one stays as it is."""
    if name in VALUE or name in FLAGS:
        return name
    full = [one for one in VALUE | FLAGS if one.startswith(name)]
    return full[0] if len(full) == 1 else name


def _takes_next(word: str) -> bool:
    """Whether the value of the last letter in ``-Hn`` is the next word (``-n4`` has its own)."""
    for i, letter in enumerate(word[1:], 1):
        if letter in _SHORT_VALUE:
            return i == len(word) - 1
        if letter == "k":  # an optional value, only attached
            return False
    return False


def read_script(path: str, *, search: bool = True) -> str | None:
    """Text of a script; None if sbatch is better placed to say what is wrong with it.

    ``search``: as sbatch does, look for a name without a slash here and then in PATH.
    """
    try:
        with (_located(path) if search else Path(path)).open("rb") as file:
            return file.read(MAX_SCRIPT).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return None


def _located(path: str) -> Path:
    here = Path(path)
    if "/" in path or here.is_file():
        return here
    places = (Path(part, path) for part in os.environ.get("PATH", "").split(os.pathsep))
    return next((place for place in places if place.is_file()), here)


def run(words: Sequence[str], stdin: bytes | None = None) -> int:
    """Start sbatch with exactly these words and the caller's environment; its exit code.

    ``stdin``: the script that was read from standard input. Without it this process becomes
    sbatch, and does not return.

    :raises SlurmCommandError: there is no sbatch, or it cannot be started.
    """
    program = shutil.which("sbatch")
    if program is None:
        raise SlurmCommandError("sbatch is not in PATH; install Slurm's client commands")
    try:
        if stdin is None:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, sbatch would, too
            os.execv(program, ["sbatch", *words])
        return subprocess.run([program, *words], input=stdin, check=False).returncode
    except (OSError, ValueError) as error:
        raise SlurmCommandError(f"{program}: cannot be started: {error}") from error
