"""The loop of the live view."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from slurm_ext.daemon.client import ask, ask_if_new
from slurm_ext.daemon.text import printable
from slurm_ext.errors import SlurmExtError

from .keys import Keyboard
from .render import screen
from .view import View, changes, press

ROWS = 500
"""Jobs asked for: more than anybody reads, and little to send for a long queue."""

KEPT_CHANGES = 500


class Feed:
    """Asks the daemon from a thread of its own, so that keys never wait for it."""

    def __init__(self, run_dir: Path, every_s: float) -> None:
        self.run_dir, self.every_s = run_dir, every_s
        self.data: dict[str, Any] = {}
        self.error = self.etag = ""
        self.stream: deque[str] = deque(maxlen=KEPT_CHANGES)
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(0 if not self.data and not self.error else self.every_s):
            self.look()

    def look(self) -> None:
        """Ask once."""
        try:
            etag, fresh = ask_if_new(self.run_dir, f"/v1/status?limit={ROWS}", self.etag)
        except SlurmExtError as error:
            # Another daemon may answer next, and count its cycles anew.
            self.error, self.etag = str(error), ""
            return
        self.error = ""
        if fresh is None:
            return
        at = time.strftime("%H:%M:%S")
        self.stream.extend(f"{at} {line}" for line in changes(self.data, fresh))
        self.data, self.etag = fresh, etag


def watch(run_dir: Path, console: Console, *, every_s: float) -> None:
    """Redraw until ``q``; a daemon that goes away is said so and waited for."""
    feed = Feed(run_dir, every_s)
    threading.Thread(target=feed.run, daemon=True, name="feed").start()
    keyboard = Keyboard(sys.stdin.fileno()) if sys.stdin.isatty() else None
    view, shown = View(), feed.data
    try:
        with (
            keyboard.open() if keyboard else contextlib.nullcontext(),
            Live(console=console, screen=True, auto_refresh=False) as live,
        ):
            while not view.ended:
                shown = shown if view.paused else feed.data
                live.update(_frame(shown, feed, view, console), refresh=True)
                for key in _keys(keyboard, min(0.5, every_s)):
                    view = press(view, key, shown)
    finally:
        feed.stopped.set()


def _keys(keyboard: Keyboard | None, wait_s: float) -> list[str]:
    if keyboard is None:
        time.sleep(wait_s)
        return []
    return keyboard.keys(wait_s)


def _frame(shown: dict[str, Any], feed: Feed, view: View, console: Console) -> Any:
    if feed.error and not shown:
        return Text(printable(feed.error, 400), style="red")
    if feed.error:
        shown = {**shown, "failure": {"at_s": 0, "error": feed.error}}
    return screen(shown, view, width=console.width, height=console.height, stream=feed.stream)


def once(run_dir: Path, console: Console) -> None:
    """Print the view a single time.

    :raises SlurmExtError: no daemon answers.
    """
    data = ask(run_dir, f"/v1/status?limit={ROWS}")
    console.print(screen(data, width=console.width, height=60))
