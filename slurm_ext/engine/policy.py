"""What a policy is: named parts with parameters, no state of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import numpy.typing as npt

from slurm_ext.errors import PolicyError
from slurm_ext.model.decision import Term
from slurm_ext.model.units import EpochS

if TYPE_CHECKING:
    from .allocation import Allocation
    from .pool import Demand, Free, Pool
    from .view import JobView

IntArray = npt.NDArray[np.int64]

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


class NodePreference(Protocol):
    """Ranks candidate nodes for one demand."""

    def key(self, pool: Pool, free: Free, demand: Demand, candidates: IntArray) -> IntArray:
        """Penalties, shape (terms, candidates); the first row weighs most, lower is better."""
        ...


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
    cite: str = ""
    differs: str = ""
    needs: tuple[str, ...] = ()
    runs: str = "live"
    allocation: Allocation | None = None
    round_s: int = 0

    def with_parameters(self, parameters: Mapping[str, object]) -> Policy:
        """The policy with some fields of its parts replaced.

        Keys are ``part.field`` or a ``field`` that only one part has.

        :raises PolicyError: unknown or ambiguous field, or a value of another type.
        """
        parts = self._parts()
        for key, value in parameters.items():
            part_name, name = _locate(self.name, parts, key)
            current = getattr(parts[part_name], name)
            if (
                isinstance(current, float)
                and isinstance(value, int)
                and not isinstance(value, bool)
            ):
                value = float(value)
            if isinstance(current, tuple) and isinstance(value, list):
                value = tuple(value)
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
            allocation=cast("Allocation | None", _ranked(parts)),
        )

    def _parts(self) -> dict[str, object]:
        """Parts by name; the order inside an allocation is a part of its own, ``rank``."""
        parts: dict[str, object] = {"ordering": self.ordering, "placement": self.placement}
        if self.allocation is not None:
            parts["allocation"] = self.allocation
            if hasattr(self.allocation, "rank"):
                parts["rank"] = self.allocation.rank
        return parts

    def parameters(self) -> dict[str, object]:
        """Current parameters as ``part.field`` -> value."""
        found: dict[str, object] = {}
        for part_name, part in self._parts().items():
            if is_dataclass(part):
                for f in fields(part):
                    if f.name != "rank":
                        found[f"{part_name}.{f.name}"] = getattr(part, f.name)
        return found


def _ranked(parts: Mapping[str, object]) -> object:
    """The allocation with its order put back."""
    if "rank" not in parts:
        return parts.get("allocation")
    return replace(parts["allocation"], rank=parts["rank"])  # type: ignore[type-var]


def _locate(policy: str, parts: Mapping[str, object], key: str) -> tuple[str, str]:
    wanted_part, dot, name = key.rpartition(".")
    hits = [
        part_name
        for part_name, part in parts.items()
        if is_dataclass(part)
        and name in {f.name for f in fields(part)} - {"rank"}
        and (not dot or wanted_part == part_name)
    ]
    if len(hits) == 1:
        return hits[0], name
    known = sorted(
        f"{p}.{f.name}"
        for p, part in parts.items()
        if is_dataclass(part)
        for f in fields(part)
        if f.name != "rank"
    )
    what = "ambiguous" if hits else "unknown"
    raise PolicyError(
        f"policy.parameters.{key}: {what} parameter of policy {policy!r}; "
        f"known: {', '.join(known) or 'none'}"
    )
