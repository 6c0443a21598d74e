"""Slurm through its own commands: the adapter that works with every version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from slurm_ext.model.decision import JobPatch, ReservationSpec
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.observation import Controller, Observation
from slurm_ext.model.restart import JobSignal
from slurm_ext.slurm.crosscheck import differences
from slurm_ext.slurm.json_reader import JsonReader
from slurm_ext.slurm.port import Outcome
from slurm_ext.slurm.reader import TextReader
from slurm_ext.slurm.run import Runner
from slurm_ext.slurm.text import parse_config, parse_rpc_counts
from slurm_ext.slurm.watch import SINGLE_SHARE
from slurm_ext.slurm.writer import Writer


@dataclass(frozen=True, slots=True)
class CliOptions:
    """``format``: ``text`` is 10 to 50 times cheaper; ``json`` reads the same from ``--json``.

    ``timeout_s``: limit of each single command. ``batch``: commands in one scontrol process.
    ``single_share``: part of the jobs whose details are asked for one by one when they changed.
    """

    format: Literal["text", "json"] = "text"
    timeout_s: float = 20.0
    batch: int = 200
    single_share: float = SINGLE_SHARE


class CliSlurm:
    """Implements :class:`slurm_ext.slurm.port.SlurmPort`. Not for use by several threads."""

    def __init__(
        self,
        options: CliOptions | None = None,
        runner: Runner | None = None,
        observer: Runner | None = None,
    ) -> None:
        """``observer``: runs the reads of a whole look, which may take longer than other calls."""
        self.options = options or CliOptions()
        self._runner = runner or Runner(timeout_s=self.options.timeout_s)
        self._text = TextReader(observer or self._runner, self.options.single_share)
        self._json = JsonReader(observer or self._runner)
        self._writer = Writer(
            self._runner, self._text.look, self._text.siblings, batch=self.options.batch
        )

    @property
    def note(self) -> str:
        """Nothing to add."""
        return ""

    def controller(self) -> Controller:
        """Version and configuration (``scontrol show config``)."""
        return parse_config(self._runner.ask(["scontrol", "show", "config"]))[0]

    def observe(self, *, site_factors: bool = False) -> Observation:
        """Everything of one moment, or SlurmUnavailableError/SlurmCommandError."""
        reader = self._json if self.options.format == "json" else self._text
        return reader.observe(site_factors=site_factors)

    def crosscheck(self) -> list[str]:
        """What text and JSON say differently of this moment; empty if they agree."""
        return differences(self._text.observe(), self._json.observe())

    def look(self, keys: Sequence[JobKey]) -> Mapping[JobKey, Job]:
        """Fresh records of these jobs; a key that is gone is missing from the answer."""
        return self._text.look(keys)

    def patch(self, patches: Sequence[JobPatch]) -> tuple[Outcome, ...]:
        """Write job differences (``scontrol update|hold|release``)."""
        self._text.forget(patch.key.job_id for patch in patches)
        return self._writer.patch(patches)

    def requeue(
        self, addresses: Sequence[tuple[JobKey, str]], *, failed: bool = False
    ) -> tuple[Outcome, ...]:
        """``scontrol requeue Incomplete``."""
        return self._writer.requeue(addresses, failed=failed)

    def signal(self, signals: Sequence[JobSignal]) -> tuple[Outcome, ...]:
        """``scancel --signal``."""
        return self._writer.signal(signals)

    def workdirs(self, job_ids: Sequence[int]) -> Mapping[int, str]:
        """The directories jobs were submitted from (``squeue``)."""
        return self._text.workdirs(job_ids)

    def reserve(self, spec: ReservationSpec) -> Outcome:
        """``scontrol create reservation``; whole minutes, rounded up."""
        return self._writer.reserve(spec)

    def unreserve(self, name: str) -> Outcome:
        """``scontrol delete``; refuses names without our prefix."""
        return self._writer.unreserve(name)

    def rpc_counts(self) -> Mapping[str, int]:
        """Messages the controller has handled, by type (``sdiag``)."""
        return parse_rpc_counts(self._runner.ask(["sdiag"]))
