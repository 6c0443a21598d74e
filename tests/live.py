"""What all tests on a real Slurm share: clusters that go away again, and waits with a deadline."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from minislurm import Cluster, MissingProgramsError, Spec

T = TypeVar("T")
POLL_S = 0.15
MAX_CROWD = 4.0


@contextmanager
def booted(spec: Spec, grace_s: float = 1.0) -> Iterator[Cluster]:
    """A cluster in a directory of its own; gone without a trace afterwards.

    ``grace_s``: what running jobs get to end at the end.
    """
    if os.geteuid() != 0:
        pytest.skip("the mini-Slurm must be started as root")
    base = Path(tempfile.mkdtemp(prefix=f"{spec.name}-", dir="/tmp"))
    base.chmod(0o755)
    cluster = Cluster(base / "c", spec)
    try:
        try:
            cluster.up()
        except MissingProgramsError as error:
            pytest.skip(f"no Slurm on this machine: {error}")
        yield cluster
    finally:
        cluster.down(purge=True, grace=grace_s)
        shutil.rmtree(base, ignore_errors=True)


def crowd() -> float:
    """How much slower than alone everything may be: processes that want a CPU, per CPU."""
    return min(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), MAX_CROWD)


def soon(seconds: float) -> str:
    """sbatch's option for a begin that is still ahead once a whole queue has been submitted."""
    return f"--begin=now+{math.ceil(seconds * crowd())}"


def script_of(run_s: float, until: Path | None) -> str:
    """What a job does: sleep, or run until a file appears."""
    return f"sleep {run_s}" if until is None else f"until [ -e {until} ]; do sleep .2; done"


def wait_until(
    look: Callable[[], T],
    good: Callable[[T], object],
    deadline_s: float,
    what: str,
    evidence: Callable[[], object] = lambda: "",
    *,
    exact: bool = False,
) -> T:
    """The first look that is good; AssertionError with the last one and ``evidence`` otherwise.

    ``deadline_s`` is for a quiet machine and grows with its load; ``exact``: it is itself what
    the test asserts, so it does not.
    """
    begun = time.monotonic()
    while True:
        seen = look()
        if good(seen):
            return seen
        waited_s = time.monotonic() - begun
        if waited_s > deadline_s * (1.0 if exact else crowd()):
            raise AssertionError(
                f"not within {waited_s:.0f} s: {what}; last seen {seen!r}\n{evidence()}"
            )
        time.sleep(POLL_S)


def wait_for(
    look: Callable[[], T],
    deadline_s: float,
    what: str,
    evidence: Callable[[], object] = lambda: "",
    *,
    exact: bool = False,
) -> T:
    """The first look that is true; else as :func:`wait_until`."""
    return wait_until(look, bool, deadline_s, what, evidence, exact=exact)
