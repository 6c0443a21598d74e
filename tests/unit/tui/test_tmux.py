"""The live view in a real terminal: tmux types the keys and reads the screen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.daemon.publish import Publisher

from .common import data

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")


class Terminal:
    """A terminal of 100 x 30 in a tmux server of its own."""

    def __init__(self, directory: Path, command: str) -> None:
        self._socket = str(directory / "tmux.sock")
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", command)

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words], capture_output=True, text=True, check=False,
            env={**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        return done.stdout

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def wait(self, text: str, *, gone: bool = False) -> str:
        """The screen once it shows the text (or no longer does)."""
        ends_s = time.monotonic() + 20
        while time.monotonic() < ends_s:
            screen = self._tmux("capture-pane", "-p")
            if (text in screen) != gone:
                return screen
            time.sleep(0.1)
        raise AssertionError(f"{text!r} {'still' if gone else 'not'} shown:\n{screen}")

    def alive(self) -> bool:
        return bool(self._tmux("list-sessions"))

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    config = tmp_path / "c.toml"
    config.write_text(f'[state]\ndir = "{tmp_path}"\nrun_dir = "{tmp_path}"\n')
    snapshot = data(name="train\x1b[31m")
    with Publisher(tmp_path) as publisher:
        publisher.publish(lambda: snapshot, 1, {})
        found = Terminal(
            tmp_path, f"{sys.executable} -m slurm_ext top --every 0.3 --config {config}"
        )
        yield found
        found.close()


def test_pages_job_filter_and_quit(terminal: Terminal) -> None:
    terminal.wait("n1 ■■○○○○○○")
    terminal.press("Down", "Enter")
    assert "train\\x1b[31m" in terminal.wait("job 2  ")
    terminal.press("Escape")
    terminal.press("3")
    terminal.wait("NODE")
    terminal.press("2", "/")
    terminal.wait("filter:")
    terminal.press("fits", "Enter")
    screen = terminal.wait("filter:", gone=True)
    assert "fits now on n1" in screen
    assert "  wait  " not in screen
    terminal.press("q")
    ends_s = time.monotonic() + 20
    while terminal.alive():
        assert time.monotonic() < ends_s, "q does not end it"
        time.sleep(0.1)
