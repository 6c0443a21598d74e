"""The admin socket: verbs, bad bodies, rights."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.daemon.admin_socket import SOCKET_NAME, Admin
from slurm_ext.daemon.client import listens, tell
from slurm_ext.daemon.httpd import Ask
from slurm_ext.daemon.journal import Journal
from slurm_ext.errors import ConfigError, SlurmExtError


class Rig:
    """An admin socket with counters instead of a daemon."""

    def __init__(self, directory: Path) -> None:
        self.run_dir = directory
        self.reloads = self.wakes = 0
        self.problems: list[str] = []
        self.admin = Admin(directory / "journal.db", self._check, self._reload, self._wake)
        Journal(directory / "journal.db").close()

    def _check(self) -> None:
        if self.problems:
            raise ConfigError(self.problems)

    def _reload(self) -> None:
        self.reloads += 1

    def _wake(self) -> None:
        self.wakes += 1

    def paused(self, now_s: int = 0) -> bool:
        with Journal.open_readonly(self.run_dir / "journal.db") as journal:
            return journal.paused(now_s) is not None


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    found = Rig(tmp_path)
    with found.admin.server(tmp_path):
        yield found


def test_pause_and_resume_stand_in_the_journal_and_wake_the_daemon(rig: Rig) -> None:
    assert tell(rig.run_dir, "pause", {"why": "works"}) == "paused"
    assert rig.paused()
    tell(rig.run_dir, "resume")
    assert not rig.paused()
    assert rig.wakes == 2


def test_reload_is_asked_for_only_with_a_sound_configuration(rig: Rig) -> None:
    rig.problems = ["a.toml: mode: must be observe, order or enforce"]
    with pytest.raises(SlurmExtError, match=r"a\.toml: mode"):
        tell(rig.run_dir, "reload")
    assert rig.reloads == 0
    rig.problems = []
    tell(rig.run_dir, "reload")
    assert rig.reloads == 1


def test_cycle_wakes_the_daemon(rig: Rig) -> None:
    tell(rig.run_dir, "cycle")
    assert rig.wakes == 1


@pytest.mark.parametrize(
    "body",
    [b"nonsense", b"[]", b'{"hours": "2"}', b'{"hours": -1}', b'{"hours": 1e9}', b'{"why": 3}',
     b'{"hours": true}', b"[" * 60_000],
)  # fmt: skip
def test_a_bad_body_is_refused_and_nothing_happens(rig: Rig, body: bytes) -> None:
    left, right = socket.socketpair(socket.AF_UNIX)
    with left, right:
        reply = rig.admin.answer(Ask("POST", "/v1/pause", body, "", left))
    assert reply.status == 400
    assert json.loads(reply.body)["error"]
    assert not rig.paused()


def test_unknown_verbs_and_get_are_refused(rig: Rig) -> None:
    with pytest.raises(SlurmExtError, match="verbs: /v1/pause"):
        tell(rig.run_dir, "destroy")
    left, right = socket.socketpair(socket.AF_UNIX)
    with left, right:
        assert rig.admin.answer(Ask("GET", "/v1/pause", b"", "", left)).status == 405


def test_only_the_daemons_user_may_open_it(rig: Rig) -> None:
    assert (rig.run_dir / SOCKET_NAME).stat().st_mode & 0o777 == 0o600


def test_without_a_daemon_nobody_listens(tmp_path: Path) -> None:
    assert not listens(tmp_path)
    with pytest.raises(SlurmExtError, match="slurm-ext serve"):
        tell(tmp_path, "cycle")
