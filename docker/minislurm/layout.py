# SPDX-License-Identifier: GPL-2.0-or-later
"""Where everything of one cluster lies, and whether a directory may be used for it."""

from __future__ import annotations

import fcntl
import re
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import ConflictError

SOCKET_PATH_LIMIT = 107
"""sun_path of a Unix socket; longer ones are cut off silently by some daemons."""


class Layout:
    """The paths under one directory."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).resolve()
        self.marker = self.root / ".minislurm"
        self.lock = self.root / ".lock"
        self.record = self.root / "cluster.json"
        self.etc = self.root / "etc"
        self.conf = self.etc / "slurm.conf"
        self.my_cnf = self.etc / "my.cnf"
        self.init_sql = self.etc / "init.sql"
        self.run = self.root / "run"
        self.log = self.root / "log"
        self.dev = self.root / "dev"
        self.spool = self.root / "spool"
        self.state = self.root / "state"
        self.database = self.root / "db"
        self.munge_key = self.etc / "munge.key"
        self.jwt_key = self.etc / "jwt.key"
        self.rest = self.root / "rest"
        self.rest_socket = self.rest / "slurmrestd.sock"
        self.munge_socket = self.run / "munge.sock"
        self.database_socket = self.run / "mysql.sock"

    @property
    def is_ours(self) -> bool:
        return self.marker.is_file()

    def check_name(self, longest_node: str) -> None:
        """Refuses paths that slurm.conf cannot hold or that are too long for a socket."""
        if not re.fullmatch(r"[\w./+-]+", str(self.root)):
            raise ConflictError(f"{self.root}: slurm.conf takes only letters, digits and ./+-_")
        step = self.spool / longest_node / f"{longest_node}_4294967295.4294967295"
        too_long = len(str(step)) - SOCKET_PATH_LIMIT
        if too_long > 0:
            raise ConflictError(
                f"{self.root}: {too_long} characters too long for Slurm's step sockets; "
                "take a shorter --dir, such as /tmp/ms-1"
            )

    def check_reachable(self) -> None:
        """Ordinary users must be able to read slurm.conf and reach the munge socket."""
        for parent in self.root.parents:
            if parent.exists() and not parent.stat().st_mode & stat.S_IXOTH:
                raise ConflictError(
                    f"{parent} is closed to other users, so --users cannot reach "
                    f"the cluster: chmod o+x {parent}, or take a --dir under /tmp"
                )

    def create(self) -> None:
        if not self.is_ours and self.root.exists() and any(self.root.iterdir()):
            raise ConflictError(
                f"{self.root} is not empty and was not made by minislurm: take another --dir"
            )
        for path in (self.root, self.etc, self.run, self.log, self.dev, self.spool, self.state):
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
            path.chmod(0o755)
        self.marker.touch()

    def purge(self) -> None:
        if not self.root.exists():
            return
        if not self.is_ours:
            raise ConflictError(
                f"{self.root} was not made by minislurm (no {self.marker.name}): not deleted"
            )
        shutil.rmtree(self.root)

    @contextmanager
    def locked(self, timeout: float = 120.0) -> Iterator[None]:
        """One verb at a time changes the cluster."""
        with self.lock.open("w") as handle:
            deadline = time.monotonic() + timeout
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise ConflictError(
                            f"another minislurm works on {self.root} since "
                            f"{timeout:.0f} s: wait for it or end it"
                        ) from None
                    time.sleep(0.1)
            yield
