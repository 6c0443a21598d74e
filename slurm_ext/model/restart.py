"""A running job that is stopped and comes back: for another job, or in another shape."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from .decision import Shape
from .job import JobKey
from .units import EpochS


class RestartStage(StrEnum):
    """How far a restart is. What is still to be sent is sent again after a crash."""

    SIGNAL = "signal"  # the checkpoint signal is to be sent
    SAVING = "saving"  # signalled: its answer or the end of its grace is waited for
    REQUEUE = "requeue"  # to be put back into the queue
    ENDING = "ending"  # put back: it still ends on its nodes
    QUEUED = "queued"  # waits to start again
    REVIVE = "revive"  # failed in its new shape: to be put back once
    TRIAL = "trial"  # runs in a new shape: its first progress is waited for
    OVER = "over"


class Outcome(StrEnum):
    """How a restart ended."""

    DONE = "done"  # it runs again, as wanted
    ENDED = "ended"  # the job ended by itself, or somebody ended it
    DROPPED = "dropped"  # nothing was stopped: paused, or not wanted any more
    NO_ANSWER = "no_answer"  # no checkpoint within its grace, and too much would be lost
    REFUSED = "refused"  # Slurm refused the signal or the requeue
    OLD_SHAPE = "old_shape"  # it runs again, but not in the shape that was wanted
    LEFT_ALONE = "left_alone"  # it did not come back in its old shape either: left to Slurm


@dataclass(frozen=True, slots=True)
class Restart:
    """One restart. ``key`` is that of the job before; a requeue gives it another submit time.

    ``gainer``: for whom room is made, None for a resize. ``run``: restarts before this one.
    ``answer_before_s``: time of the newest checkpoint known when it was signalled (0: none).
    ``gain_gpu_s``: what the restart is worth; ``lost_gpu_s``: work done again because of it,
    settled when the job is requeued. ``shape``: as it is to come back (None: as submitted);
    ``returned``: it did not, and is to come back as submitted. ``since_s``: when ``stage`` began;
    ``begun_s``: when all began. ``ready``: it may start as soon as it is its turn. ``back_s``: seen
    running again. ``first_submit_s``: when its user submitted it (0: as ``key`` has it).
    """

    key: JobKey
    address: str
    stage: RestartStage
    begun_s: EpochS
    since_s: EpochS
    gpus: int
    run: int
    gain_gpu_s: float
    gainer: JobKey | None = None
    shape: Shape | None = None
    returned: bool = False
    answer_before_s: float = 0.0
    answered_s: EpochS | None = None
    requeued_s: EpochS | None = None
    lost_gpu_s: float = 0.0
    ready: bool = False
    back_s: EpochS | None = None
    outcome: str = ""
    detail: str = ""
    first_submit_s: EpochS = 0

    @property
    def job_id(self) -> int:
        return self.key.job_id

    @property
    def active(self) -> bool:
        return self.stage is not RestartStage.OVER

    @property
    def wanted(self) -> Shape | None:
        """The shape it is to start in now, None for the submitted one."""
        return None if self.returned else self.shape

    @property
    def stopped(self) -> bool:
        """Whether the requeue has been sent."""
        return self.requeued_s is not None


@dataclass(frozen=True, slots=True)
class Past:
    """What was restarted before: requeues of the last hour, and restarts that are over."""

    requeues: int = 0
    over: tuple[Restart, ...] = ()


class JobSignal(NamedTuple):
    """A signal for a running job; ``to``: ``batch`` (its batch shell) or ``steps``."""

    key: JobKey
    address: str
    signal: str
    to: str
