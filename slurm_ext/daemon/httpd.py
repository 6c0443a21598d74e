"""A small HTTP server on a UNIX socket or a port: a thread a client, a cap on clients."""

from __future__ import annotations

import json
import logging
import os
import socket
import socketserver
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from slurm_ext.errors import SlurmExtError

log = logging.getLogger(__name__)

MAX_CLIENTS = 64
MAX_BODY_BYTES = 64 * 1024
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


class CappedThreads(socketserver.ThreadingMixIn):
    """Threads that end with the process; a client beyond the cap is hung up on at once."""

    daemon_threads = True
    _room: threading.BoundedSemaphore

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)  # type: ignore[attr-defined]
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        log.debug("a client went away", exc_info=True)


class _Server(CappedThreads, socketserver.UnixStreamServer):
    def __init__(self, path: str, handler: type[BaseHTTPRequestHandler]) -> None:
        self._room = threading.BoundedSemaphore(MAX_CLIENTS)
        super().__init__(path, handler)


class TcpServer(CappedThreads, socketserver.TCPServer):
    """The same on a TCP address (host, port)."""

    allow_reuse_address = True

    def __init__(self, where: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._room = threading.BoundedSemaphore(MAX_CLIENTS)
        self.address_family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
        super().__init__(where, handler)


class Handler(BaseHTTPRequestHandler):
    """Passes what was asked to ``answer``; knows nothing of paths."""

    answer: ClassVar[Callable[[Ask], Reply]]
    timeout = 10  # seconds, for every read and write

    def do_GET(self) -> None:
        self._reply("GET", b"")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self._send(as_json(413, {"error": f"a body of at most {MAX_BODY_BYTES} bytes"}))
            return
        self._reply("POST", self.rfile.read(int(length)))

    def _reply(self, method: str, body: bytes) -> None:
        etag = self.headers.get("If-None-Match", "")
        self._send(type(self).answer(Ask(method, self.path, body, etag, self.connection)))

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def address_string(self) -> str:
        return "local"

    def log_message(self, format: str, *args: object) -> None:
        log.debug(format, *args)
