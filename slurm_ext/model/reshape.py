"""The shape of a request, what it would be in another one, and which changes Slurm can make.

What an update of a waiting job does to each form of request was tried on Slurm 22.05.
"""

from __future__ import annotations

from dataclasses import replace

from .decision import Shape
from .job import Request


def shape_of(request: Request) -> Shape:
    """What the request shows. CPUs as ``NumCPUs``: with ``--cpus-per-gpu`` a lower bound.

    Beside more GPUs they must then be named, or they stay what they were at submission (22.05).
    """
    nodes = max(1, request.nodes_min)
    return Shape(
        nodes, request.gpus // nodes, request.tasks, request.cpus, request.mem_per_node_mib
    )


def unshapeable(request: Request, wanted: Shape) -> str:
    """Why Slurm cannot be told to change this request into that shape; empty if it can."""
    now = shape_of(request)
    if min(wanted.nodes, wanted.gpus_per_node, wanted.tasks, wanted.cpus) < 1:
        return "a shape needs at least one node, GPU, task and CPU"
    checks = (
        (not request.gpus, "it asks for no GPU"),
        (request.exclusive, "it asks for whole nodes"),
        (bool(request.unplannable), f"it asks for {', '.join(request.unplannable)}"),
        (now.gpus != request.gpus, "its GPUs differ between nodes"),
        (request.nodes_max != request.nodes_min and request.tasks > 1,
         "its number of nodes is open (give --nodes)"),
        (wanted.nodes != now.nodes and not (request.gpus_per_node and request.nodes_max),
         "nodes can only be changed with --nodes and GPUs asked for per node"),
        (bool(request.gpus_per_task) and wanted.gpus != request.gpus_per_task * wanted.tasks,
         "its GPUs follow its tasks (--gpus-per-task)"),
        # Slurm goes on counting the tasks that each node was to have.
        (bool(request.tasks_per_node) and wanted.tasks != wanted.nodes * request.tasks_per_node,
         "its tasks per node are fixed (--ntasks-per-node)"),
        (wanted.tasks < wanted.nodes, "there are fewer tasks than nodes"),
        (_cpus_apart(request, now, wanted), "its CPUs are not those of its tasks"),
        (_below_bound(request, now, wanted), "it bounds the CPUs of its nodes (--mincpus)"),
        (wanted.mem_node_mib not in (0, now.mem_node_mib) and not request.mem_per_node_mib,
         "its memory is not asked for per node (--mem)"),
    )  # fmt: skip
    return next((why for wrong, why in checks if wrong), "")


def _cpus_apart(request: Request, now: Shape, wanted: Shape) -> bool:
    if (wanted.cpus, wanted.tasks) == (now.cpus, now.tasks):
        return False
    apart = not request.cpus_per_gpu and now.cpus != now.tasks * request.cpus_per_task
    return apart or wanted.cpus % wanted.tasks > 0


def _below_bound(request: Request, now: Shape, wanted: Shape) -> bool:
    """Whether a node's share of the CPUs would be less than the user's own bound."""
    if (wanted.cpus, wanted.tasks) == (now.cpus, now.tasks):
        return False
    return wanted.cpus < wanted.nodes * bound_in(request, wanted.cpus // wanted.tasks)


def reshaped(request: Request, shape: Shape) -> Request:
    """The request in another shape; only meant where :func:`unshapeable` has no objection."""
    now = shape_of(request)
    changed = request
    if (shape.nodes, shape.gpus_per_node) != (now.nodes, now.gpus_per_node):
        changed = replace(
            changed,
            nodes_min=shape.nodes,
            nodes_max=shape.nodes if request.nodes_max is not None else None,
            gpus_per_node=shape.gpus_per_node if request.gpus_per_node else 0,
            gpus_total=shape.gpus if request.gpus_total else 0,
        )
    if (shape.tasks, shape.cpus) != (now.tasks, now.cpus):
        each = shape.cpus // shape.tasks
        changed = replace(
            changed,
            tasks=shape.tasks,
            cpus=shape.cpus,
            cpus_per_task=each,
            min_cpus_node=bound_in(request, each),
        )
    if shape.mem_node_mib and request.mem_per_node_mib:
        changed = replace(changed, mem_per_node_mib=shape.mem_node_mib)
    return changed


def bound_in(request: Request, cpus_per_task: int) -> int:
    """CPUs that a node must have free (``MinCPUsNode``) for the request with so many a task.

    Slurm derives the bound at submission and keeps to it when the CPUs are updated, so it has to
    be updated with them. One that the tasks do not explain is the user's own (``--mincpus``).
    """
    on_node = max(1, request.tasks_per_node)
    derived = request.min_cpus_node == on_node * request.cpus_per_task > 1
    return on_node * cpus_per_task if derived else request.min_cpus_node


def stands(request: Request, ours: Shape, before: Shape) -> bool:
    """Whether anything of ``ours``, written in place of ``before``, is still there."""
    triples = zip(shape_of(request), ours, before, strict=True)
    return any(now == our != was for now, our, was in triples if our)


def given_back(request: Request, ours: Shape, before: Shape) -> Shape:
    """``before`` where ``ours`` stands; what somebody has changed since is left as it is."""
    triples = zip(shape_of(request), ours, before, strict=True)
    return Shape(*(was if now == our or not our else now for now, our, was in triples))
