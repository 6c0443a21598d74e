# SPDX-License-Identifier: GPL-2.0-or-later
"""What can go wrong, each kind with the exit code the command line gives it."""

from __future__ import annotations


class MiniSlurmError(Exception):
    """A start, stop or request failed; the text says what to do."""

    code = 1


class ConflictError(MiniSlurmError):
    """The request does not fit the directory or the cluster that lives in it."""

    code = 2


class MissingProgramsError(MiniSlurmError):
    """A program is not installed; the text is the command that installs it."""

    code = 3


class PortTakenError(MiniSlurmError):
    """Somebody bound one of our ports between the probe and the daemon's own bind."""


class InterruptedBySignalError(MiniSlurmError):
    """SIGINT, SIGTERM or SIGHUP arrived while something was being started."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"interrupted by signal {signum}; everything started was stopped again")
        self.code = 128 + signum
