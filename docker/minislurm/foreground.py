# SPDX-License-Identifier: GPL-2.0-or-later
"""`up --foreground`: stays until told to stop, as a container's first process must."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from . import signals
from .cluster import Cluster
from .errors import InterruptedBySignalError
from .record import load

WATCHED = (*signals.ENDING, signal.SIGCHLD)
LOOK_SECONDS = 2.0


def run(cluster: Cluster, timeout: float, announce: Callable[[bool], None]) -> None:
    """No moment is left in which a signal could end us but not the cluster."""
    with signals.as_errors():
        ready = False
        try:
            started = cluster.up(timeout)
            ready = True
            announce(started)
            signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
        except InterruptedBySignalError:
            cluster.down()
            if ready:
                return
            raise
    told = _stay(cluster)
    with signals.ignored():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
        if told:
            cluster.down()


def _stay(cluster: Cluster) -> bool:
    """Reaps whatever is inherited; True for a signal, False after a `down` elsewhere."""
    while True:
        got = signal.sigtimedwait(WATCHED, LOOK_SECONDS)
        _reap()
        if got is not None and got.si_signo != signal.SIGCHLD:
            return True
        record = load(cluster.layout)
        if record is None or record.phase == "down":
            return False


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
