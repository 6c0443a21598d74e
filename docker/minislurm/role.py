# SPDX-License-Identifier: GPL-2.0-or-later
"""`role`: one part of a cluster whose parts are hosts of their own; a container's first process."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from . import accounting, bringup, daemons, programs, signals, teardown
from .errors import InterruptedBySignalError, MiniSlurmError
from .hosts import DATABASE, FIXED_PORTS, apart, short_hostname
from .layout import Layout
from .proc import stop
from .record import Record
from .spec import Spec

ROLES = ("controller", "database", "node", "client")
WATCHED = (*signals.ENDING, signal.SIGCHLD)
LOOK_SECONDS = 2.0

Say = Callable[[str], None]


def run(
    root: Path,
    role: str,
    shared: Path,
    spec: Spec,
    timeout: float,
    say: Say,
    command: Sequence[str],
) -> int:
    """Start the daemons of a role and stay until a signal, or until one of them has ended.

    ``shared``: a directory all hosts see; the controller puts the cluster's key there.
    ``command`` runs beside the daemons (role client); its end is ours.
    """
    deadline = time.monotonic() + timeout
    layout = Layout(root)
    layout.create()
    daemons.raise_limits()
    record = Record(spec, programs.slurm_version(), FIXED_PORTS)
    _share_key(layout, shared, makes=role == "controller", deadline=deadline)
    child: subprocess.Popen[bytes] | None = None
    with signals.as_errors():
        try:
            bringup.write_files(layout, record, apart())
            _start(layout, record, role, deadline)
            say(f"{role} is up")
            if command:
                child = subprocess.Popen(command, env={**os.environ, **_client_env(layout)})
            signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
        except InterruptedBySignalError:
            teardown.sweep(layout)
            raise
    code = _stay(record, child, say)
    with signals.ignored():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
        stop(list(reversed(record.daemons.values())), 10.0)
    return code


def ready(root: Path, role: str) -> bool:
    """What a health check asks."""
    layout = Layout(root)
    env = daemons.environment(layout)
    if role == "database":
        return (
            programs.call("sacctmgr", "-n", "show", "cluster", env=env, timeout=8).returncode == 0
        )
    if role == "controller":
        return programs.call("scontrol", "ping", env=env, timeout=8).returncode == 0
    if role == "node":
        shown = programs.call(
            "sinfo", "-h", "-n", short_hostname(), "-o", "%t", env=env, timeout=8
        ).stdout.split()
        return bool(shown) and shown[0] in ("idle", "mix", "alloc", "resv", "comp")
    return daemons.accepts_unix(layout.munge_socket)


def _client_env(layout: Layout) -> dict[str, str]:
    return {"SLURM_CONF": str(layout.conf)}


def _share_key(layout: Layout, shared: Path, *, makes: bool, deadline: float) -> None:
    common = shared / "munge.key"
    if makes and not common.exists():
        bringup.make_key(layout)
        fresh = shared / ".munge.key.new"
        shutil.copyfile(layout.munge_key, fresh)
        fresh.chmod(0o400)
        fresh.rename(common)
    while not common.exists():
        if time.monotonic() > deadline:
            raise MiniSlurmError(f"{common}: the controller has put no key there")
        time.sleep(0.2)
    layout.munge_key.unlink(missing_ok=True)
    shutil.copyfile(common, layout.munge_key)
    layout.munge_key.chmod(0o400)


def _start(layout: Layout, record: Record, role: str, deadline: float) -> None:
    bringup.start_munged(layout, record, deadline)
    spec = record.spec
    if spec.users or spec.operator:
        accounting.create_unix_users(spec, deadline)
    if role == "database":
        bringup.start_mariadb(layout, record, deadline)
        bringup.start_slurmdbd(layout, record, deadline)
        accounting.register(layout, spec)
    elif role == "controller":
        if spec.accounting:
            _await_port(DATABASE, record.ports.slurmdbd, deadline)
        bringup.start_slurmctld(layout, record, deadline)
    elif role == "node":
        bringup.start_nodes(layout, record, [short_hostname()])


def _await_port(host: str, port: int, deadline: float) -> None:
    while True:
        try:
            socket.create_connection((host, port), timeout=2).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise MiniSlurmError(f"{host}:{port} does not answer: {error}") from None
            time.sleep(0.3)


def _stay(record: Record, child: subprocess.Popen[bytes] | None, say: Say) -> int:
    """Until a signal (0), the end of the command (its code) or of a daemon (1)."""
    while True:
        got = signal.sigtimedwait(WATCHED, LOOK_SECONDS)
        if child is not None and child.poll() is not None:
            return child.returncode
        _reap(child)
        if got is not None and got.si_signo != signal.SIGCHLD:
            if child is not None:
                child.terminate()
                child.wait(60)
            return 0
        if record.dead:
            say(f"{record.dead[0]} has ended")
            return 1


def _reap(child: subprocess.Popen[bytes] | None) -> None:
    """First processes inherit others' children; our own is waited for by `poll`."""
    while True:
        try:
            waiting = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if waiting is None or (child is not None and waiting.si_pid == child.pid):
            return
        os.waitpid(waiting.si_pid, 0)
