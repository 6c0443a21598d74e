"""The one format all traces are read into: a job with its true run time, and a workload of them.

| field | meaning |
|---|---|
| ``job_id`` | unique in the workload; the order of ids breaks ties of the submit time |
| ``submit_s`` | seconds since the start of the trace |
| ``run_s`` | true run time on what it asks for, seconds, > 0 |
| ``gpus`` | GPUs in all (processors for traces of CPU machines) |
| ``limit_s`` | time limit given by the user, None: the trace has none |
| ``nodes`` | nodes asked for, 0: as few as the cluster allows |
| ``cpus`` / ``mem_mib`` | in all, 0: one CPU a GPU, no memory |
| ``gpu_type`` | empty: any |
| ``user``, ``partition``, ``model`` | as in the trace, else empty |
| ``state`` | how the job ended in the trace (it runs for ``run_s`` all the same) |
| ``checkpoint_s`` | seconds between checkpoints, 0: none, a restart begins from nothing |
| ``restart_s`` | seconds a restart costs before work goes on |
| ``speed`` | progress by GPU count, as in ``1:1 2:1.8 4:3.1``; empty: cannot change its size |
| ``iterations`` | of training in all, 0: not known |
| ``batch`` | samples of a step over all GPUs, 0: not known |
| ``comm`` | share of the run time in which GPUs are brought together, 0 to below 1 |
| ``deadline_s`` | by when it should have ended, seconds since the start of the trace, 0: none |
| ``source_id`` | the id in the trace |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from slurm_ext.model.job import Request

LimitRule = Literal["requested", "exact"]


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a workload; see the module text for the fields."""

    job_id: int
    submit_s: int
    run_s: int
    gpus: int
    limit_s: int | None = None
    nodes: int = 0
    cpus: int = 0
    mem_mib: int = 0
    gpu_type: str = ""
    user: str = ""
    partition: str = "gpu"
    model: str = ""
    state: str = "COMPLETED"
    checkpoint_s: int = 0
    restart_s: int = 0
    speed: str = ""
    iterations: int = 0
    batch: int = 0
    deadline_s: int = 0
    comm: float = 0.0
    source_id: str = ""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that was left out: line number (from 1), and what is wrong with it."""

    line: int
    why: str


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs by (submit time, id), and the rows that were left out."""

    name: str
    jobs: tuple[TraceJob, ...]
    bad: tuple[BadRow, ...] = ()

    @classmethod
    def of(cls, name: str, jobs: Iterable[TraceJob], bad: Iterable[BadRow] = ()) -> Workload:
        return cls(name, tuple(sorted(jobs, key=lambda j: (j.submit_s, j.job_id))), tuple(bad))

    def with_limits(self, rule: LimitRule, default_s: int | None = None) -> Workload:
        """Limits as requested (``default_s`` where there is none), or exactly the run times.

        ``exact`` is the oracle of the literature: whatever plans by limits knows run times.
        """
        if rule == "exact":
            jobs = [replace(j, limit_s=j.run_s) for j in self.jobs]
        else:
            jobs = [replace(j, limit_s=default_s) if j.limit_s is None else j for j in self.jobs]
        return replace(self, jobs=tuple(jobs))

    def head(self, count: int) -> Workload:
        """The first jobs only."""
        return replace(self, jobs=self.jobs[:count])


def request_of(job: TraceJob, gpus_per_node: int) -> Request:
    """What the user would have written to get these GPUs on as few nodes as possible.

    Equal parts on each node if they divide evenly (``--nodes --gpus-per-node``), else ``--gpus``
    on that number of nodes.
    """
    cpus = job.cpus or max(1, job.gpus)
    nodes = job.nodes or max(1, -(-job.gpus // max(1, gpus_per_node)))
    if job.gpus % nodes == 0:
        return Request(
            nodes_min=nodes,
            nodes_max=nodes,
            cpus=max(cpus, nodes),
            tasks=nodes,
            gpus_per_node=job.gpus // nodes,
            gpu_type=job.gpu_type,
            mem_per_node_mib=-(-job.mem_mib // nodes),
        )
    return Request(
        nodes_min=nodes,
        nodes_max=nodes,
        cpus=max(cpus, nodes),
        tasks=nodes,
        gpus_total=job.gpus,
        gpu_type=job.gpu_type,
        cpus_per_gpu=max(1, cpus // job.gpus),
        mem_per_gpu_mib=-(-job.mem_mib // job.gpus),
    )
