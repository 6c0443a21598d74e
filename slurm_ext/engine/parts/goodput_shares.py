"""Who gets how many GPUs where, so that all jobs learn fast beside what a fair share would give.

Qiao et al., Pollux, OSDI 2021. The genetic search of the paper is replaced: sizes come from an
exact programme that takes every job as packed on few servers, places from a greedy layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
import numpy.typing as npt

from slurm_ext.engine.allocation import Contender, Ended, Grant, Servers, Slice

from .elastic import least_gpus, most_gpus, relative_speed
from .goodput import best

FloatArray = npt.NDArray[np.float64]

FLOOR = 1e-3
"""Added to each speed-up, so that a waiting job costs much but not endlessly much."""


@dataclass(eq=False)
class Bidder:
    """A job with what each size is worth to it.

    ``worth[several][gpus]``: speed-up over a fair share, 0 where it cannot run. ``keeps``: the part
    of it that is left when the job is moved or changes its size.
    """

    job: Contender
    worth: FloatArray
    keeps: float
    slices: tuple[Slice, ...] = ()

    @property
    def most(self) -> int:
        return len(self.worth[0]) - 1

    def cost(self, gpus: int, several: bool, moved: bool) -> float:
        """What is added up over the jobs: small where the job is fast."""
        worth = self.worth[int(several), gpus] * (self.keeps if moved else 1.0)
        return float(1 / (worth + FLOOR))

    def cost_on(self, slices: Sequence[Slice]) -> float:
        moved = tuple(slices) != self.job.held
        return self.cost(sum(s.gpus for s in slices), len(slices) > 1, moved)


@dataclass(frozen=True, slots=True)
class MostGoodput:
    """The greatest harmonic mean of the jobs' speed-ups over a fair share, less the restarts.

    ``restart_s``: what a restart is taken to cost; a job that was often restarted for its age is
    rather left alone. At most one job that spans servers on each server. A job without a goodput of
    its own counts with its declared speed.
    """

    period_s: float = 60.0
    restart_s: float = 30.0

    def grants(
        self, jobs: Sequence[Contender], servers: Servers, now_s: int, past: Sequence[Ended]
    ) -> list[Grant]:
        order = sorted(jobs, key=lambda j: (j.attained_gpu_s, j.line))
        fair = ceil(servers.total_gpus / max(1, len(order)))
        unit = len(servers.gpus) / servers.total_gpus  # a server's worth of speed-up counts as 1
        bidders = [
            Bidder(j, worth_of(j, fair, servers) * unit, self._keeps(j, now_s)) for j in order
        ]
        sizes = best_shares(bidders, servers)
        found = min(
            (lay_out(bidders, sizes, servers, by_size=b) for b in (False, True)),
            key=lambda slices: sum(b.cost_on(s) for b, s in zip(bidders, slices, strict=True)),
        )
        return [Grant(b.job.key, s) for b, s in zip(bidders, found, strict=True) if s]

    def _keeps(self, job: Contender, now_s: int) -> float:
        age_s = now_s - job.key.submit_s
        kept = max(0.0, age_s - job.restarts * self.restart_s) / (age_s + self.restart_s)
        return kept if job.held else max(kept, FLOOR)

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        return self.period_s if jobs else None


def worth_of(job: Contender, fair: int, servers: Servers) -> FloatArray:
    """Speed-up over ``fair`` GPUs on one server, shape (one or several servers, sizes from 0)."""
    known = job.goodput
    if known is None:
        least = least_gpus(job)
        most = min(most_gpus(job), servers.total_gpus)
        speeds = [relative_speed(job, g) if g >= least else 0.0 for g in range(most + 1)]
        base = relative_speed(job, min(max(fair, least), most)) or 1.0
        return np.array([speeds, speeds]) / base
    most = min(known.most_gpus, servers.total_gpus)
    gpus = np.arange(1, most + 1)
    found = np.zeros((2, most + 1))
    if known.step is None:
        found[:, 1:] = gpus / fair
        return found
    base_gpus = min(fair, max(1, known.max_batch // known.local_min))
    base = float(best(known, False, np.array([base_gpus])).goodput[0])
    for several in (False, True):
        found[int(several), 1:] = best(known, several, gpus).goodput / (base or 1.0)
    return found


def best_shares(bidders: Sequence[Bidder], servers: Servers) -> list[int]:
    """GPUs of each job with the least sum of costs, exactly, as if each lay on few servers."""
    total, node = servers.total_gpus, max(servers.gpus)
    least = np.zeros(total + 1)
    chosen = []
    for bidder in bidders:
        held = bidder.job.gpus_held
        after = np.full(total + 1, np.inf)
        size = np.zeros(total + 1, dtype=np.int64)
        for gpus in range(min(bidder.most, total) + 1):
            several = gpus > node or (gpus == held and len(bidder.job.held) > 1)
            cost = bidder.cost(gpus, several, gpus != held)
            if gpus and bidder.worth[int(several), gpus] <= 0:
                continue
            reached = least[: total + 1 - gpus] + cost
            better = reached < after[gpus:] - 1e-12
            after[gpus:][better] = reached[better]
            size[gpus:][better] = gpus
        least = after
        chosen.append(size)
    left = int(np.argmin(least))
    sizes = []
    for size in reversed(chosen):
        sizes.append(int(size[left]))
        left -= sizes[-1]
    return sizes[::-1]


@dataclass
class _Room:
    """What is free, and on which servers a job that spans several lies."""

    free: list[int]
    spanned: set[int] = field(default_factory=set)

    def change(self, slices: Sequence[Slice], sign: int) -> None:
        for s in slices:
            self.free[s.server] += sign * s.gpus
        if len(slices) > 1:
            servers = {s.server for s in slices}
            self.spanned = self.spanned - servers if sign > 0 else self.spanned | servers

    def fits(self, slices: Sequence[Slice]) -> bool:
        if any(self.free[s.server] < s.gpus for s in slices):
            return False
        return len(slices) < 2 or not any(s.server in self.spanned for s in slices)

    def one(self, gpus: int) -> tuple[Slice, ...]:
        """The fullest server with room, or nothing."""
        found = [(f, i) for i, f in enumerate(self.free) if f >= gpus]
        return (Slice(min(found)[1], gpus),) if found else ()

    def several(self, gpus: int) -> tuple[Slice, ...]:
        """The emptiest servers without a job that spans several, the rest where it is tightest."""
        open_to = [(-f, i) for i, f in enumerate(self.free) if f and i not in self.spanned]
        chosen: dict[int, int] = {}
        for minus_free, i in sorted(open_to):
            if gpus <= -minus_free:
                tight = [(-f, j) for f, j in open_to if -f >= gpus and j not in chosen]
                chosen[min(tight)[1]] = gpus
                return tuple(Slice(j, g) for j, g in sorted(chosen.items()))
            chosen[i] = -minus_free
            gpus += minus_free
        return ()


def lay_out(
    bidders: Sequence[Bidder], sizes: Sequence[int], servers: Servers, *, by_size: bool
) -> list[tuple[Slice, ...]]:
    """Where each job lies; one for which there is no good place gets fewer GPUs.

    Who keeps its size keeps its place; with ``by_size`` only if a larger job has not taken it.
    What is left over goes to jobs that are changed anyway.
    """
    room = _Room(list(servers.gpus))
    found: list[tuple[Slice, ...]] = [()] * len(bidders)
    keep = [bool(g) and b.job.gpus_held == g for b, g in zip(bidders, sizes, strict=True)]
    ranked = sorted(range(len(bidders)), key=lambda i: ((not keep[i]) * (not by_size), -sizes[i]))
    for i in ranked:
        held = bidders[i].job.held
        if keep[i] and room.fits(held):
            found[i] = held
        elif sizes[i]:
            found[i] = _place(bidders[i], sizes[i], room)
        room.change(found[i], -1)
    _grow(bidders, found, room)
    return found


def _place(bidder: Bidder, gpus: int, room: _Room) -> tuple[Slice, ...]:
    """The cheapest of: so many on one server, on several, or as many as one or several have."""
    spare = sum(f for i, f in enumerate(room.free) if i not in room.spanned)
    options = [
        room.one(gpus), room.several(gpus), room.one(min(gpus, max(room.free))),
        room.several(min(gpus, spare)),
    ]  # fmt: skip
    return min((o for o in options if o), key=bidder.cost_on, default=())


def _grow(bidders: Sequence[Bidder], found: list[tuple[Slice, ...]], room: _Room) -> None:
    """GPUs left over go to the changed job that gains most by one more, again and again."""
    while any(room.free):
        best_gain, best_at = 1e-9, -1
        best_slices: tuple[Slice, ...] = ()
        for i, bidder in enumerate(bidders):
            gpus = sum(s.gpus for s in found[i]) + 1
            if gpus > bidder.most or (found[i] and found[i] == bidder.job.held):
                continue
            room.change(found[i], +1)
            slices = _place(bidder, gpus, room)
            room.change(found[i], -1)
            gain = bidder.cost_on(found[i]) - bidder.cost_on(slices)
            if gain > best_gain:
                best_gain, best_at, best_slices = gain, i, slices
        if best_at < 0:
            return
        room.change(found[best_at], +1)
        room.change(best_slices, -1)
        found[best_at] = best_slices
