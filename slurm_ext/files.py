"""Reading a file somebody named, which may be a pipe that nobody writes to."""

from __future__ import annotations

import errno
import os
import select
import time
from pathlib import Path

PIPE_S = 10.0
"""Seconds for all that comes out of a pipe."""


def read_up_to(path: str | Path, limit: int) -> bytes:
    """The first ``limit`` bytes of a file; of a pipe, what comes within :data:`PIPE_S`.

    A pipe without a writer is empty, so that a daemon never waits for one.

    :raises OSError: it cannot be read, or a pipe stays open for too long.
    :raises ValueError: ``path`` is no file name.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        parts, size, ends_s = [], 0, time.monotonic() + PIPE_S
        while size < limit:
            try:
                part = os.read(descriptor, limit - size)
            except BlockingIOError:  # somebody writes, but has nothing yet
                if time.monotonic() >= ends_s:
                    raise OSError(
                        errno.ETIMEDOUT, f"a pipe that did not end in {PIPE_S:g} s"
                    ) from None
                select.select([descriptor], [], [], max(0, ends_s - time.monotonic()))
                continue
            if not part:
                break
            parts.append(part)
            size += len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
