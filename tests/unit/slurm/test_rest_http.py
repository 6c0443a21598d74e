"""Every call to slurmrestd ends, and says what was wrong without saying the token."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from slurm_ext.errors import SlurmUnavailableError
from slurm_ext.slurm.rest_http import Address, RestClient

from .restd import Behaviour, Request, Send, document, raw, reply, serving

SECRET = "eyJ0.secret.token"


def client(url: str, **options: float | str) -> RestClient:
    settings = {"limit_s": 20.0, **options}
    return RestClient(url, lambda: {"X-SLURM-USER-TOKEN": SECRET}, **settings)  # type: ignore[arg-type]


def failure(url: str, **options: float | str) -> str:
    with pytest.raises(SlurmUnavailableError) as caught:
        client(url, **options).get("/slurm/v0.0.38/jobs?update_time=1")
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_tcp() -> None:
    with serving(document({"jobs": []})) as restd:
        assert client(restd.url).get("/x") == (200, {"jobs": []})
        assert restd.seen[0].headers["X-SLURM-USER-TOKEN"] == SECRET


def test_unix_socket(tmp_path: Path) -> None:
    with serving(document({"a": 1}), path=tmp_path / "s") as restd:
        assert client(restd.url).get("/x") == (200, {"a": 1})


def test_status_and_plain_text_are_not_an_error_here() -> None:
    with serving(raw(reply(404, b"no such page", kind="text/plain"))) as restd:
        assert client(restd.url).get("/x") == (404, None)
        restd.behave = raw(b"HTTP/1.1 304 NOT MODIFIED\r\n\r\n")
        assert client(restd.url).get("/x") == (304, None)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"jobs": [', "10 of 100 bytes"),
        (b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"jobs": [', "truncated or no JSON"),
        (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a"', "IncompleteRead"),
        (b"", "closed connection without response"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH-2.0"),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>\x1b[31m", r"<html>\\x1b"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 200_000, "no JSON"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n{}", "header line"),
    ],
    ids=["cut", "cut without length", "cut chunk", "nothing", "ssh", "html", "deep", "header"],
)
def test_answers_that_cannot_be_used(sent: bytes, said: str) -> None:
    with serving(raw(sent)) as restd:
        assert said.replace("\\\\", "\\") in failure(restd.url)


def endless(request: Request, send: Send, over: threading.Event) -> None:
    send(b"HTTP/1.1 200 OK\r\n\r\n")
    while not over.is_set():
        send(b" " * 65536)


@pytest.mark.parametrize(
    "behave",
    [raw(b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n{"), endless],
    ids=["announced", "not announced"],
)
def test_a_hundred_megabytes_are_not_read(behave: Behaviour) -> None:
    with serving(behave) as restd:
        assert "more than 1 MiB" in failure(restd.url, max_answer=1 << 20)


def dripping(head: bytes) -> Behaviour:
    """A byte every now and then, for ever: no single wait is long."""

    def behave(request: Request, send: Send, over: threading.Event) -> None:
        send(head)
        while not over.wait(0.02):
            send(b"x")

    return behave


@pytest.mark.parametrize(
    "behave",
    [dripping(b"HTTP/1.1 200 OK\r\nX: "), dripping(b"HTTP/1.1 200 OK\r\n\r\n"), dripping(b"")],
    ids=["header", "body", "status"],
)
def test_a_slow_loris_ends_at_the_deadline(behave: Behaviour) -> None:
    with serving(behave) as restd:
        assert "0.3 s" in failure(restd.url, limit_s=0.3)


def test_silence_ends_at_the_deadline() -> None:
    with serving(lambda _, __, over: over.wait(20) and None) as restd:
        assert "no answer within 0.3 s" in failure(restd.url, limit_s=0.3)


def test_a_handshake_that_never_ends() -> None:
    """A port that accepts and then says nothing at all."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        assert "no answer within 0.3 s" in failure(url, limit_s=0.3)


def test_nobody_there(tmp_path: Path) -> None:
    assert "slurm.rest_url" in failure(f"unix:{tmp_path}/none")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert "Connection refused" in failure(f"http://127.0.0.1:{unused.getsockname()[1]}")


def test_redirects_are_not_followed() -> None:
    with serving(raw(reply(302, b""))) as restd:
        assert client(restd.url).get("/x") == (302, None)
        assert len(restd.seen) == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for localhost, not for its address."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    place = tmp_path_factory.mktemp("tls")
    key = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", place / "key", "-out", place / "cert"]
    subprocess.run(["openssl", "req", *key, *name, *files], check=True, capture_output=True)
    return place


def server_side(place: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place / "cert", place / "key")
    return context


def test_tls(certificate: Path) -> None:
    with serving(document({"a": 1}), tls=server_side(certificate)) as restd:
        url = restd.url.replace("127.0.0.1", "localhost")
        assert client(url, ca_file=str(certificate / "cert")).get("/x") == (200, {"a": 1})


def test_tls_that_does_not_fit(certificate: Path, tmp_path: Path) -> None:
    trusted = str(certificate / "cert")
    with serving(document({}), tls=server_side(certificate)) as restd:
        assert "certificate" in failure(restd.url.replace("127.0.0.1", "localhost"))
        assert "slurm.rest_ca_file" in failure(restd.url, ca_file=trusted)  # another name
        assert "http and https" in failure(restd.url.replace("https", "http"))
        assert not restd.seen
    assert "slurm.rest_ca_file" in failure("https://localhost:1", ca_file=str(tmp_path / "no"))
    with serving(document({})) as restd:
        assert "speak TLS" in failure(restd.url.replace("http", "https"), ca_file=trusted)


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("unix:/run/x", ("unix", "localhost", 0, "/run/x")),
        ("http://h:1", ("http", "h", 1, "")),
        ("https://[::1]:6820/", ("https", "::1", 6820, "")),
        ("http://h", ("http", "h", 6820, "")),
    ],
)
def test_addresses(url: str, parts: tuple[str, str, int, str]) -> None:
    assert Address.parse(url) == Address(*parts)


@pytest.mark.parametrize("url", ["", "h:1", "ftp://h", "http://u@h", "http://h/x", "http://h:x"])
def test_addresses_that_cannot_be_used(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Address.parse(url)
