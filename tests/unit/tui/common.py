"""A snapshot of a small cluster, and what a terminal would show of it."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from slurm_ext.daemon.config import load
from slurm_ext.daemon.runner import Runner
from slurm_ext.daemon.snapshot import snapshot
from slurm_ext.tui.render import screen
from slurm_ext.tui.view import View
from tests.builders import job, node, observation
from tests.fake import FakeSlurm

Plain = dict[str, Any]


def data(**fields: Any) -> Plain:
    """Job 1 starts, job 2 is promised a start, job 4 waits behind it, job 3 runs."""
    now = int(time.time())
    jobs = [
        job(1, gpus=4, submit=now - 90, **fields),
        job(2, gpus=8, submit=now - 80, **fields),
        job(3, on={"n1": 2}, submit=now - 99, **fields),
        job(4, gpus=7, submit=now - 10, **fields),
    ]
    nodes = [node("n1", used=range(2)), node("n2", states=("DOWN",))]
    obs = observation(nodes, jobs, now=now)
    config = load(Path("/dev/null"), {"mode": "enforce", "policy.name": "fifo"})
    return snapshot(Runner(config, FakeSlurm(obs), None, dry_run=True).run(), config)


def shown(
    found: Plain, view: View | None = None, *, width: int = 80, height: int = 24, stream: Any = ()
) -> str:
    """The text on a terminal of that size, without colours."""
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, no_color=True)
    console.print(screen(found, view, width=width, height=height, stream=stream))
    return out.getvalue()
