"""What each waiting job asks for, and on which nodes it may run, looked up once a walk."""

from __future__ import annotations

from dataclasses import dataclass, field

from slurm_ext.model.job import JobKey, Request

from .allow import Allowance, Allowed
from .durations import limit_of
from .pool import Demand, Pool, demand_of
from .view import JobView


@dataclass(frozen=True, slots=True)
class Shape:
    """A demand and its number within this walk: a small key for everything remembered."""

    number: int
    demand: Demand


@dataclass(slots=True)
class Asked:
    """Answers for one walk; what equal requests ask for is one object."""

    pool: Pool
    allowance: Allowance
    default_limit_s: int
    _of: dict[JobKey, tuple[Shape, Allowed]] = field(default_factory=dict)
    _shapes: dict[int, Shape] = field(default_factory=dict)
    _shape_of_value: dict[object, Shape] = field(default_factory=dict)

    def of(self, view: JobView) -> tuple[Shape, Allowed]:
        """What the job asks for, and where it may run if it starts when it becomes eligible."""
        found = self._of.get(view.key)
        if found is None:
            limit_s = limit_of(view.job, self.default_limit_s)
            allowed = self.allowance.of(view.job, view.eligible_s, limit_s)
            found = self._of[view.key] = self._shape(view.job.request), allowed
        return found

    def _shape(self, request: Request) -> Shape:
        """Shared between equal requests; by identity first: hashing one is dear."""
        found = self._shapes.get(id(request))
        if found is None:
            found = self._shape_of_value.get(request)
            if found is None:
                demand = demand_of(request, memory_counts=self.pool.memory_counts)
                found = Shape(len(self._shape_of_value), demand)
                self._shape_of_value[request] = found
            self._shapes[id(request)] = found
        return found
