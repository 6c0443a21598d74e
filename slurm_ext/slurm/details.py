"""Job details from ``scontrol -d show job``: what ``squeue`` cannot show.

Job names, comments and paths are printed raw and may contain line breaks that imitate any
line. So only the lines from ``ReqNodeList=`` to ``OverSubscribe=`` are read: Slurm prints this
stretch once per job and no free text of a user stands in it. A block that shows it twice, or a
job id with two blocks, was forged (or is too strange) and is not used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from slurm_ext.slurm.gres import HeldGpus, held_gpus
from slurm_ext.slurm.hosts import expand
from slurm_ext.slurm.tres import mem_mib

_HEAD = "\nJobId="
_TOKEN = re.compile(r"(?:^|\s)([^\s=]+)=(\S*)")
_ALLOC = re.compile(r"^     Nodes=(\S*) CPU_IDs=(\S*) Mem=(\S*) GRES=(.*)$", re.MULTILINE)
_BEGIN = "\n   ReqNodeList="
_END = "\n   OverSubscribe="


class Chunk(NamedTuple):
    """The trustworthy stretch of one job's block, as printed.

    ``array_tasks`` comes from before the job's name. ``cron`` and ``tasks_per_gpu`` come from
    after the stretch, where a user can only harm his own job.
    """

    text: str
    array_tasks: str = ""
    cron: bool = False
    tasks_per_gpu: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """What the job holds on one node."""

    node: str
    cpus: int
    mem_mib: int
    gpus: HeldGpus
    cpu_ids: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Details:
    """Fields of the stretch; ``held`` None: an allocation line could not be read."""

    nodes_min: int = 1
    nodes_max: int = 0
    cpus: int = 1
    tasks: int = 1
    cpus_per_task: int = 1
    tasks_per_node: int = 0
    min_cpus_node: int = 1
    mem_node_mib: int | None = None
    mem_cpu_mib: int | None = None
    features: str = ""
    required: str = ""
    excluded: str = ""
    exclusive: str = ""
    contiguous: bool = False
    core_spec: bool = False
    sockets_per_node: int = 0
    tmp_disk: bool = False
    held: tuple[Held, ...] | None = ()


@dataclass(slots=True)
class Blocks:
    """Chunks by job id, and the ids whose block is not to be trusted.

    ``asked``: ids that were asked for one by one, with or without an answer.
    """

    chunks: dict[int, Chunk] = field(default_factory=dict)
    doubtful: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)


def split_blocks(text: str) -> Blocks:
    """Find every job's block in the output of ``scontrol -d show job``."""
    found = Blocks()
    seen: set[int] = set()
    start = 0 if text.startswith(_HEAD[1:]) else text.find(_HEAD) + 1
    while start or text.startswith(_HEAD[1:]):
        following = text.find(_HEAD, start) + 1
        end = following or len(text)
        digits = text[start + 6 : start + 18].split(" ", 1)[0]
        if digits.isdecimal() and digits.isascii():
            job_id = int(digits)
            chunk = _chunk(text, start, end)
            if chunk is None or job_id in seen:
                found.doubtful.add(job_id)
            else:
                found.chunks[job_id] = chunk
            seen.add(job_id)
        if not following:
            break
        start = following
    for job_id in found.doubtful:
        found.chunks.pop(job_id, None)
    return found


def _chunk(text: str, start: int, end: int) -> Chunk | None:
    begin = text.find(_BEGIN, start, end)
    if begin < 0 or text.find(_BEGIN, begin + 1, end) >= 0:
        return None
    last = text.find(_END, begin, end)
    if last < 0 or text.find(_END, start, begin) >= 0:
        return None
    stop = text.find("\n", last + 1, end)
    stop = end if stop < 0 else stop
    cron = text.find("\n   CronJob=Yes ", start, begin) >= 0
    mark = text.find("\n   NtasksPerTRES=", stop, end)
    per_gpu = 0
    if mark >= 0:
        digits = text[mark + 18 : mark + 24].split("\n", 1)[0]
        per_gpu = int(digits) if digits.isdecimal() and digits.isascii() else 1
    head = text[start : max(text.find(" JobName=", start, begin), start)]
    _, _, tasks = head.partition(" ArrayTaskId=")
    return Chunk(text[begin + 1 : stop], tasks.partition(" ")[0], cron, per_gpu)


def _int(value: str, default: int = 0) -> int:
    return int(value) if value.isdecimal() and value.isascii() and len(value) < 12 else default


def _text(value: str | None) -> str:
    return "" if value is None or value in ("(null)", "N/A", "*") else value


@lru_cache(maxsize=16384)
def parse_chunk(chunk: str) -> Details:
    """Read the stretch; unknown keys are ignored, missing ones keep their defaults."""
    tokens: dict[str, str] = {}
    for key, value in _TOKEN.findall(chunk):
        tokens.setdefault(key, value)
    least, _, most = tokens.get("NumNodes", "1").partition("-")
    tasks = _int(tokens.get("NumTasks", ""), 1)
    return Details(
        nodes_min=_int(least, 1),
        nodes_max=_int(most),
        cpus=_int(tokens.get("NumCPUs", "").partition("-")[0], 1),
        tasks=tasks if tasks < 0xFFFFFF00 else 1,
        cpus_per_task=_int(tokens.get("CPUs/Task", ""), 1),
        tasks_per_node=_int(tokens.get("NtasksPerN:B:S:C", "").partition(":")[0]),
        min_cpus_node=_int(tokens.get("MinCPUsNode", ""), 1),
        mem_node_mib=mem_mib(tokens["MinMemoryNode"]) if "MinMemoryNode" in tokens else None,
        mem_cpu_mib=mem_mib(tokens["MinMemoryCPU"]) if "MinMemoryCPU" in tokens else None,
        features=_text(tokens.get("Features")),
        required=_text(tokens.get("ReqNodeList")),
        excluded=_text(tokens.get("ExcNodeList")),
        exclusive=_exclusive(tokens),
        contiguous=tokens.get("Contiguous", "0") not in ("0", "NO", "No"),
        core_spec=_text(tokens.get("CoreSpec")) not in ("", "0") or "ThreadSpec" in tokens,
        sockets_per_node=_int(tokens.get("Socks/Node", "")),
        tmp_disk=tokens.get("MinTmpDiskNode", "0") not in ("0", "0M"),
        held=_held(chunk),
    )


def _exclusive(tokens: dict[str, str]) -> str:
    """From 26.05 on ``Exclusive=`` says it; before, ``OverSubscribe=NO`` means whole nodes."""
    if "Exclusive" in tokens:
        return "" if tokens["Exclusive"] == "NO" else tokens["Exclusive"]
    shared = tokens.get("OverSubscribe", "")
    return {"NO": "NODE", "USER": "USER", "MCS": "MCS", "TOPO": "TOPO"}.get(shared, "")


def _held(chunk: str) -> tuple[Held, ...] | None:
    held: list[Held] = []
    for nodes, cpu_ids, mem, gres in _ALLOC.findall(chunk):
        hosts, ids, mib = expand(nodes), spans(cpu_ids), mem_mib(mem)
        if hosts is None or ids is None or mib is None:
            return None
        cpus = sum(last - first + 1 for first, last in ids)
        gpus = held_gpus(gres.strip())
        held.extend(Held(host, cpus, mib, gpus, ids) for host in hosts)
    return tuple(held)


@lru_cache(maxsize=4096)
def spans(text: str) -> tuple[tuple[int, int], ...] | None:
    """First and last of each run in ``0-3,8``; None if it cannot be read."""
    found = []
    for part in text.split(",") if text and text != "(null)" else ():
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (not last or last.isdecimal())):
            return None
        found.append((int(first), int(last or first)))
    return tuple(found)
