"""The status socket, its client and the live view."""

from __future__ import annotations

import http.client
import json
import socket
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.daemon import access, httpd, views
from slurm_ext.daemon.client import ask, ask_if_new
from slurm_ext.daemon.config import load
from slurm_ext.daemon.httpd import Ask
from slurm_ext.daemon.publish import KEPT_VIEWS, SOCKET_NAME, Publisher, _Published
from slurm_ext.daemon.runner import Runner
from slurm_ext.daemon.snapshot import snapshot
from slurm_ext.daemon.views import View
from slurm_ext.errors import SlurmExtError
from slurm_ext.tui.app import Feed
from tests.builders import job, node, observation
from tests.fake import FakeSlurm

Plain = dict[str, Any]


def data(**fields: object) -> Plain:
    jobs = [job(1, gpus=4, **fields), job(2, gpus=8, **fields), job(3, on={"n1": 2}, **fields)]
    obs = observation([node("n1", used=range(2)), node("n2", states=("DOWN",))], jobs,
                      now=int(time.time()))  # fmt: skip
    config = load(Path("/dev/null"), {"mode": "enforce"})
    return snapshot(Runner(config, FakeSlurm(obs), None, dry_run=True).run(), config)


def put(publisher: Publisher, made: Plain | None = None, cycle: int = 1) -> None:
    found = data() if made is None else made
    publisher.publish(lambda: found, cycle, {"cycle": cycle})


def test_the_snapshot_is_served(tmp_path: Path) -> None:
    with Publisher(tmp_path) as publisher:
        put(publisher)
        assert ask(tmp_path, "/v1/status")["policy"] == "multifactor"
        assert ask(tmp_path, "/v1/jobs/1")["gpus"] == 4
        assert {n["name"] for n in ask(tmp_path, "/v1/nodes")} == {"n1", "n2"}
        assert ask(tmp_path, "/healthz")["failure"] is None


def test_a_failed_cycle_shows_and_the_last_good_one_stays(tmp_path: Path) -> None:
    with Publisher(tmp_path) as publisher:
        put(publisher)
        publisher.failed("slurmctld is down", 7)
        answer = ask(tmp_path, "/v1/status")
        assert answer["failure"] == {"at_s": 7, "error": "slurmctld is down"}
        assert answer["jobs"]


def test_cycles_and_policy_are_served(tmp_path: Path) -> None:
    with Publisher(tmp_path) as publisher:
        put(publisher, cycle=1)
        put(publisher, cycle=2)
        assert [c["cycle"] for c in ask(tmp_path, "/v1/cycles")] == [1, 2]
        assert "placement.links.weight" in ask(tmp_path, "/v1/policy")


def test_a_limit_cuts_the_jobs_and_says_how_many_there_are(tmp_path: Path) -> None:
    with Publisher(tmp_path) as publisher:
        put(publisher)
        answer = ask(tmp_path, "/v1/status?limit=1")
        assert [j["rank"] for j in answer["jobs"]] == [0]
        assert answer["jobs_in_all"] == 3


def test_a_snapshot_is_made_once_and_only_when_asked_for(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> Plain:
        made.append(1)
        return data()

    with Publisher(tmp_path) as publisher:
        publisher.publish(make, 1, {})
        assert made == []
        ask(tmp_path, "/v1/jobs/1")
        ask(tmp_path, "/v1/status")
        assert made == [1]


def test_the_socket_is_for_operators_unless_opened(tmp_path: Path) -> None:
    with Publisher(tmp_path):
        assert (tmp_path / SOCKET_NAME).stat().st_mode & 0o777 == 0o600
    with Publisher(tmp_path, open_to_all=True):
        assert (tmp_path / SOCKET_NAME).stat().st_mode & 0o777 == 0o666


def test_who_has_the_newest_cycle_gets_no_body(tmp_path: Path) -> None:
    with Publisher(tmp_path) as publisher:
        put(publisher, cycle=4)
        first = raw(tmp_path, "")
        again = raw(tmp_path, first.headers["ETag"])
        put(publisher, cycle=5)
        later = raw(tmp_path, first.headers["ETag"])
    assert (first.status, again.status, later.status) == (200, 304, 200)


def raw(run_dir: Path, etag: str) -> http.client.HTTPResponse:
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(str(run_dir / SOCKET_NAME))
        channel.sendall(f"GET /v1/status HTTP/1.0\r\nIf-None-Match: {etag}\r\n\r\n".encode())
        response = http.client.HTTPResponse(channel)
        response.begin()
        response.read()
        return response


def test_metrics_without_the_library_say_what_to_install(tmp_path: Path) -> None:
    left, right = socket.socketpair(socket.AF_UNIX)
    with left, right:
        reply = Publisher(tmp_path)._answer(Ask("GET", "/metrics", b"", "", left))
    assert reply.status == 501
    assert b"slurm-ext[metrics]" in reply.body


def test_unknown_things_are_said_so(tmp_path: Path) -> None:
    with Publisher(tmp_path) as publisher:
        put(publisher)
        with pytest.raises(SlurmExtError, match="job 99 is not in the last cycle"):
            ask(tmp_path, "/v1/jobs/99")


def test_no_daemon_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SlurmExtError, match="slurm-ext serve"):
        ask(tmp_path, "/v1/status")


def test_the_socket_goes_with_the_daemon(tmp_path: Path) -> None:
    with Publisher(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"GET /v1/jobs?limit=" + b"9" * 5000 + b" HTTP/1.0\r\n\r\n", b"200"),
        (b"GET http://[::1/v1/status HTTP/1.0\r\n\r\n", b"400"),
        (b"POST / HTTP/1.0\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", b"413"),
    ],
)
def test_numbers_and_urls_that_cannot_be_read_get_an_answer(
    tmp_path: Path, asked: bytes, status: bytes
) -> None:
    with Publisher(tmp_path) as publisher, connected(tmp_path) as client:
        put(publisher)
        client.sendall(asked)
        assert client.recv(100).split()[1] == status


def test_who_drips_bytes_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpd, "MAX_S", 0.0)
    with Publisher(tmp_path), connected(tmp_path) as client:
        with suppress(BrokenPipeError):  # it may have hung up already
            client.sendall(b"GET /healthz")
        assert hung_up(client)


def test_one_user_cannot_take_all_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpd, "MAX_OF_USER", 1)
    monkeypatch.setattr(httpd, "peer_uid", lambda connection: 54321)
    with Publisher(tmp_path), connected(tmp_path) as first, connected(tmp_path) as second:
        assert hung_up(second)
        first.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert first.recv(100).split()[1] == b"200"


def hung_up(client: socket.socket) -> bool:
    try:
        return client.recv(100) == b""
    except ConnectionResetError:
        return True


def connected(directory: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(str(directory / SOCKET_NAME))
    return client


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"GET /v1/jobs?" + b"x" * 200_000 + b" HTTP/1.0\r\n\r\n", 414),
        (b"GET /healthz HTTP/1.0\r\nX: " + b"x" * 200_000 + b"\r\n\r\n", 431),
        (b"GET /healthz HTTP/1.0\r\n" + b"A: b\r\n" * 300 + b"\r\n", 431),
        (b"BREW /healthz HTTP/1.0\r\n\r\n", 501),
        (b"GET / x y HTTP/1.0\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\nContent-Length: 900000\r\n\r\n" + b"x" * 900_000, 413),
    ],
)
def test_what_is_too_long_or_odd_is_refused_in_json(
    tmp_path: Path, asked: bytes, status: int
) -> None:
    with Publisher(tmp_path), connected(tmp_path) as client:
        client.sendall(asked)
        response = http.client.HTTPResponse(client)
        response.begin()
        said = json.loads(response.read())
    assert (response.status, list(said)) == (status, ["error"])


def test_odd_questions_do_not_encode_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[object] = []
    plain = views._encoded

    def count(value: object) -> bytes:
        encoded.append(value)
        return plain(value)

    monkeypatch.setattr(views, "_encoded", count)
    with Publisher(tmp_path) as publisher:
        put(publisher)
        for i in range(50):
            assert len(ask(tmp_path, f"/v1/status?limit={i}&x={i}")["jobs"]) == min(i, 3)
            assert len(ask(tmp_path, f"/v1/jobs?limit={i}")) == min(i, 3)
    assert len(encoded) == 3 + 1  # the jobs, and the rest


def test_views_of_many_users_are_kept_up_to_a_number() -> None:
    made: list[int] = []
    published = _Published(lambda: {"cycle": 1}, 1)

    def make(snapshot: Plain) -> View:
        made.append(1)
        return View(snapshot, None)

    for user in [*range(KEPT_VIEWS + 1), KEPT_VIEWS, 0]:
        published.view((f"u{user}", 0), make)
    assert len(made) == KEPT_VIEWS + 2
    assert len(published._views) == KEPT_VIEWS


def test_a_view_that_has_the_newest_cycle_is_sent_nothing(tmp_path: Path) -> None:
    with Publisher(tmp_path) as publisher:
        put(publisher, cycle=4)
        etag, first = ask_if_new(tmp_path, "/v1/status", "")
        assert first["jobs"]
        assert ask_if_new(tmp_path, "/v1/status", etag) == (etag, None)
        publisher.failed("slurmctld is down", 7)
        assert ask_if_new(tmp_path, "/v1/status", etag)[1]["failure"]["at_s"] == 7


def test_the_live_view_keeps_what_it_has_and_starts_anew_with_another_daemon(
    tmp_path: Path,
) -> None:
    feed = Feed(tmp_path, 1.0)
    with Publisher(tmp_path) as publisher:
        put(publisher, cycle=4)
        feed.look()
        shown = feed.data
        feed.look()
        assert feed.data is shown
    feed.look()
    assert "no daemon answers" in feed.error
    with Publisher(tmp_path) as publisher:
        put(publisher, cycle=4)
        feed.look()
        assert (feed.error, feed.data is shown) == ("", False)


def test_named_operators_may_ask_and_others_may_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = {1: "alice", 2: "bob"}
    monkeypatch.setattr(access, "peer_uid", lambda connection: asking[0])
    monkeypatch.setattr(access.pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name=users[uid]))
    asking = [1]
    with Publisher(tmp_path, operators=("alice",)) as publisher:
        put(publisher)
        assert (tmp_path / SOCKET_NAME).stat().st_mode & 0o777 == 0o666
        assert ask(tmp_path, "/v1/status")["jobs"]
        asking[0] = 2
        for path in ("/v1/status", "/metrics", "/healthz"):
            with pytest.raises(SlurmExtError, match=r"status\.operators"):
                ask(tmp_path, path)
