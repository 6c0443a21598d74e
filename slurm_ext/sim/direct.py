"""What the drivers without a Slurm share: the loop over events, and when to decide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

from slurm_ext.model.job import JobKey

from .errors import SimulationError
from .events import EventQueue, Kind
from .outcome import JobOutcome, SimResult
from .workload import TraceJob, Workload


class Direct(ABC):
    """One run of a workload. Decisions come after all else that happens in a second, or at
    multiples of ``round_s`` from ``round_start_s`` on (0: whenever something has changed).
    """

    def __init__(self, workload: Workload, round_s: int, round_start_s: int, label: str) -> None:
        self.workload = workload
        self.round_s = round_s
        self.round_start_s = round_start_s
        self.label = label
        self.events = EventQueue()
        self.decisions = 0
        self._due_s: int | None = None
        self._outcomes: list[JobOutcome] = []
        for job in workload.jobs:
            self.events.post(job.submit_s, Kind.SUBMIT, job)

    def run(self, progress: Callable[[int, int], None] | None = None) -> SimResult:
        """Until every job has ended.

        :raises SimulationError: jobs wait that nothing will ever start.
        """
        began = perf_counter()
        total, every = len(self.workload.jobs), max(1, len(self.workload.jobs) // 200)
        while len(self.events):
            self._step()
            if progress is not None and len(self._outcomes) % every == 0:
                progress(len(self._outcomes), total)
        left = sorted(k.job_id for k in self._unfinished())
        if left:
            raise SimulationError(f"{len(left)} jobs never ended, such as {left[:5]}")
        return SimResult(
            label=self.label,
            gpus=self._gpus(),
            jobs=tuple(sorted(self._outcomes, key=lambda o: o.spec.job_id)),
            events=self.events.taken,
            wall_s=perf_counter() - began,
            counters={"decisions": self.decisions},
        )

    def _step(self) -> None:
        now_s, kind, subject = self.events.take()
        if kind is Kind.DAEMON:  # sorts after all else of its second
            if self._due_s == now_s:
                self._due_s = None
                self._decide(now_s)
            return
        if kind is Kind.SUBMIT:
            self._submit(subject)
        elif not self._finish(subject):
            return
        self._review(now_s)

    def _review(self, at_s: int) -> None:
        """Decide at this time, or at the next round after it."""
        if self.round_s:
            rounds = -(-(at_s - self.round_start_s) // self.round_s)
            at_s = self.round_start_s + max(0, rounds) * self.round_s
        if self._due_s is None or at_s < self._due_s:
            self._due_s = at_s
            self.events.post(at_s, Kind.DAEMON)

    @abstractmethod
    def _submit(self, spec: TraceJob) -> None:
        """A job comes."""

    @abstractmethod
    def _finish(self, subject: Any) -> bool:
        """An end comes; False if it is not one any more."""

    @abstractmethod
    def _decide(self, now_s: int) -> None:
        """Decide, and act on it."""

    @abstractmethod
    def _unfinished(self) -> Iterable[JobKey]:
        """Jobs that have not ended."""

    @abstractmethod
    def _gpus(self) -> int:
        """GPUs of the cluster."""
