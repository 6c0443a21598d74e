"""The status socket: the last cycle as read-only JSON over HTTP on a UNIX socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from .access import Viewer, hides_others, seen_by, viewer
from .httpd import Ask, Reply, UnixServer, as_json

SOCKET_NAME = "status.sock"
PATHS = (
    "/healthz", "/metrics", "/v1/status", "/v1/jobs", "/v1/jobs/ID", "/v1/nodes", "/v1/cycles",
    "/v1/policy",
)  # fmt: skip
KEPT_VIEWS = 32
"""Encoded answers kept of one cycle: many clients of the same kind cost one encoding."""

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
        mode = 0o666 if open_to_all else 0o600
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
        where = urlsplit(ask.path)
        if where.path == "/healthz":
            return self._health()
        if where.path == "/metrics":
            return metrics_reply(self._metrics())
        who = viewer(ask.connection, self._operators)
        return self._view(where.path, where.query, who, ask.etag)

    def _health(self) -> Reply:
        error = self._error
        body = {"cycle": self._current.cycle, "failure": error}
        return as_json(503 if error else 200, body)

    def _view(self, path: str, query: str, who: Viewer, etag: str) -> Reply:
        """A part of the snapshot; encoded once a cycle for all viewers who see the same."""
        current, error = self._current, self._error
        failed_s = error["at_s"] if error else 0
        hide = hides_others(self._others, current.data().get("private_data", ""))
        whose = "" if who.operator or not hide else f"u{who.uid}"
        tag = f'"{current.cycle}-{failed_s}"'
        if etag == tag:
            return Reply(304, headers=(("ETag", tag),))
        key = (path, query, whose, failed_s)
        found = current.views.get(key)
        if found is None:
            data = seen_by(current.data(), who, hide=hide)
            status, value = self._part(data, path, query, error)
            found = (status, json.dumps(value).encode())
            if len(current.views) < KEPT_VIEWS:
                current.views[key] = found
        return Reply(*found, headers=(("ETag", tag),))

    def _part(self, data: Plain, path: str, query: str, error: Plain | None) -> tuple[int, Any]:
        if path == "/v1/status":
            return 200, {**limited(data, query), "failure": error}
        if path == "/v1/jobs":
            return 200, limited(data, query).get("jobs", [])
        if path == "/v1/nodes":
            return 200, data.get("nodes", [])
        if path == "/v1/cycles":
            return 200, self._cycles
        if path == "/v1/policy":
            return 200, data.get("policy_parameters", {})
        if path.startswith("/v1/jobs/"):
            wanted = path.removeprefix("/v1/jobs/")
            for job in data.get("jobs", []):
                if wanted in (job["id"], str(job["job_id"])):
                    return 200, job
            return 404, {"error": f"job {wanted[:40]} is not in the last cycle"}
        return 404, {"error": f"paths: {' '.join(PATHS)}"}


class _Published:
    """One cycle's snapshot, made at the first question, with what was encoded of it."""

    def __init__(self, make: Callable[[], Plain], cycle: int) -> None:
        self.cycle = cycle
        self.views: dict[tuple[str, str, str, int], tuple[int, bytes]] = {}
        self._make, self._made = make, threading.Lock()
        self._data: Plain | None = None

    def data(self) -> Plain:
        with self._made:
            if self._data is None:
                self._data = self._make()
            return self._data


def limited(data: Plain, query: str) -> Plain:
    """The snapshot with at most ``limit=N`` jobs, the first in rank, and how many there are."""
    limit = parse_qs(query).get("limit", [""])[0]
    jobs = data.get("jobs", [])
    if not (limit.isdecimal() and len(limit) <= 9) or len(jobs) <= int(limit):
        return data
    return {**data, "jobs": jobs[: int(limit)], "jobs_in_all": len(jobs)}


def metrics_reply(text: bytes | None) -> Reply:
    """The metrics in Prometheus' text format, or what is missing for them."""
    if text is None:
        return as_json(501, {"error": "metrics need prometheus_client: install slurm-ext[metrics]"})
    return Reply(200, text, "text/plain; version=0.0.4; charset=utf-8")
