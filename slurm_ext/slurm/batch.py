"""One ``scontrol`` process fed with several commands, its answer cut into one part a command.

After each command stands ``show hostnames <mark>``, which scontrol answers by itself with the
mark alone on a line. The mark is random and goes through the pipe only, so no job text can
imitate it.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.slurm.run import Answer, Runner, failure

_PROMPT = "scontrol: "
_PRINTABLE = frozenset(chr(code) for code in range(33, 127)) - frozenset("\"'")


def safe_word(word: str) -> bool:
    """Whether scontrol's stdin passes a word on unchanged.

    It splits at white space, keeps quotes inside values, and its line editor acts on control
    characters: so only printable ASCII without blanks and quotes is safe.
    """
    return bool(word) and _PRINTABLE.issuperset(word)


@dataclass(frozen=True, slots=True)
class Parts:
    """The answers in the order of the commands, and the whole process's answer."""

    texts: tuple[str, ...]
    answer: Answer


def run_batch(
    runner: Runner,
    commands: Sequence[str],
    *,
    options: Sequence[str] = (),
    merge: bool = False,
    timeout_s: float | None = None,
) -> Parts:
    """Run the commands in one process.

    ``merge``: error lines stand in the part of their command. Raises SlurmUnavailableError or
    SlurmCommandError if the process ended before the last command was answered.
    """
    mark = f"m{secrets.token_hex(8)}x"
    script = "".join(
        f"{command}\nshow hostnames {mark}{number}\n" for number, command in enumerate(commands)
    )
    argv = ["scontrol", *options]
    answer = runner.run(argv, stdin=script, merge=merge, timeout_s=timeout_s)
    texts: list[str] = []
    start = 0
    for number, command in enumerate(commands):
        end = answer.stdout.find(f"\n{mark}{number}\n", start)
        if end < 0:
            raise failure([*argv, f"<< {len(commands)} commands"], answer)
        # scontrol repeats each line it reads: leave out the command's and the mark's own.
        echo = f"{_PROMPT}{command}\n"
        begin = start + len(echo) if answer.stdout.startswith(echo, start) else start
        last = answer.stdout.rfind(f"{_PROMPT}show hostnames {mark}", begin, end)
        texts.append(answer.stdout[begin : end if last < 0 else last])
        start = end + len(f"\n{mark}{number}\n")
    return Parts(tuple(texts), answer)
