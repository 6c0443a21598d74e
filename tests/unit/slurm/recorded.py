"""Recorded answers of real clusters, and the squeue record a recorded scontrol block stands for."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from slurm_ext.slurm.squeue import WATCHED, Framing, Record

FIXTURES = Path(__file__).parents[2] / "fixtures" / "slurm"
VERSIONS = ("22.05", "24.11", "25.11", "26.05")


@lru_cache
def text(version: str, name: str) -> str:
    return (FIXTURES / version / name).read_text()


@lru_cache
def document(version: str, name: str) -> Any:
    return json.loads(text(version, name))


def raw_record(framing: Framing, values: Sequence[str], **watched: str) -> str:
    """A record as squeue prints it; ``watched``: values of fields that are only compared."""
    return framing.field.join([*values, *(watched.get(name, "") for name in WATCHED)])


def records(scontrol: str) -> dict[int, Record]:
    """Squeue records by job id. The recordings hold no hostile text, so a plain reading does."""
    found: dict[int, Record] = {}
    for block in re.split(r"\n\n(?=JobId=)", scontrol.strip()):
        values: dict[str, str] = {}
        for line in block.split("\n"):
            name, _, value = line.strip().partition("=")
            if name in ("Comment", "AdminComment", "Command", "SubmitLine"):
                values[name] = value.strip()
                continue
            for token in line.split():
                key, equals, value = token.partition("=")
                if equals:
                    values.setdefault(key, value)
        found[int(values["JobId"])] = _record(values)
    return found


def _record(values: dict[str, str]) -> Record:
    def get(name: str, default: str = "(null)") -> str:
        return values.get(name, default)

    user = re.fullmatch(r"(\S+)\((\d+)\)", get("UserId"))
    assert user
    reason = get("Reason")
    tres = get("AllocTRES", get("TRES"))
    if tres == "(null)":
        tres = get("ReqTRES")
    return Record(
        job_id=values["JobId"],
        array_job=get("ArrayJobId", values["JobId"]),
        array_tasks=get("ArrayTaskId", "N/A"),
        het_job=get("HetJobId", "N/A"),
        het_offset=get("HetJobOffset", "N/A"),
        name=get("JobName"),
        user=user[1],
        uid=user[2],
        account=get("Account"),
        partition=get("Partition"),
        qos=get("QOS"),
        state=get("JobState"),
        # scontrol prints the sentence with underscores, squeue with blanks.
        reason=reason.replace("_", " ") if reason[:1].islower() or ",_" in reason else reason,
        priority=get("Priority"),
        nice=get("Nice"),
        limit=get("TimeLimit"),
        submit=get("SubmitTime"),
        eligible=get("EligibleTime"),
        start=get("StartTime"),
        end=get("EndTime"),
        deadline=get("Deadline"),
        nodes=get("NumNodes").partition("-")[0],
        cpus=get("NumCPUs").partition("-")[0],
        tasks=get("NumTasks"),
        nodelist=get("NodeList", ""),
        tres=tres,
        tres_per_node=get("TresPerNode", "N/A"),
        tres_per_job=get("TresPerJob", "N/A"),
        tres_per_task=get("TresPerTask", "N/A"),
        tres_per_socket=get("TresPerSocket", "N/A"),
        cpus_per_tres=get("CpusPerTres", "N/A"),
        mem_per_tres=get("MemPerTres", "N/A"),
        switches=get("Switches", "0"),
        reservation=get("Reservation"),
        dependency=get("Dependency"),
        comment=get("Comment"),
        admin_comment=get("AdminComment"),
        restarts=get("Restarts"),
        batch=get("BatchFlag"),
        requeue=get("Requeue"),
    )
