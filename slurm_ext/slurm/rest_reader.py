"""A look through slurmrestd, read by the same parsers as ``--json``.

Of 22.05's API (v0.0.38) partitions and reservations lack too much; they are read by ``scontrol``,
as are the controller's configuration and the factors of priorities, which no API version shows.
Of a long queue the states are read first, where the API has them (Slurm 24.05 and later).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from slurm_ext.errors import SlurmUnavailableError, StillReadingError
from slurm_ext.model.job import Job
from slurm_ext.model.observation import Controller, Observation, Partition, Problem, Reservation
from slurm_ext.model.units import EpochS
from slurm_ext.slurm import json_nodes, text
from slurm_ext.slurm.json import parse_jobs, reports
from slurm_ext.slurm.json_reader import Parts, assemble, text_lists
from slurm_ext.slurm.priorities import NONE, read_priorities
from slurm_ext.slurm.rest_http import RestClient
from slurm_ext.slurm.rest_states import StatesFirst
from slurm_ext.slurm.run import Runner, escape
from slurm_ext.slurm.scalars import get, integer, objects
from slurm_ext.slurm.scalars import text as words_of
from slurm_ext.slurm.shares import Doubts

VERSIONS = range(38, 45)
"""v0.0.38 (22.05) to v0.0.44 (25.11, 26.05). v0.0.45 does not show which jobs ask for whole nodes.
"""
_FIRST_WHOLE = 39
"""From this one on partitions are shown in the nested form that says all we need."""
MAX_JOBS = 3000
"""More full records than this at once cost seconds, and slurmrestd gigabytes."""
AT_ONCE = 4
"""Records of a long queue that are asked for at the same time."""
_PATH = re.compile(r"/slurm/v0\.0\.(\d{1,4})/jobs(/?)")
_STATES = "/slurm/v0.0.{}/jobs/state/"
_NO_CHANGE = re.compile(r"\bno\b.*\bchange", re.IGNORECASE)
_GONE = ("nvalid job id", "Unable to find", "Unable to query JobId=")
"""What the releases say of a job that is not there (the last one with status 404)."""


class RestReader:
    """Reads Slurm through slurmrestd. Not for use by several threads.

    ``commands``: starts Slurm's own commands for what the API lacks. ``refused`` is called when
    slurmrestd does not take the token.
    """

    def __init__(
        self,
        client: RestClient,
        commands: Runner,
        refused: Callable[[], None],
        max_jobs: int = MAX_JOBS,
    ) -> None:
        self._client = client
        self._commands = commands
        self._refused = refused
        self._max_jobs = max_jobs
        self._doubts = Doubts()
        self._version: int | None = None
        self._slash = ""
        self._shows_states = False
        self._states: StatesFirst | None = None
        self._jobs: Any = None
        self._jobs_at_s: EpochS = 0

    def observe(self, *, site_factors: bool = False) -> Observation:
        """Everything of one moment; raises if any part is missing or carries an error."""
        diag = get(self._get("diag"), "statistics")
        now = integer(get(diag, "req_time"))
        if not now:
            raise self._error("diag", "no clock (req_time) in the answer")
        # Array tasks are counted one by one here: rather too careful than too late.
        queue = integer(get(diag, "jobs_pending")) + integer(get(diag, "jobs_running"))
        read = self._long_queue if self._is_long(queue) else self._short_queue
        with ThreadPoolExecutor(max_workers=5) as pool:
            jobs = pool.submit(read, now)
            nodes = pool.submit(self._get, "nodes")
            config = pool.submit(self.controller)
            lists = pool.submit(self._lists, now)
            asked = pool.submit(read_priorities, self._commands) if site_factors else None
            partitions, reservations, problems = lists.result()
            parts = Parts(
                controller=config.result(),
                now_s=now,
                jobs=jobs.result(),
                nodes=nodes.result(),
                partitions=partitions,
                reservations=reservations,
                problems=problems,
                priorities=asked.result() if asked else NONE,
            )
        return assemble(parts, self._doubts)

    def controller(self) -> Controller:
        """Version and configuration (``scontrol show config``: the API does not show it)."""
        return text.parse_config(self._commands.ask(["scontrol", "show", "config"]))[0]

    def siblings(self, job_id: int) -> list[Job]:
        """Fresh records of a job id; an array's id gives all its tasks; empty if it is gone."""
        return parse_jobs(self._record(job_id), 0)[0]

    def forget(self, job_ids: Iterable[int]) -> None:
        """These jobs are being changed by us: what is known of them is old."""
        if self._states is not None:
            self._states.forget(job_ids)

    def _record(self, job_id: int) -> Any:
        """The answer for one job; without jobs if it is gone."""
        status, document = self._ask(f"job/{job_id}")
        errors, _ = reports(document)
        none = not list(objects(get(document, "jobs"))) and status in (200, 404, 500)
        if none and any(sign in one for one in errors for sign in _GONE):
            return {"jobs": []}
        return self._checked(f"job/{job_id}", status, document)

    def rpc_counts(self) -> dict[str, int]:
        """Messages the controller has handled, by type."""
        rows = objects(get(self._get("diag"), "statistics", "rpcs_by_message_type"))
        return {words_of(row.get("message_type")): integer(row.get("count")) for row in rows}

    @property
    def api(self) -> str:
        """The form of the API in use (``v0.0.38``)."""
        if self._version is None:
            self._version = self._discover()
        return f"v0.0.{self._version}"

    @property
    def shows_lists(self) -> bool:
        """Whether this form shows partitions and reservations in full."""
        return int(self.api.rpartition(".")[2]) >= _FIRST_WHOLE

    def _discover(self) -> int:
        status, document = self._retried("/openapi/v3")
        paths = get(document, "paths")
        found = {
            int(match[1]): match[2]  # newer forms end in a slash
            for path in (paths if isinstance(paths, dict) else ())
            if (match := _PATH.fullmatch(path)) is not None
        }
        common = [number for number in found if number in VERSIONS]
        if not common:
            offered = ", ".join(f"v0.0.{number}" for number in sorted(found)) or "none"
            raise self._error(
                "openapi/v3", f"status {status}; API versions offered: {offered}; known here: "
                f"v0.0.{VERSIONS[0]} to v0.0.{VERSIONS[-1]}; see option -s of slurmrestd(8)"
            )  # fmt: skip
        newest = max(common)
        self._slash = found[newest]
        self._shows_states = _STATES.format(newest) in paths
        return newest

    def _lists(self, now: EpochS) -> tuple[list[Partition], list[Reservation], list[Problem]]:
        if not self.shows_lists:
            return text_lists(self._commands)
        partitions, problems = json_nodes.parse_partitions(self._get("partitions"))
        reservations, more = json_nodes.parse_reservations(self._get("reservations"), now)
        return partitions, reservations, problems + more

    def _is_long(self, queue: int) -> bool:
        """Whether to read states first; one that becomes short stays so until it is half as long.

        :raises SlurmUnavailableError: it is long, and this form of the API shows no states.
        """
        least = self._max_jobs // 2 if self._states is not None else self._max_jobs
        if queue <= least:
            self._states = None
            return False
        if not (self.api and self._shows_states):
            raise self._error(
                "diag", f"{queue} jobs are too many for {self.api} (at most {self._max_jobs}), "
                'which has no /jobs/state/ (Slurm 24.05); set slurm.backend = "cli"'
            )  # fmt: skip
        return True

    def _long_queue(self, now: EpochS) -> tuple[list[Job], list[Problem]]:
        """Records of what changed, as many of the others as there is time for, the rest as known.

        :raises StillReadingError: time is up; what has been read is kept for the next look.
        """
        states = self._states = self._states or StatesFirst()
        self._jobs = None
        stop_s = self._client.left_s() / 4
        states.begin(self._get("jobs/state/"))
        left = self._records(states, states.changed(), stop_s)
        if left:
            raise StillReadingError(
                f"slurmrestd {self._client.url}: {left} of {len(states)} jobs are still to be read"
            )
        self._records(states, states.aged(), stop_s)
        return states.jobs(now)

    def _records(self, states: StatesFirst, job_ids: Sequence[int], stop_s: float) -> int:
        """Read these while there are more than ``stop_s`` left; how many were not reached."""

        def ask(job_id: int) -> Any:
            return self._record(job_id) if self._client.left_s() >= stop_s else None

        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            for at in range(0, len(job_ids), 4 * AT_ONCE):
                some = [i for i in job_ids[at : at + 4 * AT_ONCE] if not states.current(i)]
                for number, document in enumerate(pool.map(ask, some)):
                    if document is None:
                        return len(job_ids) - at - number
                    states.put(some[number], document)
        return 0

    def _short_queue(self, now: EpochS) -> tuple[list[Job], list[Problem]]:
        return parse_jobs(self._changed_jobs(now), now)

    def _changed_jobs(self, now: EpochS) -> Any:
        """The jobs' document; the last one again where slurmctld says that nothing changed.

        ``update_time`` is the controller's clock before the last read: slurmctld itself allows
        for changes within that second.
        """
        since = f"update_time={self._jobs_at_s}" if self._jobs is not None else ""
        status, document = self._ask("jobs", since)
        if self._jobs is not None and (status == 304 or _unchanged(document)):
            return self._jobs
        self._jobs = self._checked("jobs", status, document)
        self._jobs_at_s = now
        return self._jobs

    def _get(self, what: str) -> Any:
        status, document = self._ask(what)
        return self._checked(what, status, document)

    def _ask(self, what: str, query: str = "") -> tuple[int, Any]:
        status, document = self._retried(self._path(what, query))
        if status == 404 and document is None:
            # slurmrestd was replaced by another version: find out again, once.
            self._version = None
            status, document = self._retried(self._path(what, query))
        return status, document

    def _path(self, what: str, query: str) -> str:
        api = self.api
        slash = "" if "/" in what else self._slash
        return f"/slurm/{api}/{what}{slash}{'?' if query else ''}{query}"

    def _retried(self, path: str) -> tuple[int, Any]:
        """With another token if this one is refused (it may have ended early)."""
        status, document = self._client.get(path)
        if status in (401, 403, 511):
            self._refused()
            status, document = self._client.get(path)
        if status in (401, 403, 511):
            self._refused()
            raise self._error(
                path, f"status {status}: the token is refused; has it ended, is it for this "
                "user (slurm.rest_user), and does slurmctld have AuthAltTypes=auth/jwt?"
            )  # fmt: skip
        return status, document

    def _checked(self, what: str, status: int, document: Any) -> Any:
        errors, _ = reports(document)
        if status != 200 or errors or document is None:
            said = "; ".join(errors) or "no answer"
            # Instead of refusing a bad token, 22.05 fails whatever is asked with it.
            self._refused()
            raise self._error(
                what, f"status {status}: {escape(said, 200)}; is the token right, and does "
                "slurmctld answer (`scontrol ping`)?"
            )  # fmt: skip
        return document

    def _error(self, what: str, said: str) -> SlurmUnavailableError:
        return SlurmUnavailableError(f"slurmrestd {self._client.url} {what}: {said}")


def _unchanged(document: Any) -> bool:
    """Whether an answer without jobs says that nothing changed, not that there are none.

    22.05 has a text of its own; newer releases warn, "No job changes since update_time[…]", and
    name no time of the last update.
    """
    if list(objects(get(document, "jobs"))):
        return False
    said: Sequence[str] = [one for part in reports(document) for one in part]
    last = get(document, "last_update")
    return any(map(_NO_CHANGE.search, said)) or (last is not None and not integer(last))
