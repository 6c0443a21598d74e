# SPDX-License-Identifier: GPL-2.0-or-later
"""Signals that end a program: turned into an exception once, then kept out of the clean-up."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

from .errors import ConflictError, InterruptedBySignalError

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler = Callable[[int, FrameType | None], None]


def number(name: str) -> signal.Signals:
    try:
        return signal.Signals[f"SIG{name.removeprefix('SIG')}"]
    except KeyError:
        raise ConflictError(f"{name!r} is no signal: write KILL, STOP, CONT, TERM …") from None


def as_errors() -> AbstractContextManager[None]:
    return _handled(_interrupt)


def ignored() -> AbstractContextManager[None]:
    return _handled(_nothing)


def _nothing(signum: int, frame: FrameType | None) -> None:
    """Not SIG_IGN: children would inherit that."""


def _interrupt(signum: int, frame: FrameType | None) -> None:
    for each in ENDING:  # a second one must not interrupt the clean-up after the first
        signal.signal(each, _nothing)
    raise InterruptedBySignalError(signum)


@contextmanager
def _handled(handler: Handler) -> Iterator[None]:
    """Only the main thread can set handlers; elsewhere the signals are not ours."""
    try:
        old = {each: signal.signal(each, handler) for each in ENDING}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        for each, previous in old.items():
            signal.signal(each, previous)
