"""Giving a job back: the patch that undoes what we wrote, and the note that lets anyone do so."""

from __future__ import annotations

from dataclasses import replace

from hostlist import collect_hostlist

from slurm_ext.model.decision import JobPatch, Lever
from slurm_ext.model.job import Job
from slurm_ext.model.ledger import LedgerEntry, UndoNote, with_note
from slurm_ext.model.units import EpochS


def restoration(
    job: Job, entry: LedgerEntry, now_s: EpochS, why: str, *, keep_rank: bool = False
) -> tuple[LedgerEntry, JobPatch | None]:
    """The patch that gives a job back to its owner, and the entry that says so.

    Only for pending jobs: node lists of a running job must never be written (it would shrink).
    A lease the user has overwritten is left as the user set it.
    """
    ours = (
        entry.lease_until_s is not None
        and job.begin_s is not None
        and abs(job.begin_s - entry.lease_until_s) <= 2
    )
    begin_s = entry.original_begin_s if entry.original_begin_s > now_s else 0
    factor = entry.original_site_factor
    boosted = entry.site_factor != factor and not keep_rank
    cleared = replace(
        entry,
        lease_until_s=None,
        held=False,
        pinned=(),
        pinned_at_s=None,
        excluded=(),
        released_s=None,
        site_factor=factor if boosted else entry.site_factor,
    )
    if not job.state.pending:
        return cleared, None
    comment = with_note(job.admin_comment, note_of(cleared))
    patch = JobPatch(
        job.key,
        job.address,
        Lever.RESTORE,
        site_factor=factor if boosted else None,
        begin_s=begin_s if ours else None,
        required_nodes=entry.original_required if entry.pinned else None,
        excluded_nodes=entry.original_excluded if entry.excluded else None,
        hold=False if entry.held and job.held else None,
        admin_comment=comment if comment != job.admin_comment else None,
        why=why,
    )
    nothing = all(
        value is None
        for value in (patch.site_factor, patch.begin_s, patch.required_nodes, patch.excluded_nodes,
                      patch.hold, patch.admin_comment)
    )  # fmt: skip
    return cleared, None if nothing else patch


def note_of(entry: LedgerEntry) -> UndoNote | None:
    """The note that lets anyone undo what the entry did; None when nothing needs undoing.

    A SiteFactor alone is no reason for a note: it is harmless, and Slurm forgets it with the job.
    """
    if entry.lease_until_s is None and not entry.held and not entry.pinned and not entry.excluded:
        return None
    return UndoNote(
        lease_until_s=entry.lease_until_s,
        original_begin_s=entry.original_begin_s,
        held=entry.held,
        pinned=_fold(entry.pinned),
        original_required=_fold(entry.original_required),
        excluded=_fold(entry.excluded),
        original_excluded=_fold(entry.original_excluded),
        site_factor=entry.site_factor,
    )


def _fold(names: tuple[str, ...]) -> str:
    return str(collect_hostlist(list(names))) if names else ""
