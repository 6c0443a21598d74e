"""The status socket: the last cycle as read-only JSON over HTTP on a UNIX socket."""

from __future__ import annotations

import json
import logging
import os
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from slurm_ext.errors import SlurmExtError

log = logging.getLogger(__name__)

SOCKET_NAME = "status.sock"


class Publisher:
    """Serves the newest snapshot from threads of its own; a slow reader slows nobody.

    The snapshot is replaced, never changed, so readers need no lock.
    """

    def __init__(self, run_dir: Path) -> None:
        self.path = run_dir / SOCKET_NAME
        self._snapshot: dict[str, Any] = {"cycle": 0}
        self._error: dict[str, Any] | None = None
        self._server: _Server | None = None

    def publish(self, snapshot: dict[str, Any]) -> None:
        """Put a new snapshot in place; clears the last error."""
        self._snapshot, self._error = snapshot, None

    def failed(self, error: str, at_s: int) -> None:
        """Note that a cycle failed; the last good snapshot stays."""
        self._error = {"at_s": at_s, "error": error}

    def answer(self, path: str) -> tuple[int, Any]:
        """HTTP status and body for a path."""
        current, error = self._snapshot, self._error
        if path == "/healthz":
            return (503 if error else 200), {"cycle": current.get("cycle", 0), "failure": error}
        if path == "/v1/status":
            return 200, {**current, "failure": error}
        if path == "/v1/jobs":
            return 200, current.get("jobs", [])
        if path == "/v1/nodes":
            return 200, current.get("nodes", [])
        if path.startswith("/v1/jobs/"):
            wanted = path.removeprefix("/v1/jobs/")
            for job in current.get("jobs", []):
                if wanted in (job["id"], str(job["job_id"])):
                    return 200, job
            return 404, {"error": f"job {wanted[:40]} is not in the last cycle"}
        return 404, {"error": "paths: /healthz /v1/status /v1/jobs /v1/jobs/ID /v1/nodes"}

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"publisher": self})
        try:
            self.path.unlink(missing_ok=True)  # the lock is held: nobody else serves here
            self._server = _Server(str(self.path), handler)
        except OSError as error:
            raise SlurmExtError(
                f"{self.path}: no socket can be made here: {error}; set state.run_dir to a "
                "directory on a local disk, its path at most 90 characters long"
            ) from error
        os.chmod(self.path, 0o600)
        threading.Thread(target=self._server.serve_forever, daemon=True, name="status").start()
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


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        log.debug("status client went away", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    publisher: ClassVar[Publisher]
    timeout = 10

    def do_GET(self) -> None:
        status, body = self.publisher.answer(self.path)
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:
        log.debug(format, *args)
