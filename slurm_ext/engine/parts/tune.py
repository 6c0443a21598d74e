"""CPUs and memory by sensitivity, GPUs as requested (Mohan et al., Synergy, OSDI 2022).

Three ways to share a server's CPUs and memory: in proportion to GPUs; greedily, all that makes a
job fastest or nothing; and Synergy's TUNE, which gives each job what it can use and takes it back
from those who have more than their proportional share when somebody else would have less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.engine.allocation import Amount, Contender, Ended, Grant, Servers, Slice
from slurm_ext.errors import PolicyError
from slurm_ext.model.annotation import Sensitivity

from .rack import Held, Rack, Vector
from .ranks import Arrival, LeastAttained, Rank, ShortestAtSpeed, ShortestRemaining

ORDERS: dict[str, Rank] = {
    "fifo": Arrival(), "las": LeastAttained(), "srtf": ShortestAtSpeed(),
    "srsf": ShortestRemaining(times_gpus=True),
}  # fmt: skip
KINDS = ("tune", "greedy", "proportional")


@dataclass(frozen=True, slots=True)
class Sensitive:
    """Requested GPUs in one of :data:`ORDERS`, with CPUs and memory by one of :data:`KINDS`.

    ``order`` ``srtf`` counts with the speed in force: a job that was squeezed sorts as slow; where
    everybody has the proportional share all are at speed 1. ``large_first``: TUNE places jobs by
    GPUs, then CPUs, then memory, most first.
    """

    order: str = "srtf"
    kind: str = "tune"
    large_first: bool = False

    def __post_init__(self) -> None:
        for name, value, known in (("order", self.order, ORDERS), ("kind", self.kind, KINDS)):
            if value not in known:
                raise PolicyError(f"{name} {value!r}: one of {', '.join(known)}")

    def grants(
        self, jobs: Sequence[Contender], servers: Servers, now_s: int, past: Sequence[Ended]
    ) -> list[Grant]:
        keys = self._rank().keys(jobs, now_s, past)
        pairs = sorted(zip(keys, jobs, strict=True), key=lambda p: (p[0], p[1].line))
        order = [job for _, job in pairs]
        rack = Rack(servers)
        if self.kind == "greedy":
            # As in the artifact: under LAS a job that finds no server is not made up for.
            candidates = runnable(order, servers) if self.order == "las" else order
            for job in candidates:
                if rack.gpus_left:
                    rack.place(job, best_case(job, rack))
        else:
            chosen = runnable(order, servers)
            if self.kind == "tune" and self.large_first:
                chosen.sort(key=lambda j: tuple(-x for x in (j.gpus, *best_case(j, rack))))
            for job in chosen:
                self._admit(job, rack)
        return [Grant(h.job.key, h.slices) for h in relabelled(rack, jobs)]

    def _admit(self, job: Contender, rack: Rack) -> None:
        fair = rack.fair.times(job.gpus)
        if self.kind == "proportional":
            rack.place(job, fair)
            return
        wanted = best_case(job, rack)
        if rack.place(job, wanted):
            return
        if wanted.exceeds(fair):
            wanted = fair.least(wanted)
            if rack.place(job, wanted):
                return
        rack.make_room(job, wanted)
        rack.place(job, wanted)

    def at_launch(self, known: Sensitivity, fair: Amount, asked: Amount) -> tuple[Amount, ...]:
        """Synergy without taking back: the best case, else the request, else the fair share.

        A job that cannot use its share is given what it can use.
        """
        best = Amount(known.cpus_per_gpu or asked.cpus, known.mem_mib_per_gpu or asked.mem_mib)
        share = Amount(min(best.cpus, fair.cpus), min(best.mem_mib, fair.mem_mib))
        if self.kind == "greedy":
            return (best,)
        if self.kind == "proportional":
            return (fair,)
        between = Amount(
            min(best.cpus, max(asked.cpus, share.cpus)),
            min(best.mem_mib, max(asked.mem_mib, share.mem_mib)),
        )
        return tuple(dict.fromkeys((best, between, share)))

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        return None

    def _rank(self) -> Rank:
        if self.order == "srtf" and self.kind == "proportional":
            return ShortestRemaining()
        return ORDERS[self.order]


def runnable(order: Sequence[Contender], servers: Servers) -> list[Contender]:
    """Jobs admitted in order while their GPUs fit the number left; CPUs and memory do not count."""
    left = servers.total_gpus
    chosen = []
    for job in order:
        if job.gpus <= left:
            chosen.append(job)
            left -= job.gpus
    return chosen


def best_case(job: Contender, rack: Rack) -> Vector:
    """CPUs and memory in all at which the job is fastest; unknown: the proportional share.

    Never more than one server has; a job larger than a server gets the proportional share.
    """
    known, fair = job.annotation.sensitivity, rack.fair
    if job.gpus > rack.size.gpus:
        return fair.times(job.gpus)
    cpus = known.cpus_per_gpu or fair.cpus
    mem = known.mem_mib_per_gpu or fair.mem_mib
    return Vector(cpus, mem).times(job.gpus).least(Vector(rack.size.cpus, rack.size.mem_mib))


def relabelled(rack: Rack, jobs: Sequence[Contender]) -> list[Held]:
    """The placement with equal servers renamed so that most GPUs stay where they are.

    Servers are interchangeable to the algorithm, not to a running job. Greedy by overlap.
    """
    old = {j.key: j.held for j in jobs}
    overlap: dict[tuple[int, int], int] = {}
    for held in rack.held:
        for new in held.slices:
            for was in old[held.job.key]:
                if rack.same(new.server, was.server):
                    pair = (new.server, was.server)
                    overlap[pair] = overlap.get(pair, 0) + min(new.gpus, was.gpus)
    name: dict[int, int] = {}
    taken: set[int] = set()
    for (new_at, was_at), _ in sorted(overlap.items(), key=lambda o: (-o[1], o[0])):
        if new_at not in name and was_at not in taken:
            name[new_at] = was_at
            taken.add(was_at)
    for server in range(len(rack.free_gpus)):
        if server not in name:
            name[server] = next(
                i for i in range(len(rack.free_gpus)) if i not in taken and rack.same(server, i)
            )
            taken.add(name[server])
    for held in rack.held:
        held.slices = tuple(sorted(Slice(name[s.server], *s[1:]) for s in held.slices))
    return rack.held
