"""Free and lost GPUs for the metrics, worked out only when somebody asks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from slurm_ext.engine.frag import Fragmentation, fragmentation, largest_waiting, per_gpu_of
from slurm_ext.model.decision import Plan, Stage, Verdict
from slurm_ext.model.job import JobKey

if TYPE_CHECKING:
    from .runner import CycleResult


class Room:
    """The fragmentation of the last cycle, once a cycle at most, in the thread that asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._result: CycleResult | None = None
        self._found: Fragmentation | None = None

    def take(self, result: CycleResult) -> None:
        """Another cycle is over."""
        self._result = result

    def of_last_cycle(self) -> Fragmentation | None:
        """None before the first cycle."""
        with self._lock:
            result, self._result = self._result, None
            if result is not None:
                self._found = _of(result)
            return self._found


def _of(result: CycleResult) -> Fragmentation:
    obs = result.observation
    need = per_gpu_of([job for job in obs.jobs if not job.state.ended])
    wanted = largest_waiting(obs, _without_room(result.plan))
    return fragmentation(obs, result.context, need, wanted, moves=False)


def _without_room(plan: Plan) -> list[JobKey]:
    waiting = (plan.decisions[key] for key in plan.order)
    return [
        decision.key
        for decision in waiting
        if decision.verdict is Verdict.WAIT
        and any(reason.stage is Stage.PLACE for reason in decision.reasons)
    ]
