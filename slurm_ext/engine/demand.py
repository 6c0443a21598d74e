"""A request broken down to what one node gives, the unit nodes are searched with."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_ext.model.job import Request

MOST_MIB = 1 << 40
"""A request for more memory per node or unit counts as this much: no node has it, and sums over
many units stay within 64 bits."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A request broken down to one node, the unit the pool is searched with.

    ``nodes_min`` / ``nodes_max`` (0: any number). Either every node gives ``gpus`` and
    ``cpus`` (``uniform``), or nodes give whole *units* of (``unit_gpus``, ``unit_cpus``,
    ``unit_mem_mib``) until ``units`` are found, ``units_per_node`` (0: any) at most on one.
    ``per``: whether the GPUs were asked for by node, task or job (Slurm picks them differently).
    """

    gpu_type: str
    nodes_min: int
    nodes_max: int
    cpus: int
    mem_mib: int
    gpus: int
    whole_mem: bool = False
    exclusive: bool = False
    uniform: bool = True
    units: int = 0
    unit_gpus: int = 0
    unit_cpus: int = 0
    unit_mem_mib: int = 0
    units_per_node: int = 0
    per: str = "node"

    @property
    def total_gpus(self) -> int:
        return self.gpus * self.nodes_min if self.uniform else self.units * self.unit_gpus


def demand_of(request: Request, *, memory_counts: bool = True) -> Demand:
    """How a request is met node by node (sbatch(1): --gpus-per-node, --gpus-per-task, --gpus)."""
    nodes = max(1, request.nodes_min)
    upper = request.nodes_max if request.nodes_max is not None else 0
    whole_mem = memory_counts and request.mem_whole_node
    tasks_on_node = request.tasks_per_node or -(-request.tasks // nodes)
    flexible = not request.gpus_per_node and (request.gpus_per_task or request.gpus_total)
    uneven = not request.gpus_per_node and request.tasks > nodes > 1 and not request.tasks_per_node
    if not flexible and not uneven:
        # Tasks stay whole: the fullest node decides, or Slurm may call the nodes impossible.
        cpus = max(request.min_cpus_node, -(-request.cpus // nodes))
        cpus = max(cpus, tasks_on_node * request.cpus_per_task)
        cpus = max(cpus, request.cpus_per_gpu * request.gpus_per_node)
        mem = _memory(request, cpus, request.gpus_per_node) if memory_counts else 0
        return Demand(
            request.gpu_type, nodes, upper or nodes, cpus, mem, request.gpus_per_node,
            whole_mem, request.exclusive,
        )  # fmt: skip
    if not flexible:
        units, unit_gpus, upper = request.tasks, 0, upper or nodes
        unit_cpus = max(request.cpus_per_task, -(-request.cpus // request.tasks))
    elif request.gpus_per_task:
        units, unit_gpus = max(1, request.tasks), request.gpus_per_task
        unit_cpus = max(request.cpus_per_task, request.cpus_per_gpu * unit_gpus, 1)
    else:
        units, unit_gpus = request.gpus_total, 1
        unit_cpus = request.cpus_per_gpu
    base_cpus = max(request.min_cpus_node, 1)
    mem = min(MOST_MIB, request.mem_per_node_mib) if memory_counts else 0
    unit_mem = 0
    if memory_counts and not mem:
        unit_mem = request.mem_per_gpu_mib * unit_gpus or request.mem_per_cpu_mib * unit_cpus
        unit_mem = min(MOST_MIB, unit_mem)
        if not unit_cpus:
            mem = min(MOST_MIB, request.mem_per_cpu_mib * base_cpus)
    return Demand(
        request.gpu_type, nodes, upper, base_cpus, mem, 0, whole_mem, request.exclusive,
        uniform=False, units=units, unit_gpus=unit_gpus, unit_cpus=unit_cpus,
        unit_mem_mib=unit_mem,
        units_per_node=request.tasks_per_node if request.gpus_per_task else 0,
        per="node" if not flexible else "task" if request.gpus_per_task else "job",
    )  # fmt: skip


def _memory(request: Request, cpus: int, gpus: int) -> int:
    if request.mem_per_node_mib:
        return min(MOST_MIB, request.mem_per_node_mib)
    if request.mem_per_cpu_mib:
        return min(MOST_MIB, request.mem_per_cpu_mib * cpus)
    return min(MOST_MIB, request.mem_per_gpu_mib * gpus)
