"""A slurmrestd that does as it is told: on a socket or a port, well or badly."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Send = Callable[[bytes], None]
Behaviour = Callable[["Request", Send, threading.Event], None]
"""Answers one request; the event is set when the test is over."""


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    headers: dict[str, str]


@dataclass
class Restd:
    """``behave`` may be changed at any time; ``seen`` are the requests so far."""

    behave: Behaviour
    url: str = ""
    seen: list[Request] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        return [one.path for one in self.seen]


def reply(status: int, body: bytes, *, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nContent-Type: {kind}\r\n\r\n"
    return head.encode() + body


def document(value: Any, status: int = 200) -> Behaviour:
    """Always the same JSON."""
    return lambda _, send, __: send(reply(status, json.dumps(value).encode()))


def raw(data: bytes) -> Behaviour:
    return lambda _, send, __: send(data)


def api(tables: dict[str, Any], number: int = 38) -> Behaviour:
    """An API of one version: ``tables`` by the last part of the path (a status, or JSON)."""
    base = f"/slurm/v0.0.{number}/"

    def answer(request: Request, send: Send, _: threading.Event) -> None:
        path = request.path.partition("?")[0]
        if path == "/openapi/v3":
            states = {f"{base}jobs/state/": {}} if "jobs/state" in tables else {}
            found: Any = {"paths": {f"{base}jobs": {}, f"{base}nodes": {}, **states}}
        else:
            found = tables.get(path.removeprefix(base).rstrip("/"), 404)
        if found == 404 or not path.startswith(("/openapi", base)):
            send(reply(404, b"Unable find requested URL.", kind="text/plain"))
        elif isinstance(found, int):
            send(reply(found, b""))
        else:
            send(reply(200, json.dumps(found).encode()))

    return answer


@contextlib.contextmanager
def serving(
    behave: Behaviour, *, path: Path | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[Restd]:
    """A server on a free port, or on the UNIX socket ``path``."""
    listener = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
    listener.bind(str(path) if path else ("127.0.0.1", 0))
    listener.listen()
    over = threading.Event()
    scheme = "https" if tls else "http"
    port = 0 if path else listener.getsockname()[1]
    restd = Restd(behave, f"unix:{path}" if path else f"{scheme}://127.0.0.1:{port}")
    threads: list[threading.Thread] = []

    def accept() -> None:
        while True:
            try:
                peer = listener.accept()[0]
            except OSError:
                return
            thread = threading.Thread(target=_serve, args=(peer, restd, tls, over))
            thread.start()
            threads.append(thread)

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield restd
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join()
        for thread in threads:
            thread.join()


def _serve(
    peer: socket.socket, restd: Restd, tls: ssl.SSLContext | None, over: threading.Event
) -> None:
    with contextlib.suppress(OSError), contextlib.closing(peer):
        sock = tls.wrap_socket(peer, server_side=True) if tls else peer
        with contextlib.closing(sock):
            sock.settimeout(20)
            request = _read(sock)
            if request is not None:
                restd.seen.append(request)
                restd.behave(request, sock.sendall, over)


def _read(sock: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(4096)
        if not piece or piece.startswith(b"\x16"):  # gone, or it speaks TLS
            return None
        data += piece
    first, *lines = data.decode("latin-1").split("\r\n\r\n", 1)[0].split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Request(first.split(" ")[1], headers)
