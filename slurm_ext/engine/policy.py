"""What a policy is: named parts with parameters, no state of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from slurm_ext.errors import PolicyError
from slurm_ext.model.decision import Term
from slurm_ext.model.units import EpochS

from .parts.preemption import LostWork, RequeueCost

if TYPE_CHECKING:
    from slurm_ext.model.annotation import Annotation
    from slurm_ext.model.job import Job, JobKey

    from .pool import Demand, Free, Pool
    from .view import JobView

IntArray = npt.NDArray[np.int64]


class Ordering(Protocol):
    """Names numbers for each waiting job; the lowest tuple goes first, ties by job key."""

    def terms(self, views: Sequence[JobView], now_s: EpochS) -> list[tuple[Term, ...]]:
        """One tuple of terms per view, all of the same length and meaning."""
        ...


class Factor(NamedTuple):
    """One part of a sum that ranks a job: ``value`` 0 to 1, the higher the sooner."""

    name: str
    value: float
    weight: float

    @property
    def contribution(self) -> float:
        return self.weight * self.value


@runtime_checkable
class Summed(Protocol):
    """An ordering that ranks by a sum and can say what it is made of."""

    def factors(self, views: Sequence[JobView], now_s: EpochS) -> list[tuple[Factor, ...]]:
        """One tuple of factors per view, all of the same names in the same order."""
        ...


@runtime_checkable
class SeesRunning(Protocol):
    """An ordering that depends on what runs."""

    def beside(self, running: Iterable[Job], annotations: Mapping[JobKey, Annotation]) -> Ordering:
        """The ordering to use while these jobs occupy nodes."""
        ...


def beside(
    ordering: Ordering, running: Iterable[Job], annotations: Mapping[JobKey, Annotation]
) -> Ordering:
    """The ordering, told of what runs if it wants to know."""
    return ordering.beside(running, annotations) if isinstance(ordering, SeesRunning) else ordering


class NodePreference(Protocol):
    """Ranks candidate nodes for one demand."""

    def key(self, pool: Pool, free: Free, demand: Demand, candidates: IntArray) -> IntArray:
        """Penalties, shape (terms, candidates); the first row weighs most, lower is better."""
        ...


class VictimCost(Protocol):
    """What requeueing one annotated running job costs."""

    def cost(self, job: Job, annotation: Annotation, now_s: EpochS) -> RequeueCost: ...


PARTS = ("ordering", "placement", "preemption")


@dataclass(frozen=True, slots=True)
class Policy:
    """One published or home-made policy.

    ``cite`` names the source, ``differs`` what is not as published, ``needs`` what must be known
    (``limits``, ``priority``, ``durations``, …).
    """

    name: str
    summary: str
    ordering: Ordering
    placement: NodePreference
    preemption: VictimCost = field(default_factory=LostWork)
    cite: str = ""
    differs: str = ""
    needs: tuple[str, ...] = ()

    def with_parameters(self, parameters: Mapping[str, object]) -> Policy:
        """The policy with some fields of its parts replaced.

        Keys are ``part.field`` or a ``field`` that only one part has.

        :raises PolicyError: unknown or ambiguous field, or a value of another type.
        """
        parts: dict[str, object] = {name: getattr(self, name) for name in PARTS}
        for key, value in parameters.items():
            part_name, name = _locate(self.name, parts, key)
            current = getattr(parts[part_name], name)
            if (
                isinstance(current, float)
                and isinstance(value, int)
                and not isinstance(value, bool)
            ):
                value = float(value)
            if type(value) is not type(current):
                raise PolicyError(
                    f"policy.parameters.{key}: expected {type(current).__name__}, "
                    f"got {value!r}; the default is {current!r}"
                )
            parts[part_name] = replace(parts[part_name], **{name: value})  # type: ignore[type-var]
        return replace(
            self,
            ordering=cast(Ordering, parts["ordering"]),
            placement=cast(NodePreference, parts["placement"]),
            preemption=cast(VictimCost, parts["preemption"]),
        )

    def parameters(self) -> dict[str, object]:
        """Current parameters as ``part.field`` -> value."""
        found: dict[str, object] = {}
        for part_name in PARTS:
            part = getattr(self, part_name)
            if is_dataclass(part):
                for f in fields(part):
                    found[f"{part_name}.{f.name}"] = getattr(part, f.name)
        return found


def _locate(policy: str, parts: Mapping[str, object], key: str) -> tuple[str, str]:
    wanted_part, dot, name = key.rpartition(".")
    hits = [
        part_name
        for part_name, part in parts.items()
        if is_dataclass(part)
        and name in {f.name for f in fields(part)}
        and (not dot or wanted_part == part_name)
    ]
    if len(hits) == 1:
        return hits[0], name
    known = sorted(
        f"{p}.{f.name}" for p, part in parts.items() if is_dataclass(part) for f in fields(part)
    )
    what = "ambiguous" if hits else "unknown"
    raise PolicyError(
        f"policy.parameters.{key}: {what} parameter of policy {policy!r}; "
        f"known: {', '.join(known) or 'none'}"
    )
