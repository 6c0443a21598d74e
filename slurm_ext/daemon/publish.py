"""The status socket: the last cycle as read-only JSON over HTTP on a UNIX socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection
from functools import cache
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from .access import Viewer, hides_others, seen_by, viewer
from .httpd import Ask, Reply, UnixServer, as_json
from .views import View

SOCKET_NAME = "status.sock"
PATHS = (
    "/healthz", "/metrics", "/v1/status", "/v1/jobs", "/v1/jobs/ID", "/v1/nodes", "/v1/cycles",
    "/v1/policy", "/v1/schema",
)  # fmt: skip
KEPT_VIEWS = 32
"""Kinds of viewers kept of one cycle: many clients of the same kind cost one encoding."""

Plain = dict[str, Any]


class Publisher:
    """Serves the newest snapshot from threads of its own; a slow reader slows nobody.

    The snapshot is replaced, never changed. It is made when somebody first asks for it.
    ``open_to_all``: anybody may ask; ``others`` as in :func:`.access.hides_others`.
    ``metrics`` gives the text for ``/metrics``, or None where that is not possible.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        open_to_all: bool = False,
        others: str = "slurm",
        operators: Collection[str] = (),
        metrics: Callable[[], bytes | None] = lambda: None,
    ) -> None:
        self._others, self._operators, self._metrics = others, operators, metrics
        self._current = _Published(lambda: {"cycle": 0}, 0)
        self._error: Plain | None = None
        self._cycles: list[Plain] = []
        # Named operators need the file to be open, too; who they are tells the kernel.
        mode = 0o666 if open_to_all or operators else 0o600
        self._open_to_all = open_to_all
        self._server = UnixServer(run_dir / SOCKET_NAME, mode, self._answer)

    def publish(self, make: Callable[[], Plain], cycle: int, summary: Plain) -> None:
        """Put a new snapshot in place; clears the last error. ``summary``: a line for cycles."""
        self._current, self._error = _Published(make, cycle), None
        self._cycles = [*self._cycles[-99:], summary]

    def failed(self, error: str, at_s: int) -> None:
        """Note that a cycle failed; the last good snapshot stays."""
        self._error = {"at_s": at_s, "error": error}

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.__exit__(kind, error, trace)

    # -- answers ---------------------------------------------------------------------------

    def _answer(self, ask: Ask) -> Reply:
        if ask.method != "GET":
            return as_json(405, {"error": "this socket is read-only; see the admin socket"})
        who = viewer(ask.connection, self._operators)
        if not (self._open_to_all or who.operator):
            return as_json(403, {"error": "only root, the daemon's user and status.operators"})
        where = urlsplit(ask.path)
        if where.path == "/healthz":
            return self._health()
        if where.path == "/metrics":
            return metrics_reply(self._metrics())
        if where.path == "/v1/schema":
            return Reply(200, schema())
        return self._answer_from(where.path, where.query, who, ask.etag)

    def _health(self) -> Reply:
        error = self._error
        body = {"cycle": self._current.cycle, "failure": error}
        return as_json(503 if error else 200, body)

    def _answer_from(self, path: str, query: str, who: Viewer, etag: str) -> Reply:
        """A part of the snapshot; encoded once a cycle for all viewers who see the same."""
        current, error = self._current, self._error
        failed_s = error["at_s"] if error else 0
        hide = hides_others(self._others, current.data().get("private_data", ""))
        whose = "" if who.operator or not hide else f"u{who.uid}"
        tag = f'"{current.cycle}-{failed_s}"'
        if etag == tag:
            return Reply(304, headers=(("ETag", tag),))
        view = current.view(
            (whose, failed_s), lambda data: View(seen_by(data, who, hide=hide), error)
        )
        status, body = self._part(view, path, limit_of(query))
        return Reply(status, body, headers=(("ETag", tag),))

    def _part(self, view: View, path: str, limit: int | None) -> tuple[int, bytes]:
        if path == "/v1/status":
            return 200, view.status(limit)
        if path == "/v1/jobs":
            return 200, view.jobs(limit)
        if path == "/v1/nodes":
            return 200, view.nodes
        if path == "/v1/cycles":
            return 200, json.dumps(self._cycles).encode()
        if path == "/v1/policy":
            return 200, view.policy
        if path.startswith("/v1/jobs/"):
            wanted = path.removeprefix("/v1/jobs/")
            job = view.job(wanted)
            if job is not None:
                return 200, job
            return 404, _error(f"job {wanted[:40]} is not in the last cycle")
        return 404, _error(f"paths: {' '.join(PATHS)}")


class _Published:
    """One cycle's snapshot, made at the first question, with what was encoded of it."""

    def __init__(self, make: Callable[[], Plain], cycle: int) -> None:
        self.cycle = cycle
        self._make, self._lock = make, threading.RLock()
        self._data: Plain | None = None
        self._views: dict[tuple[str, int], View] = {}

    def data(self) -> Plain:
        with self._lock:
            if self._data is None:
                self._data = self._make()
            return self._data

    def view(self, key: tuple[str, int], make: Callable[[Plain], View]) -> View:
        """The view of a kind of viewer; the last that were asked for are kept."""
        with self._lock:
            found = self._views.pop(key, None) or make(self.data())
            self._views[key] = found
            if len(self._views) > KEPT_VIEWS:
                del self._views[next(iter(self._views))]
            return found


@cache
def schema() -> bytes:
    """JSON Schema of every answer, ``$defs`` by path."""
    return resources.files(__package__).joinpath("status_schema.json").read_bytes()


def limit_of(query: str) -> int | None:
    """N of ``limit=N``; None without one that can be read."""
    limit = parse_qs(query).get("limit", [""])[0]
    return int(limit) if limit.isdecimal() and len(limit) <= 9 else None


def _error(text: str) -> bytes:
    return json.dumps({"error": text}).encode()


def metrics_reply(text: bytes | None) -> Reply:
    """The metrics in Prometheus' text format, or what is missing for them."""
    if text is None:
        return as_json(501, {"error": "metrics need prometheus_client: install slurm-ext[metrics]"})
    return Reply(200, text, "text/plain; version=0.0.4; charset=utf-8")
