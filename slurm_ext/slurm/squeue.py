"""The one ``squeue`` call that shows every job, and how its answer is cut into records.

The separators are random and known to nobody: they travel in the environment
(``SQUEUE_FORMAT2``), which other users cannot read, unlike a command line. So no job name or
comment can shift a column or fake a record, whatever bytes it holds.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import NamedTuple

_PASSING = ("jobid", "reason", "prioritylong", "starttime", "endtime", "eligibletime")
"""Come first: they change without any change of what the job asks for or holds."""

FIELDS = (
    *_PASSING,
    "state", "arraytaskid", "arrayjobid", "hetjobid", "hetjoboffset",
    "name", "username", "userid", "account", "partition", "qos", "nice",
    "timelimit", "submittime", "deadline",
    "numnodes", "numcpus", "numtasks", "nodelist", "tres-alloc",
    "tres-per-node", "tres-per-job", "tres-per-task", "tres-per-socket",
    "cpus-per-tres", "mem-per-tres", "reqswitch", "reservation", "dependency",
    "comment", "admin_comment", "restartcnt", "batchflag", "requeue",
)  # fmt: skip
"""Fields of ``squeue -O`` that every version from 22.05 to 26.05 has."""

WATCHED = (
    "reqnodes", "feature", "minmemory", "mincpus", "maxnodes", "cpus-per-task", "ntpernode",
    "oversubscribe", "licenses", "contiguous", "mintmpdisk", "corespec", "sockets",
)  # fmt: skip
"""Not read here, only compared: a change in them says that the details have changed."""

DEPENDENCY_CHARS = 200
"""A dependency may be 128 KiB long, and every job of a user may have one; the start is enough."""

_WIDTH = {"dependency": str(DEPENDENCY_CHARS)}

ARGUMENTS = ("-h", "-a", "-t", "all", "--local", "--noconvert")
"""``-t all``: unknown states are filtered here, not by name."""


class Record(NamedTuple):
    """One job as squeue prints it, in the order of ``FIELDS``."""

    job_id: str
    reason: str
    priority: str
    start: str
    end: str
    eligible: str
    state: str
    array_tasks: str
    array_job: str
    het_job: str
    het_offset: str
    name: str
    user: str
    uid: str
    account: str
    partition: str
    qos: str
    nice: str
    limit: str
    submit: str
    deadline: str
    nodes: str
    cpus: str
    tasks: str
    nodelist: str
    tres: str
    tres_per_node: str
    tres_per_job: str
    tres_per_task: str
    tres_per_socket: str
    cpus_per_tres: str
    mem_per_tres: str
    switches: str
    reservation: str
    dependency: str
    comment: str
    admin_comment: str
    restarts: str
    batch: str
    requeue: str


@dataclass(frozen=True, slots=True)
class Framing:
    """The secret separators of one process."""

    field: str
    record: str

    @staticmethod
    def fresh() -> Framing:
        # A suffix must not begin with a digit, a dot, a comma or a colon (opts.c).
        return Framing(f"~{secrets.token_hex(5)}~", f"~{secrets.token_hex(7)}~")

    @property
    def format(self) -> str:
        """The value of ``SQUEUE_FORMAT2``: full widths, a separator after each field."""
        *inner, last = (*FIELDS, *WATCHED)
        words = [f"{name}:{_WIDTH.get(name, '')}{self.field}" for name in inner]
        return ",".join([*words, f"{last}:{self.record}"])

    def records(self, output: str) -> tuple[list[str], str]:
        """The raw records, and what is left after the last end mark (empty if complete)."""
        *raw, rest = output.split(self.record + "\n")
        return raw, rest.strip("\n")

    def cut(self, raw: str) -> Record | None:
        """The fields of one raw record; None if their number is wrong (a truncated answer)."""
        fields = raw.split(self.field)
        if len(fields) != len(FIELDS) + len(WATCHED):
            return None
        return Record(*fields[: len(FIELDS)])

    def lasting(self, raw: str) -> str:
        """The record without the fields that change by themselves."""
        return raw.split(self.field, len(_PASSING))[-1]

    def state_and_tasks(self, raw: str) -> tuple[str, str]:
        """State and array task list of a raw record, without cutting all of it."""
        parts = raw.split(self.field, len(_PASSING) + 2)
        return (parts[-3], parts[-2]) if len(parts) == len(_PASSING) + 3 else ("", "")
