"""GPUs to where one more is worth most, and from where one less costs least.

After Zhang et al., Rubick: Exploiting Job Reconfigurability for Deep Learning Cluster Scheduling,
MLSys 2025, and its artifact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.engine.allocation import Contender, Ended, Grant, Servers
from slurm_ext.model.job import JobKey

from .elastic import lay_out, least_gpus, most_gpus, relative_speed

STEPS = (1, 2, 4, 8)
"""GPUs that change hands at once: the fewest that change the speed."""


@dataclass(frozen=True, slots=True)
class Slopes:
    """Jobs start with what they asked for; GPUs left over go to the steepest speed curves.

    To start, a job may take GPUs from others whose curve is less steep, but of a job that was
    promised its request (``guarantee``) only what it has beyond that. A job is changed at most
    ``most_restarts`` times. One older than ``old_s`` counts as steepest of all.
    """

    period_s: float = 600.0
    guarantee: bool = True
    most_restarts: int = 5
    old_s: float = 200_000.0

    def grants(
        self, jobs: Sequence[Contender], servers: Servers, now_s: int, past: Sequence[Ended]
    ) -> list[Grant]:
        table = _Table(jobs, servers.total_gpus, now_s, self)
        for job in sorted((j for j in jobs if not j.held), key=lambda j: (-table.up(j)[0], j.line)):
            table.start(job)
        table.share_out()
        targets = [(j, table.sizes.get(j.key, 0)) for j in sorted(jobs, key=lambda j: j.line)]
        return lay_out(targets, servers)

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        return self.period_s if jobs else None


class _Table:
    """Sizes as they are handed around; ``free`` GPUs are in nobody's hands."""

    def __init__(self, jobs: Sequence[Contender], gpus: int, now_s: int, rule: Slopes) -> None:
        self.rule, self.now_s = rule, now_s
        self.jobs = {j.key: j for j in sorted(jobs, key=lambda j: j.line)}
        self.sizes: dict[JobKey, int] = {k: j.gpus_held for k, j in self.jobs.items() if j.held}
        self.free = gpus - sum(self.sizes.values())

    def up(self, job: Contender) -> tuple[float, int]:
        """Speed gained by a GPU, and how many it takes; from nothing, by the whole request."""
        size = self.sizes.get(job.key, 0)
        if self.now_s - job.key.submit_s >= self.rule.old_s:
            return float("inf"), 1
        if not size:
            return relative_speed(job, job.gpus) / job.gpus, job.gpus
        now = relative_speed(job, size)
        steps = [s for s in STEPS if size + s <= most_gpus(job)]
        found = [(round((relative_speed(job, size + s) - now) / s, 9), -s) for s in steps]
        slope, step = max(found, default=(0.0, -1))
        return slope, -step

    def down(self, job: Contender) -> tuple[float, int]:
        """Speed lost by a GPU less, and how many go at once; no step: none may be taken."""
        size = self.sizes[job.key]
        floor = job.gpus if self.rule.guarantee else least_gpus(job)
        steps = [s for s in STEPS if size - s >= floor]
        if not steps or not self._changeable(job):
            return float("inf"), 0
        now = relative_speed(job, size)
        return min((round((now - relative_speed(job, size - s)) / s, 9), s) for s in steps)

    def _changeable(self, job: Contender) -> bool:
        return not job.held or job.restarts < self.rule.most_restarts

    def start(self, job: Contender) -> None:
        """Give a waiting job what it asked for, if that can be had."""
        slope, _ = self.up(job)
        before, free = dict(self.sizes), self.free
        while self.free < job.gpus:
            rows = [(*self.down(self.jobs[k]), k) for k in self.sizes]
            rows = [r for r in rows if r[1] and r[0] <= slope]
            if not rows:
                self.sizes, self.free = before, free
                return
            _, step, key = min(rows)
            self.sizes[key] -= step
            self.free += step
        self.sizes[job.key] = job.gpus
        self.free -= job.gpus

    def share_out(self) -> None:
        """What is left goes to the steepest curves."""
        while self.free:
            rows = []
            for line, key in enumerate(self.sizes):
                job = self.jobs[key]
                slope, step = self.up(job) if self._changeable(job) else (0.0, 1)
                if self.sizes[key] + step > most_gpus(job) or step > self.free:
                    continue
                if slope > 0:
                    rows.append((-slope, line, step, key))
            if not rows:
                return
            _, _, step, key = min(rows)
            self.sizes[key] += step
            self.free -= step
