"""A training job that runs by measured tables, epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from math import isfinite

import numpy as np

from slurm_ext.engine.allocation import Contender
from slurm_ext.engine.parts.goodput import best
from slurm_ext.model.annotation import Annotation, Checkpoint, Scaling, Speed
from slurm_ext.model.goodput import Goodput, StepTime
from slurm_ext.sim.errors import SimulationError
from slurm_ext.sim.live import Live
from slurm_ext.sim.outcome import JobOutcome
from slurm_ext.sim.physics import Declared, Physics
from slurm_ext.sim.workload import TraceJob

from .agent import fit
from .tables import MOST_GPUS, ONE_GPU, Application, Step


@dataclass(slots=True, eq=False, kw_only=True)
class TrainingJob(Live):
    """``adapts``: the job chooses its own batch size as it learns its goodput; else the trace's
    ``batch``. It works in whole seconds at the end of each epoch, as the artifact of Pollux does.
    ``node_gpus``: GPUs of a node, for what an oracle knows of other sizes.
    """

    app: Application
    adapts: bool
    node_gpus: int
    restart_s: int = 30
    epoch: int = 0
    progress: float = 0.0
    local: int = 0
    rounds: int = 0
    done_at_s: int | None = None
    seen: dict[tuple[int, int, int], Step] = field(default_factory=dict)
    model: StepTime | None = None
    fitted: int = 0
    gradient: tuple[float, float] = (0.0, 0.0)

    # -- running -------------------------------------------------------------------------

    def placed(self, restart_s: int) -> None:
        """It holds other GPUs than before."""
        self.pause_s = float(restart_s)
        self._choose_batch()

    def advance(self, now_s: int, physics: Physics) -> None:
        passed_s = now_s - self.updated_s
        at_s, self.updated_s = self.updated_s, now_s
        if not passed_s or not self.gpus:
            return
        if self.done_at_s is not None:
            return
        paused_s = min(self.pause_s, passed_s)
        self.pause_s -= paused_s
        self._train(at_s + paused_s, passed_s - paused_s)
        passed_s = passed_s if self.done_at_s is None else self.done_at_s - at_s
        self.attained_s += passed_s
        self.attained_gpu_s += passed_s * self.gpus

    def _train(self, at_s: float, seconds: float) -> None:
        parts = [s.gpus for s in self.slices]
        while seconds > 0 and self.done_at_s is None:
            rate = self._rate(parts)
            ahead = self.app.progress[self.epoch + 1] - self.progress
            if rate * seconds < ahead:
                self.progress += rate * seconds
                seconds = 0.0
            else:
                self.epoch += 1
                took_s = min(round(ahead / rate), seconds)
                at_s, seconds = at_s + took_s, seconds - took_s
                self.progress = self.app.progress[self.epoch]
                if self.epoch > self.app.last_epoch:
                    self.done_at_s, self.left_s = round(at_s), 0.0
            self._choose_batch()

    def _rate(self, parts: list[int]) -> float:
        """Progress a second: gain over the job's own batch, over the time of a step; is noted."""
        step = self.app.step(parts, self.local)
        if not isfinite(step.step_s):
            where = f"{self.app.name} on {parts} GPUs with {self.local} samples each"
            raise SimulationError(f"{where}: nothing near enough was measured")
        batch = sum(parts) * self.local * (self.rounds + 1)
        sqr, var = self.gradient = self.app.gradient(batch, self.epoch)
        gain = (var + sqr) / (var * self.app.batch / batch + sqr)
        self.seen.setdefault((len(parts), sum(parts), self.local), step)
        return gain / (step.step_s + self.rounds * (step.step_s - step.sync_s))

    def _choose_batch(self) -> None:
        gpus = sum(s.gpus for s in self.slices)
        fixed = self.spec.batch
        if self.adapts and self.app.name in ONE_GPU:
            fixed = self.app.max_batch
        elif self.adapts:
            known = self.goodput()
            fixed = max(self.app.batch, self.app.local_min * gpus)
            if known.step is not None:
                found = best(known, len(self.slices) > 1, np.array([gpus]))
                self.local, self.rounds = int(found.local[0]), int(found.accumulate[0])
                self.local = self.app.clipped(self.local, self.rounds, gpus)
                return
        self.local, self.rounds = self.app.split(fixed, gpus)

    # -- as a policy sees it -------------------------------------------------------------

    def goodput(self) -> Goodput:
        """What the job knows of itself."""
        app = self.app
        if len(self.seen) > self.fitted:
            self.model, self.fitted = fit(self.seen), len(self.seen)
        tried = max((gpus for _, gpus, _ in self.seen), default=0)
        most = min(max(2 * tried, 1), MOST_GPUS, app.max_batch // app.local_min)
        if app.name in ONE_GPU:
            most = 1
        return Goodput(
            self.model, *self.gradient, app.batch, app.max_batch, app.local_min, app.local_max, most
        )

    def contender(self) -> Contender:
        plain = super(TrainingJob, self).contender()
        if self.adapts:
            return replace(plain, goodput=self.goodput())
        app, batch, gpus = self.app, self.spec.batch, self.spec.gpus
        left = app.steps(batch, app.last_epoch) - app.steps(batch, min(self.epoch, app.last_epoch))
        left_s = max(1.0, left) * app.step_s(batch, gpus, self.node_gpus)
        note = _declared(app, batch, self.node_gpus, self.restart_s)
        return replace(plain, remaining_s=left_s, annotation=note)

    def outcome(self, now_s: int) -> JobOutcome:
        found = super(TrainingJob, self).outcome(now_s)
        return found if self.done_at_s is None else replace(found, end_s=self.done_at_s)


@cache
def _declared(app: Application, batch: int, node_gpus: int, restart_s: int) -> Annotation:
    """What an oracle would declare: steps a second on each number of GPUs that can be had."""
    most = 1 if app.name in ONE_GPU else min(MOST_GPUS, max(1, batch // app.local_min))
    table = []
    for gpus in range(1, most + 1):
        seconds = app.step_s(batch, gpus, node_gpus)
        if not isfinite(seconds):
            break
        table.append((gpus, 1 / seconds))
    return Annotation(
        Scaling("elastic", 1, table[-1][0], powers_of_two=False),
        Checkpoint(restart_s=restart_s), Speed(tuple(table)), family=app.name,
    )  # fmt: skip


class Measured(Declared):
    """Physics of training jobs: time is counted, progress is the job's own affair."""

    def speed(self, job: TraceJob, slices: object, active: int) -> float:
        return 1.0
