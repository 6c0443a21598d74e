"""What the journal keeps besides ledger entries, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from slurm_ext.model.decision import Stage, Verdict
from slurm_ext.model.job import JobKey
from slurm_ext.model.units import EpochS, Fact


@dataclass(frozen=True, slots=True)
class StartRecord:
    """A managed job seen running: where and when we planned it, and where Slurm put it.

    ``why``: a reason code if the nodes differ, else empty. ``planned_s`` None: no plan stood.
    """

    key: JobKey
    user: str
    policy: str
    planned_rank: int
    planned_nodes: tuple[str, ...]
    actual_nodes: tuple[str, ...]
    planned_s: EpochS | None
    start_s: EpochS
    same_nodes: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class StartShare:
    """How many starts went as planned; ``by_why`` counts the others by reason code."""

    total: int
    as_planned: int
    by_why: Mapping[str, int]

    @property
    def share(self) -> float:
        """Fraction that went as planned; 1.0 without any start."""
        return self.as_planned / self.total if self.total else 1.0


@dataclass(frozen=True, slots=True)
class CycleRecord:
    """One cycle: ``durations_s`` by part, ``rpc`` calls by type; ``error`` if it failed."""

    cycle: int
    at_s: EpochS
    policy: str = ""
    config_digest: str = ""
    durations_s: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, float] = field(default_factory=dict)
    rpc: Mapping[str, int] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """One patch as it was sent, or was to be sent.

    ``state``: intended (no outcome known), ok, benign, error or lost (see ``give_up``).
    """

    action_id: int
    cycle: int
    at_s: EpochS
    key: JobKey
    lever: str
    why: str
    state: str
    detail: str
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of verdict or of its first reason."""

    at_s: EpochS
    verdict: Verdict
    code: str
    stage: Stage | None
    facts: tuple[tuple[str, Fact], ...]
    would_change: str
    rank: int
    start_s: EpochS | None


class SeenSpeed(NamedTuple):
    """How fast jobs of one user and model family were on so many GPUs of a type, in all."""

    user: str
    family: str
    gpu_type: str
    gpus: int
    units_per_s: float
    at_s: EpochS


@dataclass(frozen=True, slots=True)
class Pause:
    """Somebody told the daemon to keep its hands off. ``until_s`` None: until resumed."""

    who: str
    at_s: EpochS
    until_s: EpochS | None
    why: str = ""
