"""How much each job gets, when a policy decides over running and waiting jobs together.

``decide()`` starts jobs as they were requested and never takes anything back. A policy with an
``allocation`` part may also stop, shrink or grow: it is asked anew whenever something has changed
(or once a round) who should hold what from now on. The values are plain, so that the simulator and
a daemon can fill them from the same annotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from slurm_ext.model.annotation import Annotation, Sensitivity
from slurm_ext.model.goodput import Goodput
from slurm_ext.model.job import JobKey


class Slice(NamedTuple):
    """What a job holds on one server; ``server`` is an index into :class:`Servers`."""

    server: int
    gpus: int
    cpus: float = 0.0
    mem_mib: float = 0.0


@dataclass(frozen=True, slots=True)
class Servers:
    """Capacity of the servers, one number each; one server alone is a pool without placement."""

    gpus: tuple[int, ...]
    cpus: tuple[int, ...]
    mem_mib: tuple[int, ...]

    @property
    def total_gpus(self) -> int:
        return sum(self.gpus)


@dataclass(frozen=True, slots=True)
class Contender:
    """A job that wants GPUs, running or waiting.

    ``gpus``: as requested. ``held``: what it has now, empty while it waits. ``attained_s``: time
    it has run; ``attained_gpu_s``: the same times its GPUs. ``service_s``: expected run time as
    requested, of which ``remaining_s`` are left; ``speed``: progress of now, as requested = 1; of a
    waiting job the best to expect.
    ``started_s``: first start, None before it; ``since_s``: last change between running and
    waiting. ``restarts``: how often it was stopped. ``line``: place in the order of submission.
    ``goodput``: of a job that chooses its own batch size.
    """

    key: JobKey
    line: int
    user: str
    gpus: int
    service_s: float
    remaining_s: float
    held: tuple[Slice, ...] = ()
    attained_s: float = 0.0
    attained_gpu_s: float = 0.0
    speed: float = 1.0
    started_s: int | None = None
    since_s: int = 0
    restarts: int = 0
    annotation: Annotation = field(default_factory=Annotation)
    goodput: Goodput | None = None

    @property
    def gpus_held(self) -> int:
        return sum(s.gpus for s in self.held)


class Ended(NamedTuple):
    """A job that is over: what a policy may learn from."""

    key: JobKey
    user: str
    gpus: int
    service_s: float


class Grant(NamedTuple):
    """What a job is to hold from now on; jobs without one wait.

    ``active``: GPUs it works on if fewer than it holds (0: all).
    """

    key: JobKey
    slices: tuple[Slice, ...]
    active: int = 0

    @property
    def gpus(self) -> int:
        return sum(s.gpus for s in self.slices)


@runtime_checkable
class AtLaunch(Protocol):
    """An allocation that, where nothing running can be changed, chooses CPUs and memory at the
    start: GPUs as requested."""

    def at_launch(self, known: Sensitivity, fair: Amount, asked: Amount) -> tuple[Amount, ...]:
        """CPUs and memory per GPU to try, best first; the last is never less than the job can use
        of its proportional share ``fair``."""
        ...


class Amount(NamedTuple):
    """CPUs and memory per GPU; memory 0: not said."""

    cpus: float
    mem_mib: float


class Allocation(Protocol):
    """Divides the servers among jobs; a pure function of its arguments."""

    def grants(
        self, jobs: Sequence[Contender], servers: Servers, now_s: int, past: Sequence[Ended]
    ) -> list[Grant]:
        """Who holds what from now on; together never more than the servers have."""
        ...

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        """Seconds after which the answer may change though no job comes or goes; None: never.

        ``jobs`` are those that run now, with their new slices.
        """
        ...


@runtime_checkable
class Wakes(Protocol):
    """An allocation whose answer may change at a moment of its own, whoever runs."""

    def wake_s(
        self, jobs: Sequence[Contender], servers: Servers, now_s: int, past: Sequence[Ended]
    ) -> float | None:
        """The next such moment after now; ``jobs`` as given to ``grants``."""
        ...
