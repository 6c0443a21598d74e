"""Undoing what was left behind: at start, after a death, or by hand.

Works from the union of the ledger and the notes in the jobs themselves, so that the loss of
either is survived.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slurm_ext.engine.cycle import carried
from slurm_ext.engine.nodes import with_nodes
from slurm_ext.engine.restore import empty, restoration, tidying
from slurm_ext.engine.settings import Context, LeverSettings
from slurm_ext.engine.view import entry_of
from slurm_ext.errors import JournalError
from slurm_ext.model.decision import JobPatch
from slurm_ext.model.job import JobKey
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.observation import Observation
from slurm_ext.policies import get
from slurm_ext.slurm.port import SlurmPort

from .journal import Journal

log = logging.getLogger(__name__)

RESERVATION_PREFIX = "slurm_ext_"


@dataclass(slots=True)
class Recovery:
    """What was found and given back. ``left``: refused by Slurm, with its words."""

    given_back: set[JobKey] = field(default_factory=set)
    reservations: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


ROUNDS = 4
"""A released hold keeps its note until it is seen released: so look again, and again."""


def fail_open(port: SlurmPort, journal: Journal | None, *, can_note: bool, notes: bool) -> Recovery:
    """Give every job back to Slurm and delete our reservations. Safe to repeat.

    ``can_note``: we may clear AdminComment. ``notes``: the daemon wrote notes, so a hold that was
    never seen with one is not ours.

    :raises SlurmUnavailableError: Slurm does not answer; leases lapse by themselves meanwhile.
    """
    ledger = _ledger(journal)
    result = Recovery()
    for _ in range(ROUNDS):
        obs = port.observe(site_factors=True)
        patches = _patches(obs, ledger, can_note=can_note, notes=notes)
        if not patches:
            break
        outcomes = port.patch(patches)
        result.given_back |= {p.key for p in patches}
        result.left = [
            f"job {p.address}: {o.detail}"
            for p, o in zip(patches, outcomes, strict=True)
            if not o.ok and not o.benign
        ]
        # The boosts have been taken back; without this they would be written again.
        ledger = {k: replace(e, site_factor=e.original_site_factor) for k, e in ledger.items()}
    _forget(journal, ledger, obs, clean=not result.left)
    for reservation in obs.reservations:
        if reservation.name.startswith(RESERVATION_PREFIX):
            outcome = port.unreserve(reservation.name)
            (result.reservations if outcome.ok else result.left).append(reservation.name)
    return result


def _patches(
    obs: Observation, ledger: Mapping[JobKey, LedgerEntry], *, can_note: bool, notes: bool
) -> list[JobPatch]:
    """What undoes everything of ours that stands now, and takes notes off what runs."""
    levers = LeverSettings(undo_notes=notes)
    ctx = Context(policy=get("fifo"), ledger={**ledger, **carried(obs, ledger)}, levers=levers)
    obs = with_nodes(obs, ctx.ledger)
    patches = []
    for job in obs.jobs:
        entry = entry_of(job, ctx) if job.state.pending else None
        if entry is not None:
            patch = restoration(job, entry, obs.now_s, "fail_open")[1]
        else:
            patch = tidying(job)
        if patch is not None and not can_note:
            patch = replace(patch, admin_comment=None)
        if patch is not None and not empty(patch):
            patches.append(patch)
    return patches


def _ledger(journal: Journal | None) -> Mapping[JobKey, LedgerEntry]:
    if journal is None:
        return {}
    try:
        return journal.entries()
    except JournalError as error:
        log.error("%s; going on with the notes in the jobs", error)
        return {}


def _forget(
    journal: Journal | None, ledger: Mapping[JobKey, LedgerEntry], obs: Observation, *, clean: bool
) -> None:
    """The ledger forgets what was given back; if Slurm refused anything, all of it stays.

    What a running job asked for before it was reshaped is needed when it is requeued.
    """
    running = {job.key for job in obs.jobs if job.state.occupies}
    if journal is None:
        return
    try:
        if clean:
            kept = {k for k, e in ledger.items() if e.shape is not None and k in running}
            journal.forget([key for key in ledger if key not in kept])
        journal.give_up(obs.now_s)
    except JournalError as error:
        log.error("%s; the jobs themselves have been given back", error)
