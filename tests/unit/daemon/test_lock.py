"""One daemon a directory, and the heartbeat."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_ext.daemon.lock import (
    Beat,
    DaemonLock,
    Heartbeat,
    Holder,
    read_heartbeat,
    read_holder,
)
from slurm_ext.errors import LockedError, SlurmExtError

NOW = 1_700_000_000


def take(path: Path, cluster: str = "c1") -> DaemonLock:
    return DaemonLock(path, cluster=cluster, now_s=NOW)


def test_the_second_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    message = (
        rf"held by process {os.getpid()} on .*, since 2023-11-14T22:13:20\+00:00, for cluster c1; "
    )
    with take(path), pytest.raises(LockedError, match=message):
        take(path)


def test_released_lock_can_be_taken_again(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    take(path).release()
    with take(path, "other"):
        holder = read_holder(path)
    assert holder is not None
    assert (holder.cluster, holder.started_s, holder.pid) == ("other", NOW, os.getpid())


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    code = (
        "import os, sys, pathlib; from slurm_ext.daemon.lock import DaemonLock;"
        "lock = DaemonLock(pathlib.Path(sys.argv[1]), cluster='c', now_s=1);"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == -9
    with take(path):
        pass


def test_a_shorter_signature_leaves_nothing_of_the_longer_one(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    take(path, "x" * 500).release()
    take(path, "y").release()
    assert b"x" not in path.read_bytes().replace(os.uname().nodename.encode(), b"")


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1]", b'{"pid": 1}', b"\xff", b'{"pid":1e999}', b"[" * 5000]
)
def test_a_lock_file_without_signature_still_refuses(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "daemon.lock"
    with take(path):
        path.write_bytes(data)
        with pytest.raises(LockedError, match="a process that has not signed yet"):
            take(path)


def test_what_the_lock_file_says_is_escaped() -> None:
    assert str(Holder(1, "h\x1b[2J", 0, "c\n")).isprintable()


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("kept")
    (tmp_path / "daemon.lock").symlink_to(target)
    with pytest.raises(SlurmExtError, match="cannot be locked"):
        take(tmp_path / "daemon.lock")
    assert target.read_text() == "kept"


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(SlurmExtError, match="No such file or directory; create the directory"):
        take(tmp_path / "no" / "daemon.lock")


def test_heartbeat_is_one_line_that_everybody_may_read(tmp_path: Path) -> None:
    path = tmp_path / "heartbeat"
    old = os.umask(0o077)
    try:
        Heartbeat(path).beat(NOW, 30.0)
    finally:
        os.umask(old)
    assert path.read_text() == f"{NOW} 30\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == ["heartbeat"]


def test_fractions_of_an_interval_are_rounded_up(tmp_path: Path) -> None:
    path = tmp_path / "heartbeat"
    Heartbeat(path).beat(NOW, 0.5)
    assert read_heartbeat(path) == Beat(NOW, 1)


def test_a_small_step_back_of_the_clock_is_not_shown(tmp_path: Path) -> None:
    heart = Heartbeat(tmp_path / "heartbeat")
    heart.beat(NOW, 30)
    heart.beat(NOW - 5, 30)
    assert read_heartbeat(heart.path) == Beat(NOW, 30)


def test_a_large_step_back_of_the_clock_is_followed(tmp_path: Path) -> None:
    heart = Heartbeat(tmp_path / "heartbeat")
    heart.beat(NOW, 30)
    heart.beat(NOW - 3600, 30)
    assert read_heartbeat(heart.path) == Beat(NOW - 3600, 30)


@pytest.mark.parametrize(
    ("age", "fresh"), [(0, True), (90, True), (91, False), (-30, True), (-31, False)]
)
def test_freshness(age: int, fresh: bool) -> None:
    assert Beat(NOW, 30).fresh(NOW + age) is fresh


@pytest.mark.parametrize("data", [b"", b"1", b"x y", b"\xff \xff", b"1 " + b"9" * 9000])
def test_a_damaged_heartbeat_is_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "heartbeat"
    path.write_bytes(data)
    assert read_heartbeat(path) is None


def test_after_stop_there_is_no_heartbeat(tmp_path: Path) -> None:
    heart = Heartbeat(tmp_path / "heartbeat")
    heart.beat(NOW, 30)
    heart.stop()
    heart.stop()
    assert read_heartbeat(heart.path) is None


def test_enforced_partitions_stand_in_the_line(tmp_path: Path) -> None:
    heart = Heartbeat(tmp_path / "h")
    heart.beat(NOW, 30, ["debug", "gpu"])
    assert heart.path.read_text() == f"{NOW} 30 debug,gpu\n"
    assert read_heartbeat(heart.path) == Beat(NOW, 30)


def test_the_line_is_easy_to_match_from_lua(tmp_path: Path) -> None:
    Heartbeat(tmp_path / "h").beat(NOW, 30)
    assert re.fullmatch(r"[0-9]+ [0-9]+\n", (tmp_path / "h").read_text())
