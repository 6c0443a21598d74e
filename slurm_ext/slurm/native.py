"""Slurm through pyslurm in a process of its own, with the commands for what it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurm_ext.model.decision import JobPatch, ReservationSpec
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.observation import Controller, Observation
from slurm_ext.model.restart import JobSignal
from slurm_ext.slurm.cli import CliSlurm
from slurm_ext.slurm.crosscheck import differences
from slurm_ext.slurm.deadline import Deadline
from slurm_ext.slurm.native_process import Child, ChildOptions
from slurm_ext.slurm.native_reader import NativeReader
from slurm_ext.slurm.native_writer import NativeWriter
from slurm_ext.slurm.port import Outcome
from slurm_ext.slurm.reader import TextReader
from slurm_ext.slurm.run import Runner

BY_COMMANDS = (
    "configuration, nodes, reservations, SiteFactor, requeue, array tasks, cleared values, "
    "SiteFactor 0, raw GPU requests, dependencies, and jobs that pyslurm cannot read"
)
"""What the native way leaves to Slurm's commands."""


class NativeSlurm:
    """Implements :class:`slurm_ext.slurm.port.SlurmPort`. Not for use by several threads."""

    def __init__(
        self,
        options: ChildOptions,
        commands: Runner,
        cli: CliSlurm,
        observer: Runner | None = None,
        environ: Mapping[str, str] | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        """``environ``: the child's, where it is not ours. ``commands``: for what pyslurm lacks;
        ``observer`` in a whole look. ``deadline``: of a look.
        """
        self._child = Child(options, environ, deadline)
        reads = observer or commands
        text = TextReader(reads)
        self._reader = NativeReader(self._child, reads, text)
        self._writer = NativeWriter(
            self._child, commands, self._reader.look, text.siblings, self._reader.is_single
        )
        self._cli = cli

    @property
    def note(self) -> str:
        """Which pyslurm this is, and what the commands do in its place."""
        version = ".".join(map(str, self._child.version()))
        python = self._child.options.python
        return f"pyslurm {version} of {python}; by the commands: {BY_COMMANDS}"

    def controller(self) -> Controller:
        """Version and configuration (``scontrol show config``)."""
        return self._reader.controller()

    def observe(self, *, site_factors: bool = False) -> Observation:
        """Everything of one moment, or SlurmUnavailableError/SlurmCommandError."""
        return self._reader.observe(site_factors=site_factors)

    def crosscheck(self) -> list[str]:
        """What text and pyslurm say differently of this moment; empty if they agree."""
        return differences(self._cli.observe(), self.observe())

    def look(self, keys: Sequence[JobKey]) -> Mapping[JobKey, Job]:
        """Fresh records of these jobs; a key that is gone is missing from the answer."""
        return self._reader.look(keys)

    def patch(self, patches: Sequence[JobPatch]) -> tuple[Outcome, ...]:
        """Write job differences."""
        return self._writer.patch(patches)

    def requeue(
        self, addresses: Sequence[tuple[JobKey, str]], *, failed: bool = False
    ) -> tuple[Outcome, ...]:
        """``scontrol requeue Incomplete``: pyslurm's would run a cancelled job again."""
        return self._writer.requeue(addresses, failed=failed)

    def signal(self, signals: Sequence[JobSignal]) -> tuple[Outcome, ...]:
        """``scancel --signal``."""
        return self._writer.signal(signals)

    def workdirs(self, job_ids: Sequence[int]) -> Mapping[int, str]:
        """The directories jobs were submitted from (``squeue``)."""
        return self._cli.workdirs(job_ids)

    def reserve(self, spec: ReservationSpec) -> Outcome:
        """``scontrol create reservation``."""
        return self._writer.reserve(spec)

    def unreserve(self, name: str) -> Outcome:
        """``scontrol delete``; refuses names without our prefix."""
        return self._writer.unreserve(name)

    def rpc_counts(self) -> Mapping[str, int]:
        """Messages the controller has handled, by type."""
        return self._reader.rpc_counts()

    def close(self) -> None:
        """End pyslurm's process."""
        self._child.close()
