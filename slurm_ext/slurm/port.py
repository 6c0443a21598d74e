"""The one interface through which anything in this package sees or changes Slurm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slurm_ext.model.decision import JobPatch, ReservationSpec
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.observation import Controller, Observation
from slurm_ext.model.restart import JobSignal


@dataclass(frozen=True, slots=True)
class Outcome:
    """What Slurm said to one write. A hint only: the next observation says what happened.

    ``benign``: the job had ended or started meanwhile, nothing needs doing.
    """

    key: JobKey | None
    ok: bool
    benign: bool = False
    detail: str = ""


class SlurmPort(Protocol):
    """Implemented by the CLI, native and REST adapters and by the simulated Slurm.

    Every call has a time-out of its own and raises
    :class:`slurm_ext.errors.SlurmUnavailableError` when Slurm does not answer in time.
    """

    def controller(self) -> Controller:
        """Version and configuration of the controller (``scontrol show config``)."""
        ...

    def observe(self, *, site_factors: bool = False) -> Observation:
        """Jobs, nodes, partitions, reservations of one moment; all or an error.

        ``site_factors`` also reads each pending job's SiteFactor and the factors of its priority
        (one more call). Without ``sprio`` or with priority/basic jobs have neither.
        """
        ...

    def look(self, keys: Sequence[JobKey]) -> Mapping[JobKey, Job]:
        """A fresh look at some jobs only (for the check before an action)."""
        ...

    def patch(self, patches: Sequence[JobPatch]) -> tuple[Outcome, ...]:
        """Write job differences, batched; one outcome a patch, in the same order."""
        ...

    def requeue(
        self, addresses: Sequence[tuple[JobKey, str]], *, failed: bool = False
    ) -> tuple[Outcome, ...]:
        """``scontrol requeue Incomplete``: never restarts a job that has finished.

        ``failed``: only jobs that have ended as failed, which run again.
        """
        ...

    def signal(self, signals: Sequence[JobSignal]) -> tuple[Outcome, ...]:
        """``scancel --signal`` to jobs that run at this moment; ends none of them by itself."""
        ...

    def workdirs(self, job_ids: Sequence[int]) -> Mapping[int, str]:
        """The directories jobs were submitted from; jobs that are gone are missing."""
        ...

    def reserve(self, spec: ReservationSpec) -> Outcome:
        """Create a reservation of ours."""
        ...

    def unreserve(self, name: str) -> Outcome:
        """Delete a reservation of ours; refuses foreign name prefixes."""
        ...

    def rpc_counts(self) -> Mapping[str, int]:
        """Messages the controller has handled since its last reset, by type (``sdiag``)."""
        ...
