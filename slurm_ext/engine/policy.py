"""What a policy is: named parts with parameters, no state of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    Protocol,
    TypeGuard,
    cast,
    runtime_checkable,
)

import numpy as np
import numpy.typing as npt

from slurm_ext.errors import PolicyError
from slurm_ext.model.decision import Term
from slurm_ext.model.units import EpochS

from .parts.preemption import LostWork, RequeueCost

if TYPE_CHECKING:
    from slurm_ext.model.annotation import Annotation
    from slurm_ext.model.job import Job, JobKey
    from slurm_ext.model.progress import Progress

    from .allocation import Allocation
    from .pool import Demand, Free, Pool
    from .taken import Taken
    from .view import JobView

IntArray = npt.NDArray[np.int64]
_PARTS = ("ordering", "placement", "allocation", "preemption")

RUNS = {
    "live": "in the daemon and in the simulator",
    "order": "whole in the simulator; in the daemon it ranks and places waiting jobs, stops none",
    "annotated": "in the daemon for annotated jobs only",
    "simulated": "in the simulator only",
}
"""Where a policy runs."""


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


@runtime_checkable
class ReadsFactors(Protocol):
    """An ordering that may rest on Slurm's own factors, one by one (``Job.factors``)."""

    @property
    def reads_factors(self) -> bool:
        """Whether it does as it is set up: reading them costs one more call a cycle."""
        ...


def reads_factors(ordering: Ordering) -> bool:
    """Whether the jobs must come with Slurm's own factors."""
    return isinstance(ordering, ReadsFactors) and ordering.reads_factors


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


@runtime_checkable
class SetPreference(NodePreference, Protocol):
    """Can also judge all nodes of a job together."""

    def rate(
        self, pool: Pool, free: Free, demand: Demand, taken: Taken, sets: int = 1
    ) -> list[tuple[float, ...]]:
        """Penalties of each whole placement, the first weighs most, lower is better.

        ``taken`` holds ``sets`` of them one after another, on equally many nodes each.
        """
        ...


class VictimCost(Protocol):
    """What requeueing one annotated running job costs."""

    def cost(
        self, job: Job, annotation: Annotation, now_s: EpochS, progress: Progress | None = None
    ) -> RequeueCost: ...


@dataclass(frozen=True, slots=True)
class Policy:
    """One published or home-made policy.

    ``cite`` names the source, ``differs`` what is not as published, ``needs`` what must be known
    (``limits``, ``priority``, ``durations``, …), ``runs`` where it runs (a key of :data:`RUNS`).
    ``allocation``: decides over running and waiting jobs together, in the simulator; ``ordering``
    and ``placement`` are what the daemon does with such a policy. ``round_s``: how often the
    allocation is made anew if not told otherwise, 0: at every change.
    """

    name: str
    summary: str
    ordering: Ordering
    placement: NodePreference
    preemption: VictimCost = field(default_factory=LostWork)
    cite: str = ""
    differs: str = ""
    needs: tuple[str, ...] = ()
    runs: str = "live"
    allocation: Allocation | None = None
    round_s: int = 0

    def with_parameters(self, parameters: Mapping[str, object]) -> Policy:
        """The policy with some fields of its parts replaced.

        Keys are paths such as ``ordering.aging_s`` or ``placement.links.weight`` (parts of parts
        by their ``name``), or any end of such a path that only one of them has.

        :raises PolicyError: unknown or ambiguous field, or a value of another type.
        """
        parts: dict[str, object] = {name: getattr(self, name) for name in _PARTS}
        for key, value in parameters.items():
            path = _locate(self.name, [p for p, _ in _fields(parts)], key)
            parts = cast(dict[str, object], _with(parts, path, value, key))
        return replace(self, **parts)  # type: ignore[arg-type]

    def parameters(self) -> dict[str, object]:
        """Current parameters as path -> value."""
        return {
            ".".join(path): value for path, value in _fields({n: getattr(self, n) for n in _PARTS})
        }


def _children(value: object) -> Iterator[tuple[str, object]]:
    """Named things inside a part: fields of a dataclass, the parts of a composite."""
    if isinstance(value, dict):
        yield from value.items()
    elif _composite(value):
        yield from ((part.name, part) for part in value)
    elif is_dataclass(value):
        for f in fields(value):
            inner = getattr(value, f.name)
            if _composite(inner):  # its parts stand for themselves
                yield from _children(inner)
            else:
                yield f.name, inner


def _composite(value: object) -> TypeGuard[tuple[Any, ...]]:
    """A tuple of parts, not of numbers."""
    return isinstance(value, tuple) and all(hasattr(part, "name") for part in value)


def _fields(value: object, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    for name, inner in _children(value):
        if is_dataclass(inner):
            yield from _fields(inner, (*at, name))
        else:
            yield (*at, name), inner


def _with(value: object, path: tuple[str, ...], new: object, key: str) -> object:
    """``value`` with the field at ``path`` replaced."""
    if not path:
        return _checked(value, new, key)
    name, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {**value, name: _with(value[name], rest, new, key)}
    if isinstance(value, tuple):
        return tuple(_with(p, rest, new, key) if p.name == name else p for p in value)
    for f in fields(value):  # type: ignore[arg-type]
        inner = getattr(value, f.name)
        if f.name == name:
            return replace(value, **{name: _with(inner, rest, new, key)})  # type: ignore[type-var]
        if _composite(inner) and name in {part.name for part in inner}:
            return replace(value, **{f.name: _with(inner, path, new, key)})  # type: ignore[type-var]
    raise KeyError(name)


def _checked(current: object, value: object, key: str) -> object:
    if isinstance(current, float) and isinstance(value, int) and not isinstance(value, bool):
        try:
            value = float(value)
        except OverflowError as error:
            what = "too large for a number with a point; give a smaller one"
            raise PolicyError(f"policy.parameters.{key}: {what}") from error
    if isinstance(current, tuple) and isinstance(value, list):
        value = tuple(value)
    if type(value) is not type(current):
        raise PolicyError(
            f"policy.parameters.{key}: expected {type(current).__name__}, "
            f"got {value!r}; the default is {current!r}"
        )
    return value


def _locate(policy: str, known: Sequence[tuple[str, ...]], key: str) -> tuple[str, ...]:
    wanted = tuple(key.split("."))
    hits = [path for path in known if path == wanted] or [
        path for path in known if path[len(path) - len(wanted) :] == wanted
    ]
    if len(hits) == 1:
        return hits[0]
    what = "ambiguous" if hits else "unknown"
    names = sorted(".".join(path) for path in known)
    raise PolicyError(
        f"policy.parameters.{key}: {what} parameter of policy {policy!r}; "
        f"known: {', '.join(names) or 'none'}"
    )
