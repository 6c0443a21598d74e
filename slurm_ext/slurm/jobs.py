"""From one squeue record (and the details of ``scontrol -d show job``) to a ``Job``."""

from __future__ import annotations

import re
from functools import lru_cache

from slurm_ext.model.job import Job, JobKey, JobState, NodeShare, Request
from slurm_ext.model.observation import Problem
from slurm_ext.slurm.arrays import parse_tasks
from slurm_ext.slurm.details import Chunk, Details, Held, parse_chunk
from slurm_ext.slurm.hosts import expand, names
from slurm_ext.slurm.request import RawRequest, build_request
from slurm_ext.slurm.shares import held_shares, spread_shares
from slurm_ext.slurm.squeue import Record
from slurm_ext.slurm.states import job_state_of_text
from slurm_ext.slurm.times import Special, duration_s, known, moment_s
from slurm_ext.slurm.tres import Tres, parse_tres

_NOTHING = frozenset({"", "(null)", "N/A", "None assigned"})
_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\([^)]*\))?")
_SENTENCES = (
    ("ReqNodeNotAvail", "ReqNodeNotAvail"),
    ("Nodes required for job are DOWN", "Resources"),
    ("job requeued in held state", "JobHeldUser"),
    ("job requeued in special exit state", "JobHeldUser"),
    ("launch failed requeued held", "JobHeldUser"),
    ("user env retrieval failed requeued held", "JobHeldUser"),
    ("launch failure limit exceeded requeued held", "JobHoldMaxRequeue"),
)
"""Where Slurm prints a sentence in place of the token (``state_description`` in JSON)."""


@lru_cache(maxsize=1024)
def reason_token(text: str) -> str:
    """The token of a reason text; the first word of a sentence that is not known (never raises)."""
    spaced = text.replace("_", " ")
    for start, token in _SENTENCES:
        if spaced.startswith(start):
            return token
    found = _TOKEN.match(text)
    return "" if found is None or found[0] == "None" else found[0]


def clean(text: str) -> str:
    """Text that any encoder takes: bytes that are no UTF-8 become ``\\xNN``."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _text(value: str) -> str:
    return "" if value in _NOTHING else clean(value)


def _int(value: str, default: int = 0) -> int:
    digits = value[1:] if value[:1] == "-" else value
    return int(value) if digits.isdecimal() and len(digits) < 20 else default


def job_id_of(record: Record) -> int | None:
    """The job id of a record, or None."""
    value = record.job_id
    return int(value) if value.isdecimal() and value.isascii() and len(value) < 12 else None


def job_of_record(record: Record, chunk: Chunk | None, problems: list[Problem]) -> Job:
    """One Job; whatever cannot be read goes into ``problems`` and leaves a safe value.

    A job that occupies nodes keeps occupying them even when all else is unreadable. A pending
    job without details is marked ``details_not_read`` in ``request.unplannable``.
    """

    def complain(what: str, value: str) -> None:
        problems.append(Problem("job", record.job_id, f"{what} not readable: {value[:200]!r}"))

    details = None if chunk is None else parse_chunk(chunk.text)
    state = job_state_of_text(record.state)
    tres = parse_tres(record.tres)
    request, unreadable = _request(chunk, record[_SIZES], record[_TRES])
    for part in unreadable:
        complain("request", part)
    submit = moment_s(record.submit)
    if not isinstance(submit, int):
        complain("submit time", record.submit)
    limit = duration_s(record.limit)
    if limit is Special.UNREADABLE:
        complain("time limit", record.limit)
    # squeue shows an array with its separately changed tasks folded back in.
    shown = record.array_tasks if chunk is None else chunk.array_tasks or record.array_tasks
    tasks = parse_tasks(shown)
    if tasks.count is None:
        complain("array task list", shown)
    job_id = _int(record.job_id)
    array_job = _int(record.array_job) if record.array_tasks not in _NOTHING else 0
    priority = _int(record.priority)
    return Job(
        key=JobKey(job_id, submit if isinstance(submit, int) else 0),
        name=clean(record.name),
        user=_text(record.user),
        account=_text(record.account),
        partitions=tuple(part for part in record.partition.split(",") if part not in _NOTHING),
        state=state,
        request=request,
        uid=_int(record.uid, -1),
        qos=_text(record.qos),
        reason=reason_token(record.reason),
        reason_text="" if record.reason == "None" else clean(record.reason),
        priority=priority,
        nice=_int(record.nice),
        limit_s=known(limit),
        begin_s=known(moment_s(record.eligible)) if state.pending else None,
        start_s=known(moment_s(record.start)),
        # Without a limit some versions make an end up (a year, or later than any clock).
        end_s=known(moment_s(record.end)) if isinstance(limit, int) else None,
        deadline_s=known(moment_s(record.deadline)),
        alloc=_alloc(record, state, request, tres, details, problems),
        ran_on=names(record.nodelist) if state.ended else (),
        array_job_id=array_job,
        array_task_id=tasks.task,
        array_tasks=tasks.tasks,
        array_count=1 if tasks.count is None else tasks.count,
        array_throttle=tasks.throttle,
        het_job_id=_int(record.het_job),
        het_offset=_int(record.het_offset) if _int(record.het_job) else None,
        reservation=_text(record.reservation),
        dependency=_text(record.dependency.strip()),
        comment=_text(record.comment),
        admin_comment=_text(record.admin_comment),
        restarts=_int(record.restarts),
        batch=record.batch != "0",
        requeueable={"1": True, "0": False}.get(record.requeue),
        cron=chunk is not None and chunk.cron,
    )


_SIZES = slice(Record._fields.index("nodes"), Record._fields.index("tasks") + 1)
_TRES = slice(Record._fields.index("tres_per_node"), Record._fields.index("switches") + 1)


@lru_cache(maxsize=16384)
def _request(
    chunk: Chunk | None, sizes: tuple[str, ...], tres: tuple[str, ...]
) -> tuple[Request, tuple[str, ...]]:
    """Sizes from the details (exact), TRES strings from squeue (they stand after free text).

    ``sizes``: nodes, CPUs and tasks of the record, for a job without details.
    """
    nodes, cpus, tasks = (_int(value, 1) for value in sizes)
    shown = Details(nodes, 0, cpus, tasks) if chunk is None else parse_chunk(chunk.text)
    asked = ["" if value in _NOTHING else value for value in tres]
    raw = RawRequest(
        nodes_min=shown.nodes_min,
        nodes_max=shown.nodes_max,
        cpus=shown.cpus,
        tasks=shown.tasks if shown.tasks < 0xFFFFFF00 else 1,
        cpus_per_task=shown.cpus_per_task,
        tasks_per_node=shown.tasks_per_node,
        min_cpus_node=shown.min_cpus_node,
        mem_node_mib=shown.mem_node_mib,
        mem_cpu_mib=shown.mem_cpu_mib,
        tres_per_node=asked[0],
        tres_per_job=asked[1],
        tres_per_task=asked[2],
        tres_per_socket=asked[3],
        cpus_per_tres=asked[4],
        mem_per_tres=asked[5],
        features=shown.features,
        required=shown.required,
        excluded=shown.excluded,
        exclusive=shown.exclusive,
        contiguous=shown.contiguous,
        switches=_int(asked[6].partition("@")[0]),
        core_spec=shown.core_spec,
        tasks_per_gpu=0 if chunk is None else chunk.tasks_per_gpu,
        sockets_per_node=shown.sockets_per_node,
        tmp_disk=shown.tmp_disk,
        seen=chunk is not None,
    )
    return build_request(raw)


def _alloc(
    record: Record,
    state: JobState,
    request: Request,
    tres: Tres,
    details: Details | None,
    problems: list[Problem],
) -> tuple[NodeShare, ...]:
    if not state.occupies or record.nodelist in _NOTHING:
        return ()
    nodes = expand(record.nodelist)
    if nodes is None:
        problems.append(
            Problem("job", record.job_id, f"node list not readable: {record.nodelist[:200]!r}")
        )
        return ()
    held: tuple[Held, ...] = () if details is None or details.held is None else details.held
    shares = held_shares(nodes, held, tres.gpus)
    if shares is not None:
        return shares
    problems.append(
        Problem("job", record.job_id, "allocation details missing or contradictory: counts only")
    )
    return spread_shares(nodes, _int(record.cpus), tres, request)
