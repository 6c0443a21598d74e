"""What a job says about itself while it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Report:
    """One report of a job.

    ``at_s``: epoch seconds by the job's clock. ``run``: restarts before it (SLURM_RESTART_COUNT).
    ``step``: units of work done in all, as the annotation's ``work`` counts them. ``checkpoint``:
    the state at ``step`` is safe on disk. ``gpus`` 0, others None: not said.
    """

    at_s: float
    run: int
    step: float
    checkpoint: bool = False
    gpus: int = 0
    samples_per_s: float | None = None
    loss: float | None = None
    batch_size: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The reports of one job, oldest first; ``bad_lines`` were not usable.

    ``problem``: why nothing could be read, empty if it could or if there is no file.
    """

    reports: tuple[Report, ...] = ()
    bad_lines: int = 0
    problem: str = ""

    @property
    def last_checkpoint(self) -> Report | None:
        """The newest report of a checkpoint."""
        return next((r for r in reversed(self.reports) if r.checkpoint), None)
