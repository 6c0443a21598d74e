"""Undoing what was left behind: at start, after a death, or by hand.

Works from the union of the ledger and the notes in the jobs themselves, so that the loss of
either is survived.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slurm_ext.engine.restore import restoration
from slurm_ext.engine.settings import Context
from slurm_ext.engine.view import entry_of
from slurm_ext.errors import JournalError
from slurm_ext.model.decision import JobPatch
from slurm_ext.model.job import JobKey
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.observation import Observation
from slurm_ext.policies import get
from slurm_ext.slurm.port import Outcome, SlurmPort

from .journal import Journal

log = logging.getLogger(__name__)

RESERVATION_PREFIX = "slurm_ext_"


@dataclass(slots=True)
class Recovery:
    """What was found and given back. ``left``: refused by Slurm, with its words."""

    patches: tuple[JobPatch, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    reservations: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def marked(obs: Observation, ledger: Mapping[JobKey, LedgerEntry]) -> list[tuple[int, LedgerEntry]]:
    """(position in obs.jobs, entry) of every pending job that carries something of ours."""
    ctx = Context(policy=get("fifo"), ledger=ledger)
    found = []
    for position, job in enumerate(obs.jobs):
        if not job.state.pending:
            continue
        entry = entry_of(job, ctx)
        if entry is not None and entry.marks:
            found.append((position, entry))
    return found


def fail_open(port: SlurmPort, journal: Journal | None, *, can_note: bool) -> Recovery:
    """Give every job back to Slurm and delete our reservations. Safe to repeat.

    :raises SlurmUnavailableError: Slurm does not answer; leases lapse by themselves meanwhile.
    """
    ledger = _ledger(journal)
    obs = port.observe(site_factors=True)
    result = Recovery()
    entries, patches = [], []
    for position, entry in marked(obs, ledger):
        cleared, patch = restoration(obs.jobs[position], entry, obs.now_s, "fail_open")
        entries.append(cleared)
        if patch is not None:
            patches.append(patch if can_note else replace(patch, admin_comment=None))
    if patches:
        result.patches = tuple(patches)
        result.outcomes = port.patch(patches)
        _report(result)
    _store(journal, entries, result, obs)
    for reservation in obs.reservations:
        if reservation.name.startswith(RESERVATION_PREFIX):
            outcome = port.unreserve(reservation.name)
            (result.reservations if outcome.ok else result.left).append(reservation.name)
    return result


def _report(result: Recovery) -> None:
    for patch, outcome in zip(result.patches, result.outcomes, strict=True):
        if not outcome.ok and not outcome.benign:
            result.left.append(f"job {patch.address}: {outcome.detail}")


def _ledger(journal: Journal | None) -> Mapping[JobKey, LedgerEntry]:
    if journal is None:
        return {}
    try:
        return journal.entries()
    except JournalError as error:
        log.error("%s; going on with the notes in the jobs", error)
        return {}


def _store(
    journal: Journal | None, entries: list[LedgerEntry], result: Recovery, obs: Observation
) -> None:
    """The ledger forgets what was given back; what Slurm refused stays in it."""
    if journal is None:
        return
    refused = {
        p.key
        for p, o in zip(result.patches, result.outcomes, strict=True)
        if not o.ok and not o.benign
    }
    try:
        journal.forget([e.key for e in entries if e.key not in refused])
        journal.give_up(obs.now_s)
    except JournalError as error:
        log.error("%s; the jobs themselves have been given back", error)
