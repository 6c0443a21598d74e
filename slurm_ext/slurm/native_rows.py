"""From what pyslurm says of a job, and what the commands add, to a ``Job``. Pure.

pyslurm 25.11 shows no raw TRES request, drops the numbers 0 (array task 0, het offset 0) and the
text ``None``, and turns dependencies into something else: those come from ``squeue``
(:class:`Gaps`). Everything here reads tolerantly: a value of a strange type is as good as none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from slurm_ext.model.job import BaseState, Job, JobKey, JobState, NodeShare, Request
from slurm_ext.model.observation import Problem
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.arrays import NO_ARRAY, Tasks, parse_tasks
from slurm_ext.slurm.details import Held, spans
from slurm_ext.slurm.gres import held_gpus
from slurm_ext.slurm.hosts import expand, names
from slurm_ext.slurm.jobs import clean, reason_token
from slurm_ext.slurm.native_child import COLUMNS, MOVING
from slurm_ext.slurm.request import RawRequest, build_request
from slurm_ext.slurm.scalars import integer, moment, number, words
from slurm_ext.slurm.shares import held_shares, spread_shares
from slurm_ext.slurm.squeue import Record
from slurm_ext.slurm.states import job_state_of_text
from slurm_ext.slurm.tres import parse_tres

Row = Mapping[str, Any]

_NOTHING = frozenset({"", "(null)", "N/A", "None assigned"})
_EXCLUSIVE = {"NO": "NODE", "USER": "USER", "MCS": "MCS", "TOPO": "TOPO"}
_TEXTS = ("name", "comment", "admin_comment")
_KEYED = (
    "submit_time", "requested", "gres_per_node", "dependencies", "cpus_per_gpu",
    "memory_per_gpu", "ntasks_per_gpu",
)  # fmt: skip


class Gaps(NamedTuple):
    """What pyslurm does not show, as ``squeue`` prints it."""

    submit: str = ""
    name: str = ""
    comment: str = ""
    admin_comment: str = ""
    array_tasks: str = ""
    dependency: str = ""
    tres_per_node: str = ""
    tres_per_job: str = ""
    tres_per_task: str = ""
    tres_per_socket: str = ""
    cpus_per_tres: str = ""
    mem_per_tres: str = ""

    @staticmethod
    def of(record: Record) -> Gaps:
        """The gaps' part of a squeue record."""
        found = record._replace(dependency=record.dependency.strip())
        shown = (getattr(found, name) for name in Gaps._fields)
        return Gaps(*("" if value in _NOTHING else value for value in shown))


class Line(NamedTuple):
    """One job's line of the child, cut but not yet read."""

    job_id: int
    moving: str
    lasting: str

    @staticmethod
    def cut(line: str) -> Line | None:
        """None: not of the agreed form."""
        parts = line.split("\t")
        if len(parts) != 3 or not parts[0].isdecimal() or len(parts[0]) > 11:
            return None
        return Line(int(parts[0]), parts[1], parts[2])


def read_lasting(line: Line) -> Row | None:
    """The columns of a line; None: not of the agreed form."""
    return _named(line.lasting, COLUMNS)


def _named(raw: str, columns: tuple[str, ...]) -> Row | None:
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or len(values) != len(columns):
        return None
    return dict(zip(columns, values, strict=True))


def gaps_key(row: Row) -> str:
    """The gaps need not be asked for again while this stays the same."""
    lost = [row[name] is None for name in _TEXTS]
    return json.dumps([*lost, array_in_doubt(row), *(row[name] for name in _KEYED)])


def array_in_doubt(row: Row) -> bool:
    """Task 0 of an array that has ended, or an array that ended with no task left?"""
    return (
        row["array_id"] is not None
        and row["array_task_id"] is None
        and row["array_tasks_waiting"] is None
        and job_state_of_text(_text(row["state"])).ended
    )


def unreadable(row: Row) -> bool:
    """Whether pyslurm raised at some attribute: the commands must show this job."""
    return bool(row["unreadable"])


def build(
    line: Line, row: Row, gaps: Gaps | None, threads: Mapping[str, int], problems: list[Problem]
) -> Job:
    """The job, without its moving part. ``gaps`` None: the commands do not show it (any more).

    ``threads``: threads per core by node (pyslurm counts cores for CPUs).
    """

    def complain(what: str, value: str) -> None:
        text = f"{what} not readable: {value[:200]!r}"
        problems.append(Problem("job", str(line.job_id), text))

    known = Gaps() if gaps is None else gaps
    state = job_state_of_text(_text(row["state"]))
    raw = _raw_request(row, known, state)._replace(seen=gaps is not None or state.ended)
    request, bad = build_request(raw)
    for part in bad:
        complain("request", part)
    tasks = _tasks(row, known)
    if tasks.count is None:
        complain("array task list", tasks.tasks)
    limit = number(row["time_limit"])
    het = integer(row["heterogeneous_id"])
    name, comment, admin = (clean(_text(row[key]) or getattr(known, key)) for key in _TEXTS)
    return Job(
        key=JobKey(line.job_id, integer(row["submit_time"])),
        name=name,
        user=_text(row["user_name"]),
        account=_text(row["account"]),
        partitions=words(row["partition"]),
        state=state,
        request=request,
        uid=integer(row["user_id"], -1),
        qos=_text(row["qos"]),
        nice=integer(row["nice"]),
        limit_s=limit * 60 if isinstance(limit, int) else None,
        deadline_s=moment(row["deadline"]),
        alloc=_alloc(line.job_id, row, state, request, threads, problems),
        ran_on=names(_text(row["allocated_nodes"])) if state.ended else (),
        array_job_id=0 if tasks == NO_ARRAY else integer(row["array_id"]),
        array_task_id=tasks.task,
        array_tasks=tasks.tasks,
        array_count=1 if tasks.count is None else tasks.count,
        array_throttle=tasks.throttle,
        het_job_id=het,
        het_offset=integer(row["heterogeneous_offset"]) if het else None,
        reservation=_text(row["reservation"]),
        dependency=known.dependency,
        comment=comment,
        admin_comment=admin,
        restarts=integer(row["requeue_count"]),
        batch=row["is_batch_job"] is not False,
        requeueable=again if isinstance(again := row["is_requeueable"], bool) else None,
        cron=row["is_cronjob"] is True,
    )


def moved(job: Job, line: Line) -> Job:
    """The job with its moving part; ``begin_s`` may lie in the past."""
    row = _named(line.moving, MOVING) or dict.fromkeys(MOVING)
    reason = _text(row["state_reason"])
    return replace(
        job,
        reason=reason_token(reason),
        reason_text="" if reason == "None" else clean(reason),
        priority=integer(row["priority"]),
        begin_s=moment(row["eligible_time"]) if job.state.pending else None,
        start_s=moment(row["start_time"]),
        # Without a limit some versions make an end up (a year, or later than any clock).
        end_s=moment(row["end_time"]) if job.limit_s is not None else None,
    )


def due(job: Job, now: EpochS) -> Job:
    """The job without a begin time that has passed."""
    if job.begin_s is not None and job.begin_s <= now:
        return replace(job, begin_s=None)
    return job


def _text(value: Any) -> str:
    return "" if not isinstance(value, str) or value in _NOTHING else value


def _joined(value: Any) -> str:
    return ",".join(words(value))


def _tasks(row: Row, gaps: Gaps) -> Tasks:
    if not integer(row["array_id"]):
        return NO_ARRAY
    if isinstance(row["array_task_id"], int):
        return Tasks(task=row["array_task_id"])
    waiting = _text(row["array_tasks_waiting"])
    if not waiting:
        # Number 0 shows as none.
        return parse_tasks(gaps.array_tasks) if array_in_doubt(row) else Tasks(task=0)
    limit = integer(row["array_tasks_parallel"])
    return parse_tasks(f"{waiting}%{limit}" if limit else waiting)


def _raw_request(row: Row, gaps: Gaps, state: JobState) -> RawRequest:
    per_cpu, per_node = number(row["memory_per_cpu"]), number(row["memory_per_node"])
    mem_cpu = per_cpu if isinstance(per_cpu, int) else None
    mem_node = per_node if isinstance(per_node, int) else None
    if mem_cpu is None and mem_node is None and not gaps.mem_per_tres:
        mem_node = 0  # all of the node; a 0 shows as none
    tasks = integer(row["ntasks"], 1)
    return RawRequest(
        nodes_min=integer(row["num_nodes"], 1),
        # As in text: the range asked for is shown while a job waits.
        nodes_max=integer(row["max_nodes"]) if state.base is BaseState.PENDING else 0,
        cpus=integer(row["cpus"], 1),
        tasks=tasks if tasks < 0xFFFFFF00 else 1,
        cpus_per_task=integer(row["cpus_per_task"], 1),
        tasks_per_node=integer(row["ntasks_per_node"]),
        min_cpus_node=integer(row["min_cpus_per_node"], 1),
        mem_node_mib=mem_node,
        mem_cpu_mib=mem_cpu,
        tres_per_node=gaps.tres_per_node,
        tres_per_job=gaps.tres_per_job,
        tres_per_task=gaps.tres_per_task,
        tres_per_socket=gaps.tres_per_socket,
        cpus_per_tres=gaps.cpus_per_tres,
        mem_per_tres=gaps.mem_per_tres,
        features=_joined(row["constraints"]),
        required=_text(row["required_nodes"]),
        excluded=_text(row["excluded_nodes"]),
        exclusive=_EXCLUSIVE.get(_text(row["resource_sharing"]), ""),
        contiguous=row["requires_contiguous_nodes"] is True,
        switches=integer(row["required_switches"]),
        core_spec=integer(row["cores_reserved_for_system"]) > 0
        or row["threads_reserved_for_system"] is not None,
        tasks_per_gpu=integer(row["ntasks_per_gpu"]),
        sockets_per_node=integer(row["sockets_per_node"]),
        tmp_disk=integer(row["temporary_disk_per_node"]) > 0,
    )


def _alloc(
    job_id: int,
    row: Row,
    state: JobState,
    request: Request,
    threads: Mapping[str, int],
    problems: list[Problem],
) -> tuple[NodeShare, ...]:
    shown = _text(row["allocated_nodes"])
    if not state.occupies or not shown:
        return ()
    nodes = expand(shown)
    if nodes is None:
        problems.append(Problem("job", str(job_id), f"node list not readable: {shown[:200]!r}"))
        return ()
    tres = parse_tres(_text(row["allocated"]))
    held = _held(row["layout"], threads)
    if held and sum(one.cpus for one in held) < tres.cpus and len(held) == len(nodes):
        held = ()  # pyslurm cuts long lists of CPU ids
    shares = held_shares(nodes, held, tres.gpus)
    if shares is not None:
        return shares
    problems.append(Problem("job", str(job_id), COUNTS_ONLY))
    return spread_shares(nodes, integer(row["cpus"]), tres, request)


COUNTS_ONLY = "allocation details missing or contradictory: counts only"


def _held(layout: Any, threads: Mapping[str, int]) -> tuple[Held, ...]:
    held: list[Held] = []
    for one in layout if isinstance(layout, list) else ():
        if not (isinstance(one, list) and len(one) == 4 and isinstance(one[0], str)):
            return ()
        cores = spans(_text(one[1]))
        if cores is None:
            return ()
        each = threads.get(one[0], 1)
        ids = tuple((first * each, (last + 1) * each - 1) for first, last in cores)
        cpus = sum(last - first + 1 for first, last in ids)
        held.append(Held(one[0], cpus, integer(one[2]), held_gpus(_text(one[3])), ids))
    return tuple(held)
