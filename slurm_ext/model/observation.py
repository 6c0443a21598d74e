"""Everything one look at Slurm gives, all of one moment or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .job import Job
from .node import Node
from .units import EpochS


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as ``scontrol show partition`` shows it; times in seconds, None: unlimited."""

    name: str
    nodes: tuple[str, ...]
    up: bool = True
    max_time_s: int | None = None
    default_time_s: int | None = None
    max_nodes: int | None = None
    min_nodes: int = 0
    priority_tier: int = 1
    exclusive_user: bool = False
    oversubscribe: str = "NO"
    is_default: bool = False
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation; ``gpus`` 0 with ``partial`` False: whole nodes."""

    name: str
    start_s: EpochS
    end_s: EpochS
    nodes: tuple[str, ...]
    flags: frozenset[str] = frozenset()
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    partition: str = ""
    cores: int = 0
    gpus: int = 0
    partial: bool = False
    active: bool = False


@dataclass(frozen=True, slots=True)
class Controller:
    """Facts about the controller that change rarely (``scontrol show config``)."""

    version: tuple[int, ...]
    cluster: str = ""
    config: Mapping[str, str] = field(default_factory=dict)

    def value(self, key: str, default: str = "") -> str:
        """Value of a configuration key, case-insensitive; ``(null)`` counts as absent."""
        found = self.config.get(key.lower(), default)
        return default if found == "(null)" else found

    @property
    def release(self) -> str:
        """The version as Slurm writes it: ``22.05.8``; empty if it is not known."""
        return ".".join(f"{part:02d}" if i == 1 else str(part)
                        for i, part in enumerate(self.version))  # fmt: skip

    @property
    def multifactor(self) -> bool:
        """Whether SiteFactor is read at all (priority/basic never does)."""
        return self.value("PriorityType") == "priority/multifactor"


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that could not be read in full: reported and carried, never dropped silently."""

    kind: str
    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class Observation:
    """One consistent look. ``now_s`` is the controller host's clock at the start of the look."""

    now_s: EpochS
    controller: Controller
    jobs: tuple[Job, ...]
    nodes: tuple[Node, ...]
    partitions: tuple[Partition, ...]
    reservations: tuple[Reservation, ...] = ()
    problems: tuple[Problem, ...] = ()
