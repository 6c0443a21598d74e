"""One daemon a state directory, and the sign of life that job_submit.lua reads.

The lock is flock(2) on an open file: the kernel drops it when the holder dies, however it
dies, so there are no stale locks. The text inside only tells others who holds it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from slurm_ext.errors import LockedError, SlurmExtError
from slurm_ext.model.units import EpochS

from .text import printable

_MAX_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the lock, by its own account."""

    pid: int
    host: str
    started_s: EpochS
    cluster: str

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.started_s, UTC).isoformat(timespec="seconds")
        cluster = f", for cluster {printable(self.cluster, 80)}" if self.cluster else ""
        return f"process {self.pid} on {printable(self.host, 80)}, since {since}{cluster}"


class DaemonLock:
    """The lock; held from construction until :meth:`release` or the end of the process.

    Not for use across fork(): a child shares the lock with its parent.
    """

    def __init__(self, path: Path, *, cluster: str, now_s: EpochS) -> None:
        """Take the lock without waiting.

        :raises LockedError: another process holds it; the message names it.
        :raises SlurmExtError: the file cannot be created.
        """
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._fd = os.open(path, flags, 0o644)
        except OSError as error:
            raise SlurmExtError(
                f"{printable(str(path))}: cannot be locked: {error.strerror}; "
                "create the directory, writable by the daemon's user"
            ) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise _refusal(path, error) from error
        self._sign(Holder(os.getpid(), socket.gethostname(), now_s, cluster))

    @classmethod
    def without_writing(cls, path: Path) -> Self | None:
        """The lock on a disk that can only be read; None if there is no lock file to hold.

        :raises LockedError: another process holds it.
        """
        self = cls.__new__(cls)
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise _refusal(path, error) from error
        return self

    def _sign(self, holder: Holder) -> None:
        signed = {name: getattr(holder, name) for name in Holder.__slots__}
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, json.dumps(signed).encode() + b"\n", 0)
        except OSError:
            # A full disk must not keep the daemon down; the lock itself is held.
            pass

    def release(self) -> None:
        """Give the lock up. The file stays: removing it would let two daemons lock two files."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _refusal(path: Path, error: OSError) -> SlurmExtError:
    name = printable(str(path))
    if not isinstance(error, BlockingIOError):
        return SlurmExtError(
            f"{name}: cannot be locked: {error.strerror}; state.dir must be on a local disk"
        )
    holder = read_holder(path)
    who = str(holder) if holder else "a process that has not signed yet"
    return LockedError(f"{name}: held by {who}; stop that daemon, or name another state.dir")


def read_holder(path: Path) -> Holder | None:
    """What the lock file says. It may be out of date: only trying the lock tells the truth."""
    try:
        with path.open("rb") as stream:
            said = json.loads(stream.read(_MAX_BYTES))
        holder = Holder(
            int(said["pid"]), str(said["host"]), int(said["started_s"]), str(said["cluster"])
        )
        str(holder)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return holder


@dataclass(frozen=True, slots=True)
class Beat:
    """One sign of life: when, and how long until the next is due."""

    at_s: EpochS
    interval_s: int

    def fresh(self, now_s: EpochS, missed: int = 3) -> bool:
        """Whether the daemon may be taken for alive: not older than ``missed`` intervals.

        A beat from the future beyond one interval (a clock was set back) is not fresh.
        """
        return -self.interval_s <= now_s - self.at_s <= missed * self.interval_s


class Heartbeat:
    """Writes ``<epoch seconds> <interval seconds> <partitions>\\n`` to a file, whole or not at all.

    The partitions, comma-separated, are those whose new jobs job_submit.lua shall stamp.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last_s = 0

    def beat(self, now_s: EpochS, interval_s: float, partitions: Iterable[str] = ()) -> None:
        """Replace the file. Times do not go back, unless the clock did by over an interval.

        Following a clock that was set far back matters: a beat from the future would pass
        for life long after the daemon's death.

        :raises OSError: the file cannot be written.
        """
        interval = max(1, -int(-interval_s // 1))
        if now_s < self._last_s <= now_s + interval:
            now_s = self._last_s
        draft = self.path.with_name(f".{self.path.name}.new")
        # slurmctld, another user, reads it: 0644 whatever the umask.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(draft, flags, 0o644)
        try:
            os.fchmod(fd, 0o644)
            words = [str(now_s), str(interval), ",".join(partitions)]
            os.write(fd, " ".join(filter(None, words)).encode() + b"\n")
        finally:
            os.close(fd)
        os.replace(draft, self.path)
        self._last_s = now_s

    def stop(self) -> None:
        """Remove the file on an orderly end, so that nobody waits for beats."""
        self.path.unlink(missing_ok=True)


def read_heartbeat(path: Path) -> Beat | None:
    """The last beat, or None if there is none or the file is damaged."""
    try:
        with path.open("rb") as stream:
            at, interval = stream.read(_MAX_BYTES).split(maxsplit=2)[:2]
        beat = Beat(int(at), int(interval))
    except (OSError, ValueError):
        return None
    return beat if 0 < beat.interval_s < 1 << 31 else None
