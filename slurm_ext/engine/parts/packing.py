"""Putting whole jobs on servers: few servers a job, the fullest that fit, no needless moves."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_ext.engine.allocation import Contender, Grant, Servers, Slice


def consolidated(free: list[int], gpus: int, size: int) -> tuple[Slice, ...]:
    """GPUs on as few servers as possible, or nothing.

    ``free``: GPUs free per server, not changed; ``size``: GPUs of a server. A job that fits a
    server gets one (the fullest that has room); a larger one whole servers and, for the rest, the
    fullest with room: what Helios (Hu et al., SC 2021) and Tiresias call consolidated.
    """
    wholes, rest = divmod(gpus, size)
    chosen: list[Slice] = []
    if wholes:
        idle = [i for i, f in enumerate(free) if f >= size][:wholes]
        if len(idle) < wholes:
            return ()
        chosen = [Slice(i, size) for i in idle]
    if rest:
        taken = {s.server for s in chosen}
        fits = [(f, i) for i, f in enumerate(free) if f >= rest and i not in taken]
        if not fits:
            return ()
        chosen.append(Slice(min(fits)[1], rest))
    return tuple(chosen)


def scattered(free: list[int], gpus: int) -> tuple[Slice, ...]:
    """GPUs wherever they are, fullest servers last, or nothing."""
    chosen: list[Slice] = []
    for i in sorted(range(len(free)), key=lambda i: (-free[i], i)):
        give = min(free[i], gpus)
        if give:
            chosen.append(Slice(i, give))
            gpus -= give
        if not gpus:
            return tuple(chosen)
    return ()


class Placer:
    """Places jobs in order of rank; running jobs of lower rank make room only where they must."""

    def __init__(self, servers: Servers, jobs: Sequence[Contender], *, scatter: bool) -> None:
        self.scatter = scatter
        self.size = max(servers.gpus)
        self._free = list(servers.gpus)
        self._keep: dict[int, Contender] = {}  # running, not yet passed in the walk
        self._grants: list[Grant] = []
        for position, job in enumerate(jobs):
            if job.held:
                self._keep[position] = job
                self._change(job.held, -1)

    def _change(self, slices: Sequence[Slice], sign: int) -> None:
        for s in slices:
            self._free[s.server] += sign * s.gpus

    def _find(self, gpus: int) -> tuple[Slice, ...]:
        if self.scatter:
            return scattered(self._free, gpus)
        return consolidated(self._free, gpus, self.size)

    def place(self, position: int, job: Contender) -> bool:
        """Grant this job its GPUs if it fits; positions come in ascending order."""
        if self._keep.pop(position, None) is not None:
            self._grants.append(Grant(job.key, job.held))
            return True
        slices = self._find(job.gpus) or self._make_room(job.gpus)
        if not slices:
            return False
        self._change(slices, -1)
        self._grants.append(Grant(job.key, slices))
        return True

    def _make_room(self, gpus: int) -> tuple[Slice, ...]:
        """Stop running jobs from the lowest rank up until the job fits; then spare the needless."""
        if sum(self._free) + sum(j.gpus_held for j in self._keep.values()) < gpus:
            return ()
        stopped: list[int] = []
        slices: tuple[Slice, ...] = ()
        for position in sorted(self._keep, reverse=True):
            self._change(self._keep[position].held, +1)
            stopped.append(position)
            if sum(self._free) >= gpus and (slices := self._find(gpus)):
                break
        self._change(slices, -1)
        for position in reversed(stopped):  # highest rank first
            held = self._keep[position].held
            if not slices or all(self._free[s.server] >= s.gpus for s in held):
                self._change(held, -1)
            else:
                del self._keep[position]
        self._change(slices, +1)
        return slices

    def done(self) -> list[Grant]:
        """All grants, in the order they were made."""
        return self._grants
