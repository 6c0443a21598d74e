"""Giving a job back: the patch that undoes what we wrote, and the note that lets anyone do so."""

from __future__ import annotations

from dataclasses import replace

from hostlist import collect_hostlist

from slurm_ext.model.decision import JobPatch, Lever, Shape
from slurm_ext.model.job import Job
from slurm_ext.model.ledger import MARK, LedgerEntry, UndoNote, parse_note, with_note
from slurm_ext.model.reshape import given_back
from slurm_ext.model.units import EpochS


def restoration(
    job: Job, entry: LedgerEntry, now_s: EpochS, why: str, *, keep_rank: bool = False
) -> tuple[LedgerEntry, JobPatch | None]:
    """The patch that gives a pending job back to its owner; None when nothing of ours stands.

    ``entry`` holds the standing marks (:mod:`standing`). The entry returned keeps them: only the
    next observation may say that they are gone. While a hold is being released, or the shape given
    back, the note stays, so that a crash or a refusal in between still leaves a trace. A begin
    time set by the user is not touched.
    """
    factor = entry.original_site_factor
    boosted = entry.site_factor != factor and not keep_rank
    left = None if entry.shape is None else shape_note(entry)
    comment = job.admin_comment if entry.held else with_note(job.admin_comment, left)
    begin_s = entry.original_begin_s if entry.original_begin_s > now_s else 0
    shape = shape_before(job, entry)
    patch = JobPatch(
        job.key,
        job.address,
        Lever.RESTORE,
        site_factor=factor if boosted else None,
        begin_s=begin_s if entry.lease_until_s is not None else None,
        required_nodes=entry.original_required if entry.pinned else None,
        excluded_nodes=entry.original_excluded if entry.excluded else None,
        hold=False if entry.held else None,
        shape=shape,
        nodes=entry.shape.nodes if shape is not None and entry.shape is not None else None,
        admin_comment=comment if comment != job.admin_comment else None,
        why=why,
    )
    after = replace(entry, released_s=None, site_factor=factor if boosted else entry.site_factor)
    return after, None if empty(patch) else patch


def shape_before(job: Job, entry: LedgerEntry) -> Shape | None:
    """The shape the job's user asked for, None if that is what stands."""
    if entry.shape is None or entry.original_shape is None:
        return None
    return given_back(job.request, entry.shape, entry.original_shape)


def shape_note(known: LedgerEntry | UndoNote) -> UndoNote | None:
    """What must be known of a job as long as it lives, for its next requeue."""
    if known.shape is None:
        return None
    return UndoNote(shape=known.shape, original_shape=known.original_shape)


def tidying(job: Job) -> JobPatch | None:
    """The patch that takes our note off a job that runs, and with it a hold that came too late.

    Of a job in another shape the shape its user asked for stays noted.

    Slurm keeps such a hold, and the job would be held after a requeue. A pin stays known to the
    ledger: on a running job a node list must not be touched.
    """
    if not job.state.running or MARK not in job.admin_comment:
        return None
    note = parse_note(job.admin_comment)
    clean = with_note(job.admin_comment, None if note is None else shape_note(note))
    if clean == job.admin_comment:
        return None
    if note is not None and note.held and job.priority == 0:
        # The note goes once the release has been seen.
        return JobPatch(job.key, job.address, Lever.RESTORE, hold=False, why="started")
    return JobPatch(job.key, job.address, Lever.RESTORE, admin_comment=clean, why="started")


def empty(patch: JobPatch) -> bool:
    """Whether a patch changes nothing."""
    values = (
        patch.site_factor, patch.begin_s, patch.required_nodes, patch.excluded_nodes, patch.hold,
        patch.shape, patch.admin_comment,
    )  # fmt: skip
    return all(value is None for value in values)


def note_of(entry: LedgerEntry) -> UndoNote | None:
    """The note that lets anyone undo what the entry did; None when nothing needs undoing.

    A SiteFactor alone is no reason for a note: it is harmless, and Slurm forgets it with the job.
    """
    if not replace(entry, site_factor=entry.original_site_factor).marks:
        return None
    return UndoNote(
        lease_until_s=entry.lease_until_s,
        original_begin_s=entry.original_begin_s,
        held=entry.held,
        pinned=_fold(entry.pinned),
        original_required=_fold(entry.original_required),
        excluded=_fold(entry.excluded),
        original_excluded=_fold(entry.original_excluded),
        shape=entry.shape,
        original_shape=entry.original_shape,
        site_factor=entry.site_factor,
    )


def _fold(names: tuple[str, ...]) -> str:
    return str(collect_hostlist(list(names))) if names else ""
