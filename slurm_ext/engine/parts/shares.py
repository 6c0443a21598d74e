"""Orders by all that a job holds or asks for, not its GPUs alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slurm_ext.engine.parts.ordering import expected_s
from slurm_ext.engine.policy import Ordering
from slurm_ext.engine.pool import demand_of
from slurm_ext.engine.view import JobView
from slurm_ext.model.annotation import Annotation
from slurm_ext.model.decision import Term
from slurm_ext.model.job import Job, JobKey, Request
from slurm_ext.model.units import EpochS


@dataclass(frozen=True, slots=True)
class PerGpu:
    """CPUs and MiB that the cluster has for each GPU; 0: of no account."""

    cpus: float = 8.0
    mem_mib: float = 64_000.0

    def dominant(self, gpus: float, cpus: float, mem_mib: float) -> float:
        """The greatest of the shares, in GPUs: what the same share of the GPUs would be."""
        return max(self.parts(gpus, cpus, mem_mib))

    def parts(self, gpus: float, cpus: float, mem_mib: float) -> tuple[float, float, float]:
        """GPUs, CPUs and memory, each in GPUs."""
        by_cpus = cpus / self.cpus if self.cpus else 0.0
        by_mem = mem_mib / self.mem_mib if self.mem_mib else 0.0
        return float(gpus), by_cpus, by_mem


def asked(request: Request) -> tuple[float, float, float]:
    """GPUs, CPUs and MiB of a request in all."""
    demand = demand_of(request)
    if demand.uniform:
        nodes = max(1, demand.nodes_min)
        return demand.gpus * nodes, demand.cpus * nodes, demand.mem_mib * nodes
    units = demand.units
    cpus = max(demand.cpus * max(1, demand.nodes_min), demand.unit_cpus * units)
    return demand.unit_gpus * units, cpus, demand.unit_mem_mib * units


@dataclass(frozen=True, slots=True)
class DominantShares:
    """Whose dominant share is smallest goes first (Ghodsi et al., DRF, NSDI 2011).

    A user's first waiting job counts the share of what the user runs, the second also that of the
    first: the order in which progressive filling takes them.
    """

    per_gpu: PerGpu = field(default_factory=PerGpu)
    used: tuple[tuple[str, tuple[float, float, float]], ...] = ()

    def beside(self, running: Iterable[Job], annotations: Mapping[JobKey, Annotation]) -> Ordering:
        used: dict[str, tuple[float, float, float]] = {}
        for job in running:
            for share in job.alloc:
                gpus, cpus, mem = used.get(job.user, (0.0, 0.0, 0.0))
                used[job.user] = gpus + share.gpus, cpus + share.cpus, mem + share.mem_mib
        return DominantShares(self.per_gpu, tuple(sorted(used.items())))

    def terms(self, views: Sequence[JobView], now_s: EpochS) -> list[tuple[Term, ...]]:
        used = dict(self.used)
        found: dict[JobKey, float] = {}
        for view in sorted(views, key=lambda v: (v.first_submit_s, v.key.job_id)):
            gpus, cpus, mem = used.get(view.job.user, (0.0, 0.0, 0.0))
            found[view.key] = self.per_gpu.dominant(gpus, cpus, mem)
            more = asked(view.job.request)
            used[view.job.user] = gpus + more[0], cpus + more[1], mem + more[2]
        return [
            (
                Term("dominant_gpus", found[v.key]),
                Term("submit_s", float(v.first_submit_s)),
            )
            for v in views
        ]


@dataclass(frozen=True, slots=True)
class LeastWork:
    """Least expected run time times all that is asked for, in GPUs (after Tetris, SIGCOMM 2014)."""

    per_gpu: PerGpu = field(default_factory=PerGpu)

    def terms(self, views: Sequence[JobView], now_s: EpochS) -> list[tuple[Term, ...]]:
        found: list[tuple[Term, ...]] = []
        for v in views:
            work = expected_s(v) * sum(self.per_gpu.parts(*asked(v.job.request)))
            found.append((Term("work_gpu_s", work), Term("submit_s", float(v.first_submit_s))))
        return found
