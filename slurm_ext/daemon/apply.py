"""Sending a plan: intents into the journal first, then the patches, within a token budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from slurm_ext.engine.cycle import Step
from slurm_ext.model.decision import JobPatch, Lever
from slurm_ext.model.job import JobKey
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.port import Outcome, SlurmPort

from .journal import Journal

_URGENCY = {
    Lever.RELEASE: 0,
    Lever.RESTORE: 1,
    Lever.REQUEUE: 2,
    Lever.LEASE: 3,
    Lever.HOLD: 3,
    Lever.RANK: 4,
}
"""What goes first when tokens are short: what lets jobs run, then what undoes, then the rest."""


@dataclass(slots=True)
class Tokens:
    """A token bucket on the monotonic clock: ``rate_per_s`` writes, ``burst`` at once."""

    rate_per_s: float
    burst: float
    _level: float = field(init=False)
    _at_s: float | None = None

    def __post_init__(self) -> None:
        self._level = self.burst

    def take(self, wanted: int, monotonic_s: float) -> int:
        """How many of ``wanted`` writes may go now."""
        if self._at_s is not None:
            self._level += (monotonic_s - self._at_s) * self.rate_per_s
        self._level = min(self._level, self.burst)
        self._at_s = monotonic_s
        granted = min(wanted, int(self._level))
        self._level -= granted
        return granted


@dataclass(frozen=True, slots=True)
class Applied:
    """What was sent and what Slurm said.

    ``put_off``: patches without a token, due next cycle. ``refused``: reservations, in words.
    """

    patches: tuple[JobPatch, ...]
    outcomes: tuple[Outcome, ...]
    put_off: int
    refused: tuple[str, ...] = ()

    @property
    def errors(self) -> list[tuple[JobPatch, Outcome]]:
        pairs = zip(self.patches, self.outcomes, strict=True)
        return [(p, o) for p, o in pairs if not o.ok and not o.benign]


def apply(
    step: Step,
    port: SlurmPort,
    journal: Journal,
    tokens: Tokens,
    before: Mapping[JobKey, LedgerEntry],
    *,
    cycle: int,
    monotonic_s: float,
) -> Applied:
    """Commit, send, record.

    A patch that Slurm refuses has its ledger entry put back, so that the ledger never claims what
    is not there; what happened in truth is read in the next observation anyway.

    :raises JournalError: nothing has been sent.
    :raises SlurmUnavailableError: the intents stand as unfinished; the next cycle sorts them out.
    """
    chosen, put_off = _chosen(step.plan.patches, tokens, monotonic_s)
    skipped = {p.key for p in put_off}
    # The old key of a requeued job is forgotten below, whatever becomes of its patch.
    moved = {e.key: e for e in step.moved}
    changed = {e.key: e for e in step.entries if e.key not in skipped}
    entries, before = [*(moved | changed).values()], {**before, **moved}
    now_s = step.plan.now_s
    reserving = step.plan.reserve or step.plan.unreserve
    if not (entries or chosen or step.gone or reserving):
        return Applied((), (), 0)
    ids = journal.commit_intents(entries, chosen, cycle, now_s)
    if step.gone:
        journal.forget(step.gone)
    # The reservation of a job that starts goes before its release, a new one comes after.
    refused = [*_unreserve(step, port)]
    outcomes: tuple[Outcome, ...] = ()
    if chosen:
        outcomes = port.patch(chosen)
        journal.record_outcomes(ids, outcomes, now_s)
        _put_back(chosen, outcomes, before, journal, cycle, now_s)
    refused += _reserve(step, port)
    return Applied(tuple(chosen), outcomes, len(put_off), tuple(refused))


def _unreserve(step: Step, port: SlurmPort) -> list[str]:
    outcomes = [(name, port.unreserve(name)) for name in step.plan.unreserve]
    return [f"delete {name}: {o.detail}" for name, o in outcomes if not o.ok and not o.benign]


def _reserve(step: Step, port: SlurmPort) -> list[str]:
    outcomes = [(spec.name, port.reserve(spec)) for spec in step.plan.reserve]
    return [f"reserve {name}: {o.detail}" for name, o in outcomes if not o.ok and not o.benign]


def _chosen(
    patches: Sequence[JobPatch], tokens: Tokens, monotonic_s: float
) -> tuple[list[JobPatch], list[JobPatch]]:
    ordered = sorted(patches, key=lambda p: _URGENCY[p.lever])  # stable: planned order within
    granted = tokens.take(len(ordered), monotonic_s)
    return ordered[:granted], ordered[granted:]


def _put_back(
    patches: Sequence[JobPatch],
    outcomes: Sequence[Outcome],
    before: Mapping[JobKey, LedgerEntry],
    journal: Journal,
    cycle: int,
    now_s: EpochS,
) -> None:
    refused = [p.key for p, o in zip(patches, outcomes, strict=True) if not o.ok]
    if not refused:
        return
    shaped = {p.key for p in patches if p.shape is not None and p.lever is Lever.RELEASE}
    restored = [
        # Slurm would refuse that shape again and again.
        replace(before[k], failed_starts=before[k].failed_starts + 1) if k in shaped else before[k]
        for k in refused
        if k in before
    ]
    journal.commit_intents(restored, (), cycle, now_s)
    journal.forget([k for k in refused if k not in before])
