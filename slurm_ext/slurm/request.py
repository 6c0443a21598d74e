"""From the raw fields of a request, in text or JSON, to one normalised ``Request``."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from slurm_ext.model.job import Request
from slurm_ext.slurm.gres import asked_gpus
from slurm_ext.slurm.hosts import expand


class RawRequest(NamedTuple):
    """The fields of a request as Slurm shows them (hashable: many jobs ask for the same).

    ``nodes_max`` 0: no upper bound; ``tasks`` 0: not shown. Memory in MiB, None: not shown.
    ``exclusive``: "" for no, else NODE, USER, MCS, TOPO. ``seen`` False: the details could not be
    read at all.
    """

    nodes_min: int = 1
    nodes_max: int = 0
    cpus: int = 1
    tasks: int = 1
    cpus_per_task: int = 1
    tasks_per_node: int = 0
    min_cpus_node: int = 1
    mem_node_mib: int | None = None
    mem_cpu_mib: int | None = None
    tres_per_node: str = ""
    tres_per_job: str = ""
    tres_per_task: str = ""
    tres_per_socket: str = ""
    cpus_per_tres: str = ""
    mem_per_tres: str = ""
    features: str = ""
    required: str = ""
    excluded: str = ""
    exclusive: str = ""
    contiguous: bool = False
    switches: int = 0
    core_spec: bool = False
    tasks_per_gpu: int = 0
    sockets_per_node: int = 0
    tmp_disk: bool = False
    seen: bool = True
    segment: int = 0


@lru_cache(maxsize=16384)
def build_request(raw: RawRequest) -> tuple[Request, tuple[str, ...]]:
    """The request, and what in it could not be read."""
    node, job = asked_gpus(raw.tres_per_node), asked_gpus(raw.tres_per_job)
    task, socket = asked_gpus(raw.tres_per_task), asked_gpus(raw.tres_per_socket)
    required, excluded = expand(raw.required), expand(raw.excluded)
    unreadable = [
        *(part for asked in (node, job, task, socket) for part in asked.unreadable),
        *([raw.required] if required is None else []),
        *([raw.excluded] if excluded is None else []),
    ]
    mem_gpu = asked_gpus(raw.mem_per_tres).gpus
    whole = not mem_gpu and (raw.mem_node_mib == 0 or raw.mem_cpu_mib == 0)
    request = Request(
        nodes_min=_nodes_min(raw, node.gpus, job.gpus, len(required or ())),
        nodes_max=raw.nodes_max or None,
        cpus=max(raw.cpus, 1),
        tasks=max(raw.tasks, 1),
        cpus_per_task=max(raw.cpus_per_task, 1),
        tasks_per_node=raw.tasks_per_node,
        cpus_per_gpu=asked_gpus(raw.cpus_per_tres).gpus,
        gpus_per_node=node.gpus,
        gpus_per_task=task.gpus,
        gpus_total=job.gpus,
        gpu_type=node.type or task.type or job.type or socket.type,
        # --mem-per-gpu overrides a default memory, which is still shown beside it.
        mem_per_node_mib=0 if mem_gpu else raw.mem_node_mib or 0,
        mem_per_cpu_mib=0 if mem_gpu else raw.mem_cpu_mib or 0,
        mem_per_gpu_mib=mem_gpu,
        mem_whole_node=whole,
        min_cpus_node=max(raw.min_cpus_node, 1),
        features=raw.features,
        required_nodes=required or (),
        excluded_nodes=excluded or (),
        exclusive=bool(raw.exclusive),
        unplannable=_unplannable(raw, bool(unreadable)),
    )
    return request, tuple(unreadable)


def _nodes_min(raw: RawRequest, per_node: int, total: int, required: int) -> int:
    """Slurm shows a lower bound while a job waits; ``--gpus=8 --gpus-per-node=4`` needs two.

    Without an upper bound there was no ``--nodes``, and the bound is Slurm's own guess: 22.05 may
    show two nodes for a held job of one task. Tasks stay whole, so there are no more nodes than
    tasks; with ``--nodes`` sbatch(1) sees to it that the tasks are as many.
    """
    least = max(raw.nodes_min, 1)
    if raw.nodes_max:
        least = min(least, raw.nodes_max)  # JSON shows the guess with --nodes, too
    elif raw.tasks:
        least = min(least, raw.tasks)
    if per_node and total > per_node and not raw.nodes_max:
        least = max(least, -(-total // per_node))
    return max(least, min(required, raw.nodes_max or required))


def _unplannable(raw: RawRequest, unreadable: bool) -> tuple[str, ...]:
    """Names of what we cannot model: such a job is left to Slurm."""
    asked = [asked_gpus(text) for text in raw[9:13]]
    names = [name for one in asked for name in one.other]
    types = {one.type for one in asked if one.type}
    checks = (
        (any(one.types > 1 for one in asked) or len(types) > 1, "gpu_types"),
        (bool(asked[3].gpus), "gpus_per_socket"),
        (raw.contiguous, "contiguous"),
        (raw.switches > 0, "switches"),
        (raw.core_spec, "core_spec"),
        (raw.tasks_per_gpu > 0, "tasks_per_gpu"),
        (raw.sockets_per_node > 0, "sockets_per_node"),
        (raw.tmp_disk, "tmp_disk"),
        (raw.segment > 0, "segment"),
        (raw.exclusive not in ("", "NODE"), f"exclusive_{raw.exclusive.lower()}"),
        (any(sign in raw.features for sign in "|[*("), "features_expression"),
        (unreadable, "unreadable"),
        (not raw.seen, "details_not_read"),
    )
    names.extend(name for wrong, name in checks if wrong)
    return tuple(dict.fromkeys(names))
