"""The status socket, its client and the live view."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from slurm_ext.daemon.client import ask
from slurm_ext.daemon.config import load
from slurm_ext.daemon.publish import Publisher
from slurm_ext.daemon.runner import Runner
from slurm_ext.daemon.snapshot import snapshot
from slurm_ext.errors import SlurmExtError
from slurm_ext.tui.render import screen
from tests.builders import job, node, observation
from tests.fake import FakeSlurm

HOSTILE = "evil\x1b[2J\x07\r\nNumNodes=4\u202e"


def data(**fields: object) -> dict:  # type: ignore[type-arg]
    jobs = [job(1, gpus=4, **fields), job(2, gpus=8, **fields), job(3, on={"n1": 2}, **fields)]
    obs = observation([node("n1", used=range(2)), node("n2", states=("DOWN",))], jobs,
                      now=int(time.time()))  # fmt: skip
    config = load(Path("/dev/null"), {"mode": "enforce"})
    return snapshot(Runner(config, FakeSlurm(obs), None, dry_run=True).run(), config)


def test_the_snapshot_is_served(tmp_path: Path) -> None:
    with Publisher(tmp_path) as publisher:
        publisher.publish(data())
        assert ask(tmp_path, "/v1/status")["policy"] == "multifactor"
        assert ask(tmp_path, "/v1/jobs/1")["gpus"] == 4
        assert {n["name"] for n in ask(tmp_path, "/v1/nodes")} == {"n1", "n2"}
        assert ask(tmp_path, "/healthz")["failure"] is None


def test_a_failed_cycle_shows_and_the_last_good_one_stays(tmp_path: Path) -> None:
    with Publisher(tmp_path) as publisher:
        publisher.publish(data())
        publisher.failed("slurmctld is down", 7)
        answer = ask(tmp_path, "/v1/status")
        assert answer["failure"] == {"at_s": 7, "error": "slurmctld is down"}
        assert answer["jobs"]


def test_unknown_things_are_said_so(tmp_path: Path) -> None:
    with Publisher(tmp_path) as publisher:
        publisher.publish(data())
        with pytest.raises(SlurmExtError, match="job 99 is not in the last cycle"):
            ask(tmp_path, "/v1/jobs/99")


def test_no_daemon_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SlurmExtError, match="slurm-ext serve"):
        ask(tmp_path, "/v1/status")


def test_the_socket_goes_with_the_daemon(tmp_path: Path) -> None:
    with Publisher(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def render(view: object, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, height=24, no_color=True).print(view)
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_hostile_names_never_reach_the_terminal(width: int) -> None:
    text = render(screen(data(name=HOSTILE, user=HOSTILE), width=width, height=24), width)
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    assert "\u202e" not in text


def test_the_map_shows_free_used_and_unusable_gpus() -> None:
    text = render(screen(data(), width=80, height=24))
    assert "n1 ■■······" in text
    assert "n2 xxxxxxxx" in text


def test_a_daemon_without_a_cycle_yet_can_be_shown() -> None:
    assert "no nodes" in render(screen({"cycle": 0}, width=80, height=24))
