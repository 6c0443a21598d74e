"""The process in which pyslurm runs: reads requests on stdin, writes answers on stdout.

Needs the standard library and pyslurm alone, so that any Python that has pyslurm can run this
file. pyslurm keeps the interpreter's lock during every call, waits for a hung munged without an
end, and ends the process on a bad slurm.conf: all of this is the parent's to notice.

A message is a length (four bytes, big-endian) and that many bytes of ASCII: a JSON object on the
first line, then one row of the answer a line, in JSON. A job's row is its id, its ``MOVING``
attributes and its ``COLUMNS``, with tabs between the three.
"""

from __future__ import annotations

import importlib
import json
import os
import pwd
import resource
import struct
import sys
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

MOVING = ("state_reason", "priority", "start_time", "end_time", "eligible_time")
"""Attributes that change without any change of what a job asks for or holds."""
ASKED = (
    "num_nodes", "max_nodes", "cpus", "ntasks", "cpus_per_task", "ntasks_per_node",
    "min_cpus_per_node", "memory_per_node", "memory_per_cpu", "memory_per_gpu", "cpus_per_gpu",
    "ntasks_per_gpu", "sockets_per_node", "temporary_disk_per_node",
    "cores_reserved_for_system", "threads_reserved_for_system", "constraints",
    "required_nodes", "excluded_nodes", "resource_sharing", "licenses",
    "requires_contiguous_nodes", "required_switches", "gres_per_node", "dependencies",
)  # fmt: skip
LASTING = (
    "state", "submit_time", "array_id", "array_task_id", "array_tasks_waiting",
    "array_tasks_parallel", "heterogeneous_id", "heterogeneous_offset", "name", "user_id",
    "account", "partition", "qos", "nice", "time_limit", "deadline", "allocated_nodes",
    "reservation", "comment", "admin_comment", "requeue_count", "is_batch_job",
    "is_requeueable", "is_cronjob", *ASKED,
)  # fmt: skip
DERIVED = ("user_name", "requested", "allocated", "layout", "unreadable")
"""``requested``, ``allocated``: TRES strings. ``layout``: node, CPU ids, MiB and GRES string of
each node held. ``unreadable``: attributes at which pyslurm raised."""
COLUMNS = (*LASTING, *DERIVED)
PARTITION = (
    "name", "nodes", "state", "max_time", "default_time", "max_nodes", "min_nodes",
    "priority_tier", "is_user_exclusive", "oversubscribe", "is_default", "is_hidden",
)  # fmt: skip
_HOLDS_NOTHING = frozenset(
    {"PENDING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
     "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
)  # fmt: skip
_HEAD = struct.Struct("!I")
_MAX_REQUEST = 64 << 20

Lines = Iterable[str]


def dump(value: Any) -> str:
    """One line of ASCII; what JSON does not know becomes its text."""
    return json.dumps(value, separators=(",", ":"), default=str)


def attributes(thing: Any, names: Iterable[str]) -> tuple[list[Any], list[str]]:
    """The attributes' values, and the names of those that raise (their value is None)."""
    values: list[Any] = []
    bad: list[str] = []
    for name in names:
        try:
            values.append(getattr(thing, name))
        except Exception:  # pyslurm raises what it likes on what it does not expect
            values.append(None)
            bad.append(name)
    return values, bad


def tres_text(tres: Any) -> str:
    """A TRES string again, from what pyslurm has made of it."""
    if tres is None:
        return ""
    parts = [f"cpu={tres.cpu.count}"] if tres.cpu else []
    parts += [f"{one.type_and_name}={one.count}" for one in tres.gres.values()]
    return ",".join(parts)


def gres_text(gres: dict[str, Any]) -> str:
    """A GRES string again: ``gpu:a100:2(IDX:4-5)``."""
    return ",".join(
        f"{name}:{value['count']}(IDX:{value['indexes']})"
        if isinstance(value, dict)
        else f"{name}:{value}"
        for name, value in gres.items()
    )


def layout(job: Any) -> list[list[Any]]:
    """What the job holds, node by node."""
    held = job.get_resource_layout_per_node()
    return [
        [node, one["cpu_ids"] or "", one["memory"] or 0, gres_text(one["gres"] or {})]
        for node, one in held.items()
    ]


class Names:
    """User names, each asked for once."""

    def __init__(self) -> None:
        self._known: dict[Any, str] = {}

    def of(self, uid: Any) -> str:
        if uid not in self._known:
            try:
                self._known[uid] = pwd.getpwuid(uid).pw_name
            except (KeyError, TypeError):
                return str(uid)
        return self._known[uid]


def job_row(job: Any, names: Names) -> str:
    """One job's line."""
    moving, bad_moving = attributes(job, MOVING)
    values, bad = attributes(job, LASTING)
    idle = values[_STATE] in _HOLDS_NOTHING
    derived: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("user_name", lambda: names.of(values[_UID])),
        ("requested", lambda: tres_text(job.requested_tres)),
        ("allocated", lambda: "" if idle else tres_text(job.allocated_tres)),
        ("layout", lambda: [] if idle else layout(job)),
    )
    for name, ask in derived:
        try:
            values.append(ask())
        except Exception:
            values.append(None)
            bad.append(name)
    return f"{job.id}\t{dump(moving)}\t{dump([*values, bad_moving + bad])}"


_UID, _STATE = LASTING.index("user_id"), LASTING.index("state")


class Service:
    """Does what requests ask for. Imports pyslurm when it is made."""

    def __init__(self, conf: str) -> None:
        os.environ["PYSLURM_DISABLE_AUTO_INIT"] = "1"
        pyslurm = importlib.import_module("pyslurm")
        self._slurm = pyslurm
        self._names = Names()
        pyslurm.slurm_init(conf or None)

    @property
    def version(self) -> str:
        return str(self._slurm.__version__)

    def jobs(self, request: dict[str, Any]) -> Lines:
        """All jobs, or those of ``ids``; what is gone is left out."""
        if "ids" not in request:
            return [job_row(job, self._names) for job in self._slurm.Jobs.load().values()]
        lines: list[str] = []
        for job_id in request["ids"]:
            try:
                lines.append(job_row(self._slurm.Job.load(job_id), self._names))
            except self._slurm.RPCError as error:
                if error.errno != INVALID_JOB_ID:
                    raise
        return lines

    def partitions(self, _: dict[str, Any]) -> Lines:
        """All partitions; one with an attribute that cannot be read has its names in the end."""
        found = self._slurm.Partitions.load().values()
        return [dump([*v, bad]) for v, bad in (attributes(one, PARTITION) for one in found)]

    def statistics(self, _: dict[str, Any]) -> Lines:
        """Messages handled so far, by type."""
        counts = self._slurm.slurmctld.Statistics.load().rpcs_by_type
        return [dump([str(name), one.count]) for name, one in counts.items()]

    def update(self, request: dict[str, Any]) -> Lines:
        """One row a change: error number and text, 0 for none."""
        return [dump(self._update(**change)) for change in request["changes"]]

    def _update(self, job: int, do: str, values: dict[str, Any]) -> list[Any]:
        one = self._slurm.Job(job)
        try:
            if do == "hold":
                one.hold()
            elif do == "release":
                one.release()
            else:
                one.modify(self._slurm.JobSubmitDescription(**values))
        except self._slurm.RPCError as error:
            return [error.errno, str(error.msg)]
        return [0, ""]


INVALID_JOB_ID = 2017
OPERATIONS = ("jobs", "partitions", "statistics", "update")


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the parent closes the pipe. The first answer says who we are."""
    service: Service | None = None
    while head := requests.read(_HEAD.size):
        (size,) = _HEAD.unpack(head)
        if size > _MAX_REQUEST:
            raise ValueError(f"a request of {size} bytes")
        request = json.loads(requests.read(size))
        lines: Lines = []
        said: dict[str, Any] = {"id": request["id"]}
        try:
            if service is None:
                service = Service(request["conf"])
                said["version"] = service.version
            elif request["do"] in OPERATIONS:
                lines = getattr(service, request["do"])(request)
        except Exception as error:
            said["error"] = [getattr(error, "errno", None), f"{type(error).__name__}: {error}"]
        answer = "\n".join([dump(said), *lines]).encode("ascii")
        answers.write(_HEAD.pack(len(answer)) + answer)
        answers.flush()


def main() -> None:
    """``native_child.py MIB``: the size this process may have."""
    limit = int(sys.argv[1]) << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libslurm prints must not get into the answers
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
