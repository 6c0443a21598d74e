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
    for number in range(len(commands)):
        end = answer.stdout.find(f"\n{mark}{number}\n", start)
        if end < 0:
            raise failure([*argv, f"<< {len(commands)} commands"], answer)
        # scontrol repeats each line it reads: drop the mark's own, and the command's.
        part = answer.stdout[start:end]
        part = part[: part.rfind(f"scontrol: show hostnames {mark}")]
        texts.append(part.removeprefix("\n").removeprefix(f"scontrol: {commands[number]}\n"))
        start = end + len(mark) + len(str(number)) + 1
    return Parts(tuple(texts), answer)
