"""What can go wrong in a simulation, apart from the simulated Slurm's own refusals."""

from __future__ import annotations

from slurm_ext.errors import SlurmExtError


class TraceError(SlurmExtError):
    """A trace cannot be used: unreadable, or rows that cannot be, with their line numbers."""

    exit_code = 2


class SimulationError(SlurmExtError):
    """The simulation contradicts itself: two jobs on one GPU, time running backwards, a stall."""

    exit_code = 8
