"""A small HTTP server on a UNIX socket or a port: a thread a client, a cap on clients."""

from __future__ import annotations

import json
import logging
import os
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from slurm_ext.errors import SlurmExtError

from .access import peer_uid

log = logging.getLogger(__name__)

MAX_CLIENTS = 64
MAX_OF_USER = 32
"""Connections of one user at a time; root and our own user have no such limit."""
MAX_S = 30.0
"""Seconds from accept to the last byte: who drips bytes does not keep a place for ever."""
MAX_BODY_BYTES = 64 * 1024
MAX_DRAINED_BYTES = 1 << 20
"""Read of a refused request before the connection is closed."""
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: ``path`` with its query, the raw ``body``, ``etag`` the client has already."""

    method: str
    path: str
    body: bytes
    etag: str
    connection: socket.socket


@dataclass(frozen=True, slots=True)
class Reply:
    """``body`` is sent as it is."""

    status: int
    body: bytes = b""
    kind: str = JSON
    headers: tuple[tuple[str, str], ...] = field(default=())


def as_json(status: int, value: Any) -> Reply:
    """A reply with a JSON document."""
    return Reply(status, json.dumps(value).encode())


class UnixServer:
    """Serves ``answer`` at ``path`` with file mode ``mode`` while the context is open.

    ``answer`` runs in the client's thread and may not raise.
    """

    def __init__(self, path: Path, mode: int, answer: Callable[[Ask], Reply]) -> None:
        self.path, self._mode, self._answer = path, mode, answer
        self._server: _Server | None = None

    def __enter__(self) -> Self:
        handler = type("Handler", (Handler,), {"answer": staticmethod(self._answer)})
        try:
            self.path.unlink(missing_ok=True)  # the lock is held: nobody else serves here
            before = os.umask(0o777 & ~self._mode)
            try:
                self._server = _Server(str(self.path), handler)
            finally:
                os.umask(before)
        except OSError as error:
            raise SlurmExtError(
                f"{self.path}: no socket can be made here: {error}; set state.run_dir to a "
                "directory on a local disk, its path at most 90 characters long"
            ) from error
        serve = self._server.serve_forever
        threading.Thread(target=serve, daemon=True, name=self.path.stem).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        self.path.unlink(missing_ok=True)


def _uid_of(connection: socket.socket) -> int | None:
    """The user at the other end of a UNIX socket; None for others."""
    return peer_uid(connection) if connection.family == socket.AF_UNIX else None


class CappedThreads(socketserver.ThreadingMixIn):
    """Threads that end with the process; a client beyond the cap is hung up on at once."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        self._clients: dict[socket.socket, tuple[int | None, float]] = {}
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        uid = _uid_of(request)
        if not self._has_room(uid):
            self.shutdown_request(request)  # type: ignore[attr-defined]
            return
        self._clients[request] = uid, time.monotonic()
        super().process_request(request, client_address)

    def _has_room(self, uid: int | None) -> bool:
        taken = [owner for owner, _ in self._clients.copy().values()]
        if uid not in (None, 0, os.geteuid()) and taken.count(uid) >= MAX_OF_USER:
            return False
        return len(taken) < MAX_CLIENTS

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._clients.pop(request, None)

    def service_actions(self) -> None:
        """Called twice a second: hangs up on who has been here for too long."""
        for request, (_, since_s) in self._clients.copy().items():
            if time.monotonic() - since_s > MAX_S:
                with suppress(OSError):  # it has just gone
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        log.debug("a client went away", exc_info=True)


class _Server(CappedThreads, socketserver.UnixStreamServer):
    """On a UNIX socket, at a path."""


class TcpServer(CappedThreads, socketserver.TCPServer):
    """The same on a TCP address (host, port)."""

    allow_reuse_address = True

    def __init__(self, where: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
        super().__init__(where, handler)


class Handler(BaseHTTPRequestHandler):
    """Passes what was asked to ``answer``; knows nothing of paths."""

    answer: ClassVar[Callable[[Ask], Reply]]
    timeout = 10  # seconds, for every read and write
    _refused = False

    def do_GET(self) -> None:
        self._reply("GET", b"")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if not (length.isdecimal() and len(length) <= 9 and int(length) <= MAX_BODY_BYTES):
            self._refuse(413, f"a body of at most {MAX_BODY_BYTES} bytes")
            return
        self._reply("POST", self.rfile.read(int(length)))

    def _reply(self, method: str, body: bytes) -> None:
        etag = self.headers.get("If-None-Match", "")
        try:
            reply = type(self).answer(Ask(method, self.path, body, etag, self.connection))
        except ValueError as error:  # a URL or number that cannot be read
            reply = as_json(400, {"error": str(error)})
        self._send(reply)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server finds wrong before it asks us: 400, 414, 431, 501."""
        self._refuse(int(code), message or HTTPStatus(code).phrase)

    def _refuse(self, status: int, text: str) -> None:
        self._refused = self.close_connection = True
        self._send(as_json(status, {"error": text}))

    def finish(self) -> None:
        """Read away what a refused client still sends: closing before that resets the connection,
        and our answer is lost with it."""
        super().finish()
        if not self._refused:
            return
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1.0)
            left = MAX_DRAINED_BYTES
            while left > 0 and (piece := self.connection.recv(min(left, 65536))):
                left -= len(piece)

    def address_string(self) -> str:
        return "local"

    def log_message(self, format: str, *args: object) -> None:
        log.debug(format, *args)
