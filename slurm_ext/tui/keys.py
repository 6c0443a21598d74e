"""Keys from a terminal, one at a time, with a deadline."""

from __future__ import annotations

import codecs
import os
import select
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

_SEQUENCES = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1b[5~": "pageup", "\x1b[6~": "pagedown",
    "\x1bOA": "up", "\x1bOB": "down", "\x1b": "escape", "\r": "enter", "\n": "enter",
    "\x7f": "backspace", "\x08": "backspace", "\x03": "ctrl-c",
}  # fmt: skip


def split(text: str) -> list[str]:
    """What was typed as key names; unknown escape sequences are dropped."""
    keys = []
    while text:
        known = next((s for s in sorted(_SEQUENCES, key=len, reverse=True)
                      if len(s) > 1 and text.startswith(s)), None)  # fmt: skip
        if known is not None:
            keys.append(_SEQUENCES[known])
            text = text[len(known) :]
        elif text[0] == "\x1b" and len(text) > 1 and text[1] in "[O":
            end = next((i for i, ch in enumerate(text[2:], 2) if "@" <= ch <= "~"), len(text) - 1)
            text = text[end + 1 :]
        else:
            keys.append(_SEQUENCES.get(text[0], text[0]))
            text = text[1:]
    return keys


class Keyboard:
    """Reads the keys of a terminal in cbreak mode."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    @contextmanager
    def open(self) -> Iterator[None]:
        """Take the terminal out of line mode until the context ends."""
        before = termios.tcgetattr(self._fd)
        try:
            tty.setcbreak(self._fd)
            yield
        finally:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, before)

    def keys(self, wait_s: float) -> list[str]:
        """The keys typed within ``wait_s`` seconds; at once when there are some.

        :raises EOFError: the terminal has gone.
        """
        ready, _, _ = select.select([self._fd], [], [], max(0.0, wait_s))
        if not ready:
            return []
        data = os.read(self._fd, 1024)
        if not data:
            raise EOFError
        return split(self._decode(data))
