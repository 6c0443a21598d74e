"""The loop of the live view."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from slurm_ext.daemon.client import ask
from slurm_ext.daemon.text import printable
from slurm_ext.errors import SlurmExtError

from .render import screen

ROWS = 200
"""Jobs asked for: more than any terminal shows, and little to send for a long queue."""


def watch(run_dir: Path, console: Console, *, every_s: float) -> None:
    """Redraw until interrupted; a daemon that goes away is said so and waited for."""
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                data = ask(run_dir, f"/v1/status?limit={ROWS}")
                view = screen(data, width=console.width, height=console.height)
                live.update(view, refresh=True)
            except SlurmExtError as error:
                live.update(Text(printable(str(error), 400), style="red"), refresh=True)
            time.sleep(every_s)


def once(run_dir: Path, console: Console) -> None:
    """Print the view a single time.

    :raises SlurmExtError: no daemon answers.
    """
    console.print(screen(ask(run_dir, f"/v1/status?limit={ROWS}"), width=console.width, height=60))
