# SPDX-License-Identifier: GPL-2.0-or-later
"""`up --foreground`: stays until told to stop, as a container's first process must."""

from __future__ import annotations

import os
import signal

from .cluster import Cluster
from .record import load

WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
LOOK_SECONDS = 2.0


def stay(cluster: Cluster) -> None:
    """Reaps whatever is inherited; SIGTERM or SIGINT (or a `down` elsewhere) ends it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    try:
        while True:
            got = signal.sigtimedwait(WATCHED, LOOK_SECONDS)
            _reap()
            if got is not None and got.si_signo != signal.SIGCHLD:
                break
            record = load(cluster.layout)
            if record is None or record.phase == "down":
                return
    finally:
        # Handlers first: a second SIGTERM must not cut the clean-up short.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
    cluster.down()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
