"""One cycle as one kind of viewer sees it, encoded once whatever is asked for."""

from __future__ import annotations

import json
import threading
from functools import cached_property
from typing import Any

Plain = dict[str, Any]


class View:
    """Answers in JSON. Each part is encoded at the first question; a question with another limit
    only puts encoded jobs together, so that no stream of odd questions costs more than that.

    ``data``: a snapshot, blanked for the viewer. ``failure``: of the last cycle, or None.
    """

    def __init__(self, data: Plain, failure: Plain | None) -> None:
        self._data, self._failure = data, failure
        self._lines: list[bytes] = []
        self._lock = threading.Lock()

    def status(self, limit: int | None) -> bytes:
        """The whole snapshot with at most ``limit`` jobs, the first in rank."""
        if "jobs" not in self._data:
            return self._head
        in_all = len(self._data["jobs"])
        if limit is None or limit >= in_all:
            return b'{"jobs": ' + self.jobs(None) + b", " + self._head[1:]
        told = b'"jobs_in_all": %d, ' % in_all
        return b'{"jobs": ' + self.jobs(limit) + b", " + told + self._head[1:]

    def jobs(self, limit: int | None) -> bytes:
        """The first ``limit`` jobs in rank, or all."""
        jobs = self._data.get("jobs", [])
        wanted = jobs[:limit]
        with self._lock:
            self._lines += map(_encoded, wanted[len(self._lines) :])
            return b"[" + b", ".join(self._lines[: len(wanted)]) + b"]"

    def job(self, name: str) -> bytes | None:
        """The job of an id or address."""
        at = self._places.get(name)
        return None if at is None else _encoded(self._data["jobs"][at])

    @cached_property
    def nodes(self) -> bytes:
        """All nodes."""
        return _encoded(self._data.get("nodes", []))

    @cached_property
    def policy(self) -> bytes:
        """The parameters of the policy."""
        return _encoded(self._data.get("policy_parameters", {}))

    @cached_property
    def _head(self) -> bytes:
        rest = {name: value for name, value in self._data.items() if name != "jobs"}
        return _encoded({**rest, "failure": self._failure})

    @cached_property
    def _places(self) -> dict[str, int]:
        places: dict[str, int] = {}
        for at, job in enumerate(self._data.get("jobs", [])):
            places.setdefault(job["id"], at)
            places.setdefault(str(job["job_id"]), at)
        return places


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode()
