"""``sacct --json`` as a cross-check of the text: 25-50 times dearer, but without columns to shift.

Shapes of 22.05 (v0.0.38) to 26.05 (v0.0.45): see :mod:`slurm_ext.slurm.scalars`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from slurm_ext.accounting.record import (
    ANNOTATION_MARK,
    MAX_RUN_S,
    Attempt,
    is_open,
    is_waiting,
    outcome_of,
    state_word,
)
from slurm_ext.accounting.rows import WAITING, gpu_type
from slurm_ext.accounting.sacct import Skipped
from slurm_ext.slurm.scalars import get, integer, moment, number, objects, text
from slurm_ext.slurm.states import job_state_of_json
from slurm_ext.slurm.times import Special
from slurm_ext.slurm.tres import Tres

Json = Mapping[str, Any]

_NEVER_S = 0xFFFFFFF0
"""22.05 has 0 for a job that never started, later versions NO_VAL."""


def parse_json(document: Json, skipped: Skipped) -> Iterator[Attempt]:
    """Attempts of one document; bad records are counted skips."""
    for job in objects(document.get("jobs")):
        made = attempt(job)
        if isinstance(made, str):
            skipped.add(made, str(job.get("job_id")))
        else:
            yield made


def attempt(job: Json) -> Attempt | str:
    """One record, or the reason to skip it."""
    state = job_state_of_json(get(job, "state", "current"))
    word = state_word(state)
    if is_waiting(state):
        return WAITING
    if word in ("", "REVOKED"):
        return "unknown state" if not word else "revoked sibling of a federation"
    submit_s, start_s, end_s = (_time(job, name) for name in ("submission", "start", "end"))
    run_s = integer(get(job, "time", "elapsed"), -1)
    if submit_s is None:
        return "unreadable submit time"
    if not 0 <= run_s <= MAX_RUN_S:
        return "impossible elapsed time"
    if is_open(state):
        end_s = None
    elif end_s is None:
        end_s = (start_s if start_s is not None else submit_s) + run_s
    if start_s is not None and end_s is not None and end_s < start_s:
        return "ends before it starts"
    asked, held = (_tres(get(job, "tres", kind)) for kind in ("requested", "allocated"))
    limit = number(get(job, "time", "limit"))
    comment = text(get(job, "comment", "job"))
    outcome = outcome_of(state, started=start_s is not None, run_s=run_s)
    return Attempt(
        cluster=text(job.get("cluster")),
        job_id=integer(job.get("job_id")),
        submit_s=submit_s,
        array_job_id=integer(get(job, "array", "job_id")),
        array_task_id=_task(job),
        user=text(job.get("user")) or text(get(job, "association", "user")),
        account=text(job.get("account")),
        partition=text(job.get("partition")),
        qos=text(job.get("qos")),
        name=text(job.get("name")),
        state=word,
        outcome=outcome.value,
        killed_by_uid=-1,  # a name here, a uid in text: no common form
        eligible_s=_time(job, "eligible"),
        start_s=start_s,
        end_s=end_s,
        run_s=run_s,
        # Minutes in every version, as in the database.
        limit_s=limit * 60 if isinstance(limit, int) else None,
        limit_word="UNLIMITED" if limit is Special.UNLIMITED else "",
        gpus_req=asked.gpus or held.gpus,
        gpus_alloc=held.gpus,
        gpu_type=gpu_type(asked, held),
        cpus_req=asked.cpus or integer(get(job, "required", "CPUs")),
        cpus_alloc=held.cpus,
        mem_req_mib=asked.mem_mib,
        nodes=held.nodes or integer(job.get("allocation_nodes")),
        annotation=comment if ANNOTATION_MARK in comment else "",
    )


COMPARED = (
    "user", "account", "partition", "qos", "name", "state", "outcome", "start_s", "run_s",
    "limit_s", "gpus_req", "gpus_alloc", "gpu_type", "cpus_req", "mem_req_mib",
)  # fmt: skip


def differences(texts: Iterable[Attempt], jsons: Iterable[Attempt]) -> list[str]:
    """What text and JSON disagree on; attempts still open may have moved on and are left out."""
    by_key = {(a.cluster, a.job_id, a.submit_s): a for a in jsons}
    found = []
    for mine in texts:
        other = by_key.pop((mine.cluster, mine.job_id, mine.submit_s), None)
        if other is None:
            found.append(f"job {mine.job_id}: not in the JSON")
        elif not (mine.open or other.open):
            found += [
                f"job {mine.job_id}: {name} is {getattr(mine, name)!r} in text, "
                f"{getattr(other, name)!r} in JSON"
                for name in COMPARED
                if getattr(mine, name) != getattr(other, name)
            ]
    return found + [f"job {key[1]}: not in the text" for key in by_key]


def _time(job: Json, name: str) -> int | None:
    value = moment(get(job, "time", name))
    return value if value is not None and 0 < value < _NEVER_S else None


def _task(job: Json) -> int:
    if not integer(get(job, "array", "job_id")):
        return -1
    task = number(get(job, "array", "task_id"))
    return task if isinstance(task, int) else -1


def _tres(entries: Any) -> Tres:
    amounts = {"cpu": 0, "mem": 0, "node": 0}
    untyped = 0
    types: dict[str, int] = {}
    for entry in objects(entries):
        kind, name, count = text(entry.get("type")), text(entry.get("name")), entry.get("count")
        many = max(0, integer(count))
        if kind in amounts:
            amounts[kind] = many
        elif kind == "gres" and name == "gpu":
            untyped = many
        elif kind == "gres" and name.startswith("gpu:"):
            types[name[4:]] = types.get(name[4:], 0) + many
    return Tres(
        cpus=amounts["cpu"],
        mem_mib=amounts["mem"],
        nodes=amounts["node"],
        gpus=max(untyped, sum(types.values())),
        gpu_types=tuple(types.items()),
    )
