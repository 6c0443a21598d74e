"""Jobs from ``squeue --json``, all data parsers from v0.0.38 (22.05) to v0.0.45 (26.05)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slurm_ext.model.job import BaseState, Job, JobKey, JobState, NodeShare, Request
from slurm_ext.model.observation import Problem
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.arrays import NO_ARRAY, Tasks, parse_tasks
from slurm_ext.slurm.details import Held
from slurm_ext.slurm.gres import held_gpus
from slurm_ext.slurm.hosts import expand, names
from slurm_ext.slurm.jobs import clean
from slurm_ext.slurm.request import RawRequest, build_request
from slurm_ext.slurm.scalars import get, integer, moment, number, objects, text, words
from slurm_ext.slurm.shares import held_shares, spread_shares
from slurm_ext.slurm.squeue import DEPENDENCY_CHARS
from slurm_ext.slurm.states import job_state_of_json
from slurm_ext.slurm.tres import parse_tres

_EXCLUSIVE = {"none": "NODE", "user": "USER", "mcs": "MCS", "topo": "TOPO"}


def reports(document: Any) -> tuple[list[str], list[str]]:
    """Errors and warnings a JSON answer carries (the exit code may be 0 all the same)."""

    def lines(key: str) -> list[str]:
        return [
            text(item.get("description")) or text(item.get("error")) or repr(item)[:200]
            for item in objects(get(document, key))
        ]

    return lines("errors"), lines("warnings")


def parse_jobs(document: Any, now: EpochS) -> tuple[list[Job], list[Problem]]:
    """All jobs of ``squeue --json``; one that cannot be read in full becomes a problem as well."""
    jobs: list[Job] = []
    problems: list[Problem] = []
    for record in objects(get(document, "jobs")):
        job_id = number(record.get("job_id"))
        if isinstance(job_id, int) and job_id > 0:
            jobs.append(_job(record, job_id, now, problems))
        else:
            problems.append(Problem("job", "?", f"no job id: {repr(record)[:200]}"))
    return jobs, problems


def _job(record: dict[str, Any], job_id: int, now: EpochS, problems: list[Problem]) -> Job:
    state = job_state_of_json(record.get("job_state"))
    request, unreadable = build_request(_raw_request(record, state))
    problems.extend(
        Problem("job", str(job_id), f"request not readable: {part[:200]!r}") for part in unreadable
    )
    limit, end = number(record.get("time_limit")), moment(record.get("end_time"))
    eligible = moment(record.get("eligible_time"))
    tasks = _tasks(record)
    if tasks.count is None:
        problems.append(Problem("job", str(job_id), f"array task list not readable: {tasks.tasks}"))
    reason = text(record.get("state_reason"))
    sentence = text(record.get("state_description"))
    het = integer(record.get("het_job_id"))
    return Job(
        key=JobKey(job_id, integer(record.get("submit_time"))),
        name=clean(name if isinstance(name := record.get("name"), str) else ""),
        user=text(record.get("user_name")),
        account=text(record.get("account")),
        partitions=words(record.get("partition")),
        state=state,
        request=request,
        uid=integer(record.get("user_id"), -1),
        qos=text(record.get("qos")),
        reason="" if reason == "None" else reason,
        reason_text=sentence or ("" if reason == "None" else reason),
        priority=integer(record.get("priority")),
        nice=integer(record.get("nice")),
        limit_s=limit * 60 if isinstance(limit, int) else None,
        begin_s=eligible if eligible and eligible > now and state.pending else None,
        start_s=moment(record.get("start_time")),
        end_s=end if isinstance(limit, int) else None,
        deadline_s=moment(record.get("deadline")),
        alloc=_alloc(record, job_id, state, request, problems),
        ran_on=names(text(record.get("nodes"))) if state.ended else (),
        # As in text: an array that was cancelled with no task left shows its id alone.
        array_job_id=0 if tasks == NO_ARRAY else integer(record.get("array_job_id")),
        array_task_id=tasks.task,
        array_tasks=tasks.tasks,
        array_count=1 if tasks.count is None else tasks.count,
        array_throttle=tasks.throttle,
        het_job_id=het,
        het_offset=integer(record.get("het_job_offset")) if het else None,
        reservation=text(record.get("resv_name")),
        dependency=text(record.get("dependency"))[:DEPENDENCY_CHARS],
        comment=clean(text(record.get("comment"))),
        admin_comment=clean(text(record.get("admin_comment"))),
        restarts=integer(record.get("restart_cnt")),
        batch=record.get("batch_flag") is not False,
        requeueable=requeue if isinstance(requeue := record.get("requeue"), bool) else None,
        cron=bool(text(record.get("cron"))) or "CRON_JOB" in words(record.get("flags")),
    )


def _tasks(record: dict[str, Any]) -> Tasks:
    task = number(record.get("array_task_id"))
    if isinstance(task, int) and integer(record.get("array_job_id")):
        return Tasks(task=task)
    return parse_tasks(text(record.get("array_task_string")))


def _raw_request(record: dict[str, Any], state: JobState) -> RawRequest:
    per_cpu, per_node = number(record.get("memory_per_cpu")), number(record.get("memory_per_node"))
    tres = parse_tres(text(record.get("tres_req_str")))
    shared = words(record.get("shared")) or words(record.get("exclusive"))
    switches = record.get("required_switches", record.get("minimum_switches"))
    per_gpu = record.get("tasks_per_tres", record.get("ntasks_per_tres"))
    cpu_tres = text(record.get("tres_per_task"))
    return RawRequest(
        nodes_min=integer(record.get("node_count"), 1),
        # As in text: the range asked for is shown while a job waits.
        nodes_max=integer(record.get("max_nodes")) if state.base is BaseState.PENDING else 0,
        # v0.0.38 shows null for cpus, tasks and CPUs per task that were not asked for.
        cpus=integer(record.get("cpus")) or tres.cpus or 1,
        tasks=integer(record.get("tasks")),
        cpus_per_task=integer(record.get("cpus_per_task")) or parse_tres(cpu_tres).cpus or 1,
        tasks_per_node=integer(record.get("tasks_per_node")),
        min_cpus_node=integer(record.get("minimum_cpus_per_node"), 1),
        # v0.0.38 shows null for both where the whole node's memory is meant (0 elsewhere).
        mem_node_mib=per_node
        if isinstance(per_node, int)
        else None
        if isinstance(per_cpu, int)
        else 0,
        mem_cpu_mib=per_cpu if isinstance(per_cpu, int) else None,
        tres_per_node=text(record.get("tres_per_node")),
        tres_per_job=text(record.get("tres_per_job")),
        tres_per_task=cpu_tres,
        tres_per_socket=text(record.get("tres_per_socket")),
        cpus_per_tres=text(record.get("cpus_per_tres")),
        mem_per_tres=text(record.get("memory_per_tres")),
        features=text(record.get("features")),
        required=text(record.get("required_nodes")),
        excluded=text(record.get("excluded_nodes")),
        exclusive=next((_EXCLUSIVE[word] for word in shared if word in _EXCLUSIVE), ""),
        contiguous=record.get("contiguous") is True,
        switches=integer(switches),
        core_spec=integer(record.get("core_spec")) > 0,
        segment=integer(record.get("segment_size")),  # shown from 25.11 on, not in text
        tasks_per_gpu=integer(per_gpu),
        sockets_per_node=integer(record.get("sockets_per_node")),
        tmp_disk=integer(record.get("minimum_tmp_disk_per_node")) > 0,
    )


def _alloc(
    record: dict[str, Any], job_id: int, state: JobState, request: Request, problems: list[Problem]
) -> tuple[NodeShare, ...]:
    shown = text(record.get("nodes"))
    if not state.occupies or not shown:
        return ()
    nodes = expand(shown)
    if nodes is None:
        problems.append(Problem("job", str(job_id), f"node list not readable: {shown[:200]!r}"))
        return ()
    tres = parse_tres(text(record.get("tres_alloc_str")))
    shares = held_shares(nodes, tuple(_held(record)), tres.gpus)
    if shares is not None:
        return shares
    problems.append(
        Problem("job", str(job_id), "allocation details missing or contradictory: counts only")
    )
    return spread_shares(nodes, integer(record.get("cpus")), tres, request)


def _held(record: dict[str, Any]) -> Iterator[Held]:
    """Allocated nodes: ``allocated_nodes`` with core maps, or (from 24.05) ``nodes.allocation``.

    ``gres_detail`` has one entry a node, in the order of the expanded node list.
    """
    resources = record.get("job_resources")
    nodes = get(resources, "nodes")
    whole = text(nodes) if isinstance(nodes, str) else text(get(nodes, "list"))
    order = expand(whole) or ()
    detail = record.get("gres_detail")
    gres = detail if isinstance(detail, list) else []
    by_name = {name: text(gres[i]) if i < len(gres) else "" for i, name in enumerate(order)}
    shown = list(objects(get(resources, "allocated_nodes") or get(nodes, "allocation")))
    cores = {id(node): _core_count(node) for node in shown}
    total = sum(cores.values())
    cpus = integer(get(resources, "cpus")) or integer(record.get("cpus"))
    for node in shown:
        name = text(node.get("nodename")) or text(node.get("name"))
        share = cores[id(node)] * cpus // total if total else 0
        memory = node.get("memory_allocated", get(node, "memory", "allocated"))
        counted = integer(get(node, "cpus", "count")) or share
        yield Held(name, counted, integer(memory), held_gpus(by_name.get(name, "")))


def _core_count(node: dict[str, Any]) -> int:
    """Cores marked allocated; from 24.05 on idle ones are listed too, with their own status."""
    count = 0
    for socket in objects(node.get("sockets")):
        cores = socket.get("cores")
        if isinstance(cores, dict):
            count += sum("allocated" in words(status) for status in cores.values())
        for core in objects(cores if isinstance(cores, list) else []):
            count += "ALLOCATED" in words(core.get("status"))
    return count
