"""The parent of the process that runs pyslurm: every call has an end, every end a reason.

The child has a process group of its own and dies with us. A call that is not answered in time, in
full and in the agreed form ends the child; the next call starts another one, at most
``MOST_STARTS`` within ``STORM_S``.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_ext.errors import SlurmCommandError, SlurmUnavailableError
from slurm_ext.slurm import native_child
from slurm_ext.slurm.deadline import Deadline
from slurm_ext.slurm.run import environment, escape

MAX_ANSWER = 512 << 20
"""Bytes of one answer: 10,000 jobs are 8 MB; one job may carry a comment of 60 kB."""
STORM_S = 60.0
MOST_STARTS = 3
START_S = 15.0
"""Time for Python, pyslurm and slurm.conf; a missing slurm.conf alone takes libslurm 60 s."""
MEMORY_MIB = 4096
_PIECE = 1 << 20
_HEAD = struct.Struct("!I")
_F_SETPIPE_SZ = 1031
_MAX_SAID = 1 << 20


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """``python``: an interpreter that has pyslurm. ``conf`` empty: Slurm's own slurm.conf.

    ``limit_s``: time for one call. ``memory_mib``: bound on the child's address space.
    """

    python: str
    conf: str = ""
    limit_s: float = 20.0
    memory_mib: int = MEMORY_MIB


class Child:
    """Calls into pyslurm. Not for use by several threads."""

    def __init__(
        self,
        options: ChildOptions,
        environ: Mapping[str, str] | None = None,
        deadline: Deadline | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``environ``: what the child's few variables are taken from."""
        self.options = options
        self._deadline = deadline or Deadline()
        self._environ = environment(environ)
        if options.conf:
            self._environ["SLURM_CONF"] = options.conf
        self._clock = clock
        self._starts: deque[float] = deque(maxlen=MOST_STARTS)
        self._process: subprocess.Popen[bytes] | None = None
        self._pipes: list[int] = []  # where requests go, where answers come from
        self._said = -1
        self._number = 0
        self._version = ""

    def __del__(self) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Of the child that runs, if one does."""
        return self._process.pid if self._process else None

    def close(self) -> None:
        """End the child."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            process.wait()
        if self._said >= 0:
            os.close(self._said)
            self._said = -1

    def version(self) -> tuple[int, ...]:
        """pyslurm's release; starts the child if it does not run.

        :raises SlurmUnavailableError: it cannot be started.
        """
        if self._process is None:
            self._start()
        return tuple(int(part) for part in self._version.split(".") if part.isdecimal())

    def ask(self, do: str, *, limit_s: float | None = None, **values: Any) -> list[str]:
        """The rows of one answer, as lines of JSON (see :mod:`slurm_ext.slurm.native_child`).

        :raises SlurmUnavailableError: no answer in time, or Slurm cannot be asked.
        :raises SlurmCommandError: Slurm refused, or pyslurm raised.
        """
        self.version()
        limit = self.options.limit_s if limit_s is None else limit_s
        head, rows = self._call(do, values, limit)
        error = head.get("error")
        if error:
            raise _refused(do, error)
        return rows

    def _start(self) -> None:
        now = self._clock()
        if len(self._starts) == MOST_STARTS and now - self._starts[0] < STORM_S:
            raise SlurmUnavailableError(
                f"pyslurm was started {MOST_STARTS} times within a minute; not again for "
                f"{STORM_S - (now - self._starts[0]):.0f} s"
            )
        self._starts.append(now)
        python = shutil.which(self.options.python, path=self._environ["PATH"])
        if python is None:
            raise SlurmUnavailableError(
                f"{self.options.python}: not found; set slurm.native_python to a Python that has "
                "pyslurm"
            )
        self._said = os.memfd_create("slurm_ext")
        fcntl.fcntl(self._said, fcntl.F_SETFL, os.O_APPEND)
        # It must not outlive us: a change sent after a recovery would stand for ever.
        setpriv = shutil.which("setpriv", path=self._environ["PATH"])
        argv = [
            *([setpriv, "--pdeathsig", "KILL"] if setpriv else []),
            python, "-I", str(Path(native_child.__file__)), str(self.options.memory_mib),
        ]  # fmt: skip
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said,
                env=self._environ, start_new_session=True, bufsize=0, cwd="/",
            )  # fmt: skip
        except OSError as error:
            raise SlurmUnavailableError(f"{python}: cannot be started: {error}") from error
        ends = (self._process.stdin, self._process.stdout)
        self._pipes = [end.fileno() for end in ends if end is not None]
        for pipe in self._pipes:
            os.set_blocking(pipe, False)
            with contextlib.suppress(OSError):
                fcntl.fcntl(pipe, _F_SETPIPE_SZ, _PIECE)
        head, _ = self._call("start", {"conf": self.options.conf}, START_S)
        if head.get("error"):
            self.close()
            raise _not_started(self.options.python, head["error"])
        self._version = str(head.get("version", ""))

    def _call(self, do: str, values: Mapping[str, Any], limit_s: float) -> tuple[Any, list[str]]:
        self._number += 1
        request = native_child.dump({"id": self._number, "do": do, **values}).encode("ascii")
        limit_s = self._deadline.left(limit_s)
        deadline = time.monotonic() + limit_s
        os.ftruncate(self._said, 0)
        try:
            self._write(_HEAD.pack(len(request)) + request, deadline)
            (size,) = _HEAD.unpack(self._read(_HEAD.size, deadline))
            if size > MAX_ANSWER:
                raise _Broken(f"announces an answer of {size >> 20} MiB")
            head, rows = _parsed(self._read(size, deadline), self._number)
        except _Late:
            self.close()
            raise SlurmUnavailableError(
                f"pyslurm {do}: no answer within {limit_s:.3g} s, its process was ended; slurmctld "
                "or munged is stopped or overloaded: `scontrol ping`, `munge -n | unmunge`, `sdiag`"
            ) from None
        except (_Broken, OSError) as error:
            said = self._last_words()
            process = self._process
            with contextlib.suppress(subprocess.TimeoutExpired):
                process and process.wait(0.5)
            fate = _fate(process.returncode if process else None)
            self.close()
            raise SlurmUnavailableError(f"pyslurm {do}: its process {error}{fate}{said}") from None
        if os.fstat(self._said).st_size > _MAX_SAID:
            os.ftruncate(self._said, 0)
        return head, rows

    def _write(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            pipe = self._ready(select.POLLOUT, deadline)
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(pipe, view[:_PIECE]) :]

    def _read(self, size: int, deadline: float) -> bytes:
        pieces: list[bytes] = []
        left = size
        while left:
            pipe = self._ready(select.POLLIN, deadline)
            with contextlib.suppress(BlockingIOError):
                piece = os.read(pipe, min(left, _PIECE))
                if not piece:
                    raise _Broken("ended in the middle of an answer" if pieces else "ended")
                pieces.append(piece)
                left -= len(piece)
        return b"".join(pieces)

    def _ready(self, what: int, deadline: float) -> int:
        pipe = self._pipes[what == select.POLLIN]
        poller = select.poll()
        poller.register(pipe, what)
        left = deadline - time.monotonic()
        if left <= 0 or not poller.poll(left * 1000):
            raise _Late
        return pipe

    def _last_words(self) -> str:
        """The last line of what the child or libslurm printed."""
        size = os.fstat(self._said).st_size
        tail = os.pread(self._said, 2000, max(size - 2000, 0)).decode("utf-8", "replace")
        lines = [line for line in tail.splitlines() if line.strip()]
        return f": {escape(lines[-1], 300)}" if lines else ""


class _Late(Exception):
    """The deadline has passed."""


class _Broken(Exception):
    """The child has ended, or does not keep to the agreed form."""


def _parsed(answer: bytes, number: int) -> tuple[dict[str, Any], list[str]]:
    try:
        first, *rows = answer.decode("ascii").split("\n")
        head = json.loads(first)
    except (ValueError, RecursionError):
        raise _Broken("sent what is no JSON") from None
    if not isinstance(head, dict) or head.get("id") != number:
        raise _Broken("answers another question")
    return head, rows


def _fate(code: int | None) -> str:
    if code is None:
        return ""
    if code < 0:
        return f" (killed by {signal.Signals(-code).name})"
    return f" (exit status {code})"


UNREACHABLE = frozenset({1000, 1001, 1002, 1007, 1800, 1801, 1802, 1803, 5004, -1})
"""Error numbers (slurm_errno.h) that say that nobody answered, or nobody believed us."""


def unreachable(number: Any) -> bool:
    """Whether Slurm could not be asked at all."""
    return number in UNREACHABLE or (isinstance(number, int) and 1800 <= number < 1900)


def _refused(do: str, error: Any) -> SlurmUnavailableError | SlurmCommandError:
    number, said = error if isinstance(error, list) and len(error) == 2 else (None, error)
    text = f"pyslurm {do}: {escape(str(said), 300)}"
    if unreachable(number):
        return SlurmUnavailableError(f"{text} ({number}); is slurmctld running? `scontrol ping`")
    return SlurmCommandError(text if number is None else f"{text} ({number})")


def _not_started(python: str, error: Any) -> SlurmUnavailableError:
    said = str(error[1]) if isinstance(error, list) and len(error) == 2 else str(error)
    if said.startswith("ModuleNotFoundError"):
        return SlurmUnavailableError(
            f"{python} has no pyslurm; install the release of your Slurm for it, or set "
            "slurm.native_python to a Python that has it"
        )
    return SlurmUnavailableError(f"pyslurm cannot be used by {python}: {escape(said, 300)}")
