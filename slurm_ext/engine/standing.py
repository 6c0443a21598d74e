"""Which of our marks stand on a job: the ledger and the note, held against what Slurm shows.

The ledger is written before anything is sent, so after a crash, a time-out or a refusal it may
claim what never happened. The note is written in the same update as the values it speaks of. What
counts in the end is what Slurm shows now.
"""

from __future__ import annotations

from dataclasses import replace

from hostlist import expand_hostlist

from slurm_ext.model.job import Job
from slurm_ext.model.ledger import LedgerEntry, UndoNote, parse_note
from slurm_ext.model.reshape import stands
from slurm_ext.model.units import EpochS

SAME_S = 2
"""Slurm keeps whole seconds; a begin time within this of our lease is our lease."""


def standing(entry: LedgerEntry | None, job: Job, *, notes: bool) -> LedgerEntry | None:
    """The entry with only those marks that stand on this pending job; None: nothing is known.

    ``notes``: we write notes here, so a hold without one is not ours. A lost entry is rebuilt from
    the note.
    """
    note = parse_note(job.admin_comment)
    if entry is None:
        if note is None:
            return None
        entry = _from_note(job, note)
    elif entry.address != job.address:
        entry = replace(entry, address=job.address)
    elif note is None and not entry.marks:
        return entry
    entry = _shaped(_pinned(_leased(entry, job, note), job, note), job, note)
    return _held(entry, job, note, notes=notes)


def noted(entry: LedgerEntry | None, job: Job) -> LedgerEntry | None:
    """The entry, or what the job's note says in its place."""
    if entry is not None:
        return entry
    note = parse_note(job.admin_comment)
    return None if note is None else _from_note(job, note)


def _from_note(job: Job, note: UndoNote) -> LedgerEntry:
    return LedgerEntry(
        key=job.key,
        address=job.address,
        lease_until_s=note.lease_until_s,
        original_begin_s=note.original_begin_s,
        held=note.held,
        pinned=_names(note.pinned),
        original_required=_names(note.original_required),
        excluded=_names(note.excluded),
        original_excluded=_names(note.original_excluded),
        shape=note.shape,
        original_shape=note.original_shape,
        site_factor=note.site_factor,
    )


def _leased(entry: LedgerEntry, job: Job, note: UndoNote | None) -> LedgerEntry:
    if _same(job.begin_s, entry.lease_until_s):
        return entry
    if note is not None and _same(job.begin_s, note.lease_until_s):
        # The ledger is ahead: what it intended was not done.
        return replace(
            entry, lease_until_s=note.lease_until_s, original_begin_s=note.original_begin_s
        )
    return replace(entry, lease_until_s=None) if entry.lease_until_s is not None else entry


def _same(begin_s: EpochS | None, lease_s: EpochS | None) -> bool:
    return begin_s is not None and lease_s is not None and abs(begin_s - lease_s) <= SAME_S


def _pinned(entry: LedgerEntry, job: Job, note: UndoNote | None) -> LedgerEntry:
    now = set(job.request.required_nodes)
    if entry.pinned and set(entry.pinned) != now:
        entry = replace(entry, pinned=(), pinned_at_s=None)
    if not entry.pinned and note is not None and note.pinned:
        names = _names(note.pinned)
        if set(names) == now:
            entry = replace(entry, pinned=names, original_required=_names(note.original_required))
    if entry.excluded and set(entry.excluded) != set(job.request.excluded_nodes):
        entry = replace(entry, excluded=())
    return entry


def _shaped(entry: LedgerEntry, job: Job, note: UndoNote | None) -> LedgerEntry:
    claims = [(entry.shape, entry.original_shape)]
    if note is not None:
        claims.append((note.shape, note.original_shape))
    for ours, before in claims:
        if ours is not None and before is not None and stands(job.request, ours, before):
            return replace(entry, shape=ours, original_shape=before)
    return entry if entry.shape is None else replace(entry, shape=None, original_shape=None)


def _held(entry: LedgerEntry, job: Job, note: UndoNote | None, *, notes: bool) -> LedgerEntry:
    if not job.held_by_operator:
        return replace(entry, held=False, hold_seen=False) if entry.held else entry
    if note is not None and note.held:
        seen = replace(entry, held=True, hold_seen=True)
        return seen if seen != entry else entry
    if entry.held and notes and not entry.hold_seen:
        # Intended but never seen with its note: an administrator's hold came in between.
        return replace(entry, held=False)
    return entry


def _names(text: str) -> tuple[str, ...]:
    return tuple(expand_hostlist(text)) if text else ()
