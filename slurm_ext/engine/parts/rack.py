"""Servers with GPUs, CPUs and memory being filled from empty, as Synergy's TUNE does each round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from slurm_ext.engine.allocation import Contender, Servers, Slice

EPSILON = 1e-6


class Vector(NamedTuple):
    """CPUs and memory of a job in all, or per GPU."""

    cpus: float
    mem_mib: float

    def times(self, count: float) -> Vector:
        return Vector(self.cpus * count, self.mem_mib * count)

    def least(self, other: Vector) -> Vector:
        return Vector(min(self.cpus, other.cpus), min(self.mem_mib, other.mem_mib))

    def exceeds(self, other: Vector) -> bool:
        """Whether any component does."""
        return self.cpus > other.cpus + EPSILON or self.mem_mib > other.mem_mib + EPSILON


class Size(NamedTuple):
    """The smallest of each over all servers: what can be promised anywhere."""

    gpus: int
    cpus: float
    mem_mib: float


@dataclass(slots=True, eq=False)
class Held:
    """A placed job: CPUs and memory are split over its slices in proportion to GPUs."""

    job: Contender
    slices: tuple[Slice, ...]

    def share_on(self, server: int) -> tuple[int, Vector]:
        """GPUs, and CPUs and memory, held on one server."""
        for s in self.slices:
            if s.server == server:
                return s.gpus, Vector(s.cpus, s.mem_mib)
        return 0, Vector(0.0, 0.0)


class Rack:
    """Free GPUs, CPUs and memory by server, and who was placed, in that order."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self.free_gpus = list(servers.gpus)
        self.free_cpus = [float(c) for c in servers.cpus]
        self.free_mem = [float(m) for m in servers.mem_mib]
        with_gpus = [i for i, g in enumerate(servers.gpus) if g]
        self.size = Size(
            min(servers.gpus[i] for i in with_gpus),
            min(float(servers.cpus[i]) for i in with_gpus),
            min(float(servers.mem_mib[i]) for i in with_gpus),
        )
        self.fair = Vector(
            min(servers.cpus[i] / servers.gpus[i] for i in with_gpus),
            min(servers.mem_mib[i] / servers.gpus[i] for i in with_gpus),
        )
        self.gpus_left = servers.total_gpus
        self.held: list[Held] = []

    def same(self, a: int, b: int) -> bool:
        """Whether two servers are of equal size."""
        s = self.servers
        return (s.gpus[a], s.cpus[a], s.mem_mib[a]) == (s.gpus[b], s.cpus[b], s.mem_mib[b])

    def place(self, job: Contender, wanted: Vector, *, first: bool = False) -> bool:
        """Place a job with CPUs and memory in all of ``wanted``; changes nothing if it can't be.

        A server that has room for the whole job: the fullest, or with ``first`` the first. Else
        GPU by GPU, each with its part of the rest, from the fullest that has room.
        """
        counts = self._whole(job.gpus, wanted, first) or self._split(job.gpus, wanted)
        if not counts:
            return False
        each = wanted.times(1 / job.gpus)
        slices = tuple(Slice(i, n, *each.times(n)) for i, n in sorted(counts.items()))
        self._change(slices, -1)
        self.held.append(Held(job, slices))
        self.gpus_left -= job.gpus
        return True

    def _whole(self, gpus: int, wanted: Vector, first: bool) -> dict[int, int]:
        fits = [i for i in range(len(self.free_gpus)) if self._room(i, gpus, wanted)]
        if not fits:
            return {}
        return {fits[0] if first else min(fits, key=lambda i: (self.free_gpus[i], i)): gpus}

    def _split(self, gpus: int, wanted: Vector) -> dict[int, int]:
        each = wanted.times(1 / gpus)
        counts: dict[int, int] = {}
        for _ in range(gpus):
            fits = [
                (self.free_gpus[i] - counts.get(i, 0), i)
                for i in range(len(self.free_gpus))
                if self._room(i, counts.get(i, 0) + 1, each.times(counts.get(i, 0) + 1))
            ]
            if not fits:
                return {}
            server = min(fits)[1]
            counts[server] = counts.get(server, 0) + 1
        return counts

    def _room(self, i: int, gpus: int, wanted: Vector) -> bool:
        return (
            self.free_gpus[i] >= gpus
            and self.free_cpus[i] >= wanted.cpus - EPSILON
            and self.free_mem[i] >= wanted.mem_mib - EPSILON
        )

    def _change(self, slices: tuple[Slice, ...], sign: int) -> None:
        for s in slices:
            self.free_gpus[s.server] += sign * s.gpus
            self.free_cpus[s.server] += sign * s.cpus
            self.free_mem[s.server] += sign * s.mem_mib

    def make_room(self, job: Contender, wanted: Vector) -> None:
        """Take neighbours back to their proportional share until the job's part fits.

        On the first server with GPUs enough, else on the fullest ones that have them together.
        Neighbours: who spans fewest servers first, then most CPUs a GPU, most memory a GPU, placed
        earliest.
        """
        for server, gpus in self._targets(job.gpus):
            part = wanted.times(gpus / job.gpus)
            neighbours = [h for h in self.held if any(s.server == server for s in h.slices)]
            neighbours.sort(key=_squeeze_key)
            for held in neighbours:
                short = Vector(
                    max(0.0, part.cpus - self.free_cpus[server]),
                    max(0.0, part.mem_mib - self.free_mem[server]),
                )
                if not short.exceeds(Vector(0.0, 0.0)):
                    break
                has_gpus, has = held.share_on(server)
                fair = self.fair.times(has_gpus)
                helps_cpus = short.cpus > EPSILON and has.cpus > fair.cpus + EPSILON
                helps_mem = short.mem_mib > EPSILON and has.mem_mib > fair.mem_mib + EPSILON
                if helps_cpus or helps_mem:
                    self._level(held)

    def _targets(self, gpus: int) -> list[tuple[int, int]]:
        if gpus > 1:
            for i, free in enumerate(self.free_gpus):
                if free >= gpus:
                    return [(i, gpus)]
        found = []
        for i in sorted(range(len(self.free_gpus)), key=lambda i: (self.free_gpus[i], i)):
            take = min(self.free_gpus[i], gpus)
            if take:
                found.append((i, take))
                gpus -= take
            if not gpus:
                break
        return found

    def _level(self, held: Held) -> None:
        """Back to at most the proportional share, on all of its servers."""
        self._change(held.slices, +1)
        held.slices = tuple(
            Slice(s.server, s.gpus, *Vector(s.cpus, s.mem_mib).least(self.fair.times(s.gpus)))
            for s in held.slices
        )
        self._change(held.slices, -1)


def _squeeze_key(held: Held) -> tuple[float, float, float]:
    """Ties stay in the order of placement: sorting is stable."""
    gpus = held.job.gpus
    return (
        len(held.slices),
        -sum(s.cpus for s in held.slices) / gpus,
        -sum(s.mem_mib for s in held.slices) / gpus,
    )
