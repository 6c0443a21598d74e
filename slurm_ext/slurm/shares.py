"""What a job holds on each of its nodes: exactly, or as counts when that is all we know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slurm_ext.model.job import Job, NodeShare, Request
from slurm_ext.model.node import Node
from slurm_ext.model.observation import Problem
from slurm_ext.slurm.details import Held
from slurm_ext.slurm.tres import Tres


def held_shares(
    nodes: Sequence[str], held: Sequence[Held], gpus: int
) -> tuple[NodeShare, ...] | None:
    """The shares as printed, if they name every node once and add up to ``gpus``; else None.

    ``gpus`` 0: not known (no gres/gpu in AccountingStorageTRES). A completing job may have
    given back some of its nodes: then only the nodes it still has count, and the sum is not
    checked.
    """
    by_node = {one.node: one for one in held}
    if len(by_node) != len(held) or not set(nodes) <= by_node.keys():
        return None
    whole = len(by_node) == len(nodes)
    if whole and gpus and sum(one.gpus.count for one in held) != gpus:
        return None
    return tuple(
        NodeShare(
            node=name,
            cpus=by_node[name].cpus,
            mem_mib=by_node[name].mem_mib,
            gpus=by_node[name].gpus.count,
            gpu_mask=by_node[name].gpus.mask,
            gpu_type=by_node[name].gpus.type,
            cpu_ids=by_node[name].cpu_ids,
        )
        for name in nodes
    )


def spread_shares(
    nodes: Sequence[str], cpus: int, tres: Tres, request: Request
) -> tuple[NodeShare, ...]:
    """Totals spread evenly over the nodes, rounded up: never less than the job holds."""
    if not nodes:
        return ()
    count = len(nodes)
    gpus = tres.gpus or request.gpus
    per_node = request.gpus_per_node or -(-gpus // count)
    return tuple(
        NodeShare(
            node=name,
            cpus=-(-max(cpus, tres.cpus) // count),
            mem_mib=-(-tres.mem_mib // count),
            gpus=per_node,
            gpu_type=tres.gpu_type or request.gpu_type,
        )
        for name in nodes
    )


def check_masks(job: Job, nodes: Mapping[str, Node], problems: list[Problem]) -> Job:
    """The job with GPU indices only where its nodes show them as used.

    Jobs and nodes are read a few milliseconds apart, and a user might forge; a count is still
    right where an index is in doubt.
    """
    doubtful = [
        share.node
        for share in job.alloc
        if share.gpu_mask
        and (node := nodes.get(share.node)) is not None
        and share.gpu_mask & ~node.gpu_used
    ]
    if not doubtful:
        return job
    problems.append(
        Problem(
            "job", str(job.job_id), f"GPU indices not in use on {','.join(doubtful)}: counts only"
        )
    )
    return replace(
        job,
        alloc=tuple(
            replace(share, gpu_mask=0) if share.node in doubtful else share for share in job.alloc
        ),
    )


def unexplained(jobs: Sequence[Job], nodes: Sequence[Node]) -> list[Problem]:
    """Nodes that use more GPUs than the jobs seen hold (hidden jobs, or the look's few ms)."""
    held: dict[str, int] = {}
    for job in jobs:
        for share in job.alloc:
            held[share.node] = held.get(share.node, 0) + share.gpus
    return [
        Problem(
            "node",
            node.name,
            f"{node.gpu_used_count} GPUs in use, jobs seen hold {held.get(node.name, 0)}",
        )
        for node in nodes
        if node.gpu_used_count > held.get(node.name, 0)
    ]


class Doubts:
    """Tells passing disagreements of one look from those that stay.

    Jobs and nodes are read a few milliseconds apart: a job that starts in between shows on one
    side only. What two looks in a row show is a real problem.
    """

    def __init__(self) -> None:
        self._last: set[tuple[str, str]] = set()

    def lasting(self, found: Sequence[Problem]) -> list[Problem]:
        """Those of the problems whose subject was in doubt in the look before, too."""
        stays = [p for p in found if (p.kind, p.subject) in self._last]
        self._last = {(p.kind, p.subject) for p in found}
        return stays
