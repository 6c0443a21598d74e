"""One cycle as one kind of viewer sees it, encoded once whatever is asked for."""

from __future__ import annotations

import json
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

    def status(self, limit: int | None) -> bytes:
        """The whole snapshot with at most ``limit`` jobs, the first in rank."""
        if "jobs" not in self._data:
            return self._head
        if limit is None or limit >= len(self._jobs):
            return b'{"jobs": ' + self.jobs(None) + b", " + self._head[1:]
        in_all = b'"jobs_in_all": %d, ' % len(self._jobs)
        return b'{"jobs": ' + self.jobs(limit) + b", " + in_all + self._head[1:]

    def jobs(self, limit: int | None) -> bytes:
        """The first ``limit`` jobs in rank, or all."""
        return b"[" + b", ".join(self._jobs[:limit]) + b"]"

    def job(self, name: str) -> bytes | None:
        """The job of an id or address."""
        at = self._places.get(name)
        return None if at is None else self._jobs[at]

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
    def _jobs(self) -> tuple[bytes, ...]:
        return tuple(_encoded(job) for job in self._data.get("jobs", []))

    @cached_property
    def _places(self) -> dict[str, int]:
        places: dict[str, int] = {}
        for at, job in enumerate(self._data.get("jobs", [])):
            places.setdefault(job["id"], at)
            places.setdefault(str(job["job_id"]), at)
        return places


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode()
