"""Slurm through slurmrestd: reads over HTTP, writes by Slurm's own commands.

The API can neither address one array task safely, nor refuse a change to a job that has just
started, nor requeue (before v0.0.45); so whatever changes Slurm goes the way that is known to be
safe, and fails clearly where the commands are not installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slurm_ext.model.decision import JobPatch, ReservationSpec
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.observation import Controller, Observation
from slurm_ext.model.restart import JobSignal
from slurm_ext.slurm.cli import CliSlurm
from slurm_ext.slurm.crosscheck import differences
from slurm_ext.slurm.deadline import Deadline
from slurm_ext.slurm.port import Outcome
from slurm_ext.slurm.rest_http import RestClient
from slurm_ext.slurm.rest_reader import MAX_JOBS, RestReader
from slurm_ext.slurm.rest_token import Token
from slurm_ext.slurm.run import Runner


@dataclass(frozen=True, slots=True)
class RestOptions:
    """``url``: ``unix:/path``, ``http://host:port`` or ``https://host:port``.

    ``limit_s``: time for each single call. ``max_jobs``: of longer queues only
    what changed is read, or they are refused where the API has no list of states.
    """

    url: str
    ca_file: str = ""
    limit_s: float = 20.0
    max_jobs: int = MAX_JOBS


class RestSlurm:
    """Implements :class:`slurm_ext.slurm.port.SlurmPort`. Not for use by several threads.

    ``token`` None: slurmrestd knows us by the socket (rest_auth/local). ``commands``: for what
    the API lacks.
    """

    def __init__(
        self,
        options: RestOptions,
        token: Token | None,
        commands: Runner,
        cli: CliSlurm,
        deadline: Deadline | None = None,
    ) -> None:
        """:raises ValueError: the address cannot be used."""
        client = RestClient(
            options.url,
            token.headers if token else dict,
            limit_s=options.limit_s,
            ca_file=options.ca_file,
            deadline=deadline,
        )
        refused = token.refused if token else _nothing
        self._reader = RestReader(client, commands, refused, options.max_jobs)
        self._cli = cli

    @property
    def note(self) -> str:
        """The form of the API, and what the commands do in its place."""
        lists = "" if self._reader.shows_lists else ", partitions and reservations"
        return f"API {self.api}; by the commands: configuration, SiteFactor{lists}, every change"

    @property
    def api(self) -> str:
        """The form of the API in use; asks slurmrestd the first time."""
        return self._reader.api

    def controller(self) -> Controller:
        """Version and configuration (``scontrol show config``)."""
        return self._cli.controller()

    def observe(self, *, site_factors: bool = False) -> Observation:
        """Everything of one moment, or SlurmUnavailableError/SlurmCommandError."""
        return self._reader.observe(site_factors=site_factors)

    def crosscheck(self) -> list[str]:
        """What text and slurmrestd say differently of this moment; empty if they agree."""
        return differences(self._cli.observe(), self.observe())

    def look(self, keys: Sequence[JobKey]) -> Mapping[JobKey, Job]:
        """Fresh records of these jobs; a key that is gone is missing from the answer."""
        wanted = set(keys)
        jobs = [job for job_id in {k.job_id for k in keys} for job in self._reader.siblings(job_id)]
        return {job.key: job for job in jobs if job.key in wanted}

    def patch(self, patches: Sequence[JobPatch]) -> tuple[Outcome, ...]:
        """By ``scontrol``, which can refuse what comes too late."""
        self._reader.forget(patch.key.job_id for patch in patches)
        return self._cli.patch(patches)

    def requeue(
        self, addresses: Sequence[tuple[JobKey, str]], *, failed: bool = False
    ) -> tuple[Outcome, ...]:
        """By ``scontrol requeue Incomplete``."""
        self._reader.forget(key.job_id for key, _ in addresses)
        return self._cli.requeue(addresses, failed=failed)

    def signal(self, signals: Sequence[JobSignal]) -> tuple[Outcome, ...]:
        """By ``scancel --signal``."""
        return self._cli.signal(signals)

    def workdirs(self, job_ids: Sequence[int]) -> Mapping[int, str]:
        """By ``squeue``."""
        return self._cli.workdirs(job_ids)

    def reserve(self, spec: ReservationSpec) -> Outcome:
        """By ``scontrol create reservation``."""
        return self._cli.reserve(spec)

    def unreserve(self, name: str) -> Outcome:
        """By ``scontrol delete``."""
        return self._cli.unreserve(name)

    def rpc_counts(self) -> Mapping[str, int]:
        """Messages the controller has handled, by type."""
        return self._reader.rpc_counts()


def _nothing() -> None:
    return None
