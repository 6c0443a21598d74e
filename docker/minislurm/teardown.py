# SPDX-License-Identifier: GPL-2.0-or-later
"""`down`: gently as long as the controller answers, then until nothing is left."""

from __future__ import annotations

import signal
import time

from . import daemons, proc, programs
from .errors import MiniSlurmError
from .layout import Layout
from .record import NODE, Record, load

STOP_SECONDS = 15.0
NOTE_SECONDS = 3.0
JOB_SECONDS = 0.1
"""Cancelling 400 running jobs on 500 nodes took 19 s on two cores: twice that a job."""


def take_down(layout: Layout, grace: float = 10.0) -> None:
    """Works on whatever is there: half started, partly killed, or nothing at all."""
    record = load(layout)
    if grace > 0 and record is not None and _controller_lives(record):
        cancel_jobs(layout, grace)
    proc.signal_all(proc.jobs_of(layout.root), signal.SIGKILL)
    if record is not None:
        _stop_daemons(record)
    sweep(layout)
    for path in layout.run.glob("*"):
        path.unlink(missing_ok=True)
    if record is not None:
        record.daemons.clear()
        record.phase = "down"
        record.save(layout)


def _controller_lives(record: Record) -> bool:
    """A stopped controller would only make every client wait for its time-out."""
    needed = [record.daemons.get(name) for name in ("munged", "slurmctld")]
    return all(process and process.state not in ("", "T") for process in needed)


def cancel_jobs(layout: Layout, grace: float) -> None:
    """Those that ignore it are killed after the grace; the controller may still note their end."""
    env = daemons.environment(layout)
    jobs = _count_jobs(env)
    cancel_all(env, jobs, grace)
    if not _jobs_ended(env, grace):
        proc.signal_all(proc.jobs_of(layout.root), signal.SIGKILL)
        _jobs_ended(env, min(grace, NOTE_SECONDS))


def cancel_all(env: dict[str, str], jobs: int, grace: float) -> None:
    """Pending ones first, else they would start in the room that the others leave."""
    for state in ("PENDING", "SUSPENDED", "RUNNING"):
        programs.call("scancel", f"--state={state}", env=env, timeout=grace + jobs * JOB_SECONDS)


def _count_jobs(env: dict[str, str]) -> int:
    """-1 if the controller does not answer."""
    done = programs.call("squeue", "-h", "-t", "PD,R,S,CG", "-o", "%A", env=env, timeout=20.0)
    return -1 if done.returncode else len(done.stdout.splitlines())


def _jobs_ended(env: dict[str, str], grace: float) -> bool:
    """Waits as long as their number falls, at most `grace` seconds for the next to go."""
    before = left = _count_jobs(env)
    deadline = time.monotonic() + grace
    while left > 0 and time.monotonic() < deadline:
        time.sleep(0.1)
        left = _count_jobs(env)
        if left < before:
            before, deadline = left, time.monotonic() + grace
    return left <= 0


def _stop_daemons(record: Record) -> None:
    """First those that write, then what they write to; munged last, for all of them use it."""
    nodes = [process for name, process in record.daemons.items() if name.startswith(NODE)]
    proc.signal_all(nodes, signal.SIGTERM)
    _stop(record, "slurmrestd")
    _stop(record, "slurmctld")
    # One that tries to report a job to the controller, which is gone, would try for 10 s.
    proc.stop(nodes, NOTE_SECONDS)
    for name in ("slurmdbd", "mariadb", "munged"):
        _stop(record, name)


def _stop(record: Record, name: str) -> None:
    if name in record.daemons:
        proc.stop([record.daemons[name]], STOP_SECONDS)


def sweep(layout: Layout, timeout: float = 20.0) -> None:
    """Ends every process that belongs to the directory; looks again, for those just forked."""
    deadline = time.monotonic() + timeout
    gently = True
    while left := [one.process for one in proc.belonging_to(layout.root)]:
        if time.monotonic() > deadline:
            pids = ", ".join(str(process.pid) for process in left)
            raise MiniSlurmError(f"processes that do not end even by SIGKILL: {pids}")
        if gently:
            proc.signal_all(left, signal.SIGTERM)
            proc.signal_all(left, signal.SIGCONT)
            left = proc.wait_gone(left, 1.0)
            gently = False
        proc.signal_all(left, signal.SIGKILL)
        proc.wait_gone(left, 2.0)
