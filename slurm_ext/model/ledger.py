"""What we did to a job and how to undo it: the ledger entry and the note kept in Slurm."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .job import JobKey
from .units import EpochS


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """Our standing mark on one job: what we set last, and the user's values before.

    ``lease_until_s``: the StartTime we wrote (None: no lease stands). ``original_begin_s``: the
    user's own begin time (0: none). ``pinned`` / ``excluded``: node lists we wrote in place of
    ``original_required`` / ``original_excluded``. ``released_s``: when we let the job go;
    ``planned_nodes`` where it should start then. ``first_deferred_s``: first lease or hold, for
    the bound on total deferral. ``tasks``: array tasks let go together.
    ``surrendered``: the job belongs to Slurm for good, with the reason code.
    """

    key: JobKey
    address: str
    lease_until_s: EpochS | None = None
    original_begin_s: EpochS = 0
    held: bool = False
    pinned: tuple[str, ...] = ()
    pinned_at_s: EpochS | None = None
    original_required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    original_excluded: tuple[str, ...] = ()
    site_factor: int = 0
    original_site_factor: int = 0
    first_deferred_s: EpochS | None = None
    deferred_s: int = 0
    released_s: EpochS | None = None
    planned_nodes: tuple[str, ...] = ()
    planned_rank: int = -1
    tasks: int = 1
    surrendered: str = ""

    @property
    def marks(self) -> bool:
        """Whether anything of ours stands in Slurm."""
        return bool(
            self.lease_until_s is not None
            or self.held
            or self.pinned
            or self.excluded
            or self.site_factor != self.original_site_factor
        )


@dataclass(frozen=True, slots=True)
class UndoNote:
    """The undo values that survive the loss of our own disk, kept in the job's AdminComment."""

    lease_until_s: EpochS | None = None
    original_begin_s: EpochS = 0
    held: bool = False
    pinned: str = ""
    original_required: str = ""
    excluded: str = ""
    original_excluded: str = ""
    site_factor: int = 0


_NOTE = re.compile(r"\s?\[slurm_ext ([^\]\s]*)\]")
_FIELDS = ("lease", "begin", "held", "pin", "req", "exc", "oexc", "sf")


def render_note(note: UndoNote) -> str:
    """One bracketed token without spaces inside the values; host lists in folded form."""
    values = (
        "" if note.lease_until_s is None else str(note.lease_until_s),
        str(note.original_begin_s),
        str(int(note.held)),
        note.pinned,
        note.original_required,
        note.excluded,
        note.original_excluded,
        str(note.site_factor),
    )
    text = ";".join(f"{k}={_escape(v)}" for k, v in zip(_FIELDS, values, strict=True) if v)
    return f"[slurm_ext {text}]"


def parse_note(admin_comment: str) -> UndoNote | None:
    """The note inside an AdminComment, or None; a damaged note counts as none."""
    found = _NOTE.search(admin_comment)
    if found is None:
        return None
    values = dict(part.partition("=")[::2] for part in found.group(1).split(";"))
    try:
        lease = values.get("lease", "")
        return UndoNote(
            lease_until_s=int(lease) if lease else None,
            original_begin_s=int(values.get("begin", "0")),
            held=values.get("held", "0") == "1",
            pinned=_unescape(values.get("pin", "")),
            original_required=_unescape(values.get("req", "")),
            excluded=_unescape(values.get("exc", "")),
            original_excluded=_unescape(values.get("oexc", "")),
            site_factor=int(values.get("sf", "0")),
        )
    except ValueError:
        return None


def with_note(admin_comment: str, note: UndoNote | None) -> str:
    """The AdminComment with our note put in, replaced or (None) taken out; other text stays."""
    rest = _NOTE.sub("", admin_comment)
    if note is None:
        return rest
    return f"{rest} {render_note(note)}" if rest else render_note(note)


def _escape(value: str) -> str:
    # Host lists contain brackets, which end the note, and nothing else that hurts.
    return value.replace("[", "(").replace("]", ")")


def _unescape(value: str) -> str:
    return value.replace("(", "[").replace(")", "]")
