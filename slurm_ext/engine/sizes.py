"""Which GPU counts an annotated job can be given here, and what it asks for at each of them."""

from __future__ import annotations

from math import ceil

from slurm_ext.model.annotation import Annotation, Scaling, gpu_counts
from slurm_ext.model.decision import Shape
from slurm_ext.model.job import Request
from slurm_ext.model.reshape import shape_of, unshapeable


def sizes(scaling: Scaling, asked: int, most: int) -> tuple[int, ...]:
    """Allowed GPU counts of the whole job up to ``most``, ascending; ``asked`` if it is fixed."""
    if scaling.kind == "fixed":
        return (asked,)
    return tuple(
        gpu_counts(
            scaling.min_gpus, min(scaling.max_gpus or asked, most),
            powers_of_two=scaling.powers_of_two, logical_workers=scaling.logical_workers,
        )
    )  # fmt: skip


def at_size(request: Request, annotation: Annotation, gpus: int, node_gpus: int) -> Shape | str:
    """The shape with so many GPUs, or why there is none. ``node_gpus``: of the largest node.

    Tasks follow the GPUs where there was one for each, else the nodes; CPUs follow the GPUs, and
    so does memory as it grows. It shrinks only to what the annotation says is enough: a program
    may need as much of it on one GPU as on four.
    """
    before = shape_of(request)
    nodes = before.nodes
    if nodes > 1:
        nodes = ceil(gpus / before.gpus_per_node)
    if gpus % nodes or gpus // nodes > node_gpus:
        return f"{gpus} GPUs do not lie evenly on {nodes} nodes of {node_gpus}"
    tasks = gpus if before.tasks == before.gpus else before.tasks * nodes // before.nodes
    per_gpu = max(request.cpus_per_gpu, before.cpus / max(1, before.gpus))
    cpus = max(1, ceil(per_gpu * gpus / max(1, tasks))) * max(1, tasks)
    if gpus == before.gpus:
        cpus = before.cpus
    wanted = Shape(nodes, gpus // nodes, tasks, cpus, _memory(before, annotation, gpus // nodes))
    return unshapeable(request, wanted) or wanted


def with_cpus(request: Request, cpus: int, mem_node_mib: int) -> Shape | str:
    """The shape with the same GPUs, ``cpus`` in all and that memory per node (0: as asked)."""
    before = shape_of(request)
    cpus = max(1, cpus // before.tasks) * before.tasks
    held = max(before.cpus, request.cpus_per_gpu * before.gpus)
    if request.cpus_per_gpu and cpus < held:
        cpus = before.cpus  # Slurm gives them with the GPUs whatever else is said
    memory = mem_node_mib if request.mem_per_node_mib else 0
    wanted = before._replace(cpus=cpus, mem_node_mib=memory or before.mem_node_mib)
    return unshapeable(request, wanted) or wanted


def _memory(before: Shape, annotation: Annotation, gpus_per_node: int) -> int:
    if not before.mem_node_mib:
        return 0
    if gpus_per_node >= before.gpus_per_node:
        return ceil(before.mem_node_mib * gpus_per_node / before.gpus_per_node)
    enough = annotation.sensitivity.mem_mib_per_gpu * gpus_per_node
    return min(before.mem_node_mib, enough) if enough else before.mem_node_mib
