"""What we did to a job and how to undo it: the ledger entry and the note kept in Slurm."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from .decision import Shape
from .job import JobKey
from .units import EpochS


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """Our standing mark on one job: what we set last, and the user's values before.

    ``lease_until_s``: the StartTime we wrote (None: no lease stands). ``original_begin_s``: the
    user's own begin time (0: none). ``hold_seen``: our hold has been observed with its note, so
    it is ours even if the note gets lost. ``pinned`` / ``excluded``: node lists we wrote in place
    of ``original_required`` / ``original_excluded``. ``shape``: what it was made to ask for in
    place of ``original_shape``, its user's request; both outlive runs and requeues.
    ``released_s``: when we let the job go; ``planned_nodes`` where it should start then.
    ``deferred_since_s``: since when it has been
    deferred without a break; ``deferred_s``: the spells before that, in sum. ``tasks``: array
    tasks let go together.
    ``failed_starts``: times it was let go and Slurm did not start it.
    ``surrendered``: the job belongs to Slurm for good, with the reason code.
    """

    key: JobKey
    address: str
    lease_until_s: EpochS | None = None
    original_begin_s: EpochS = 0
    held: bool = False
    hold_seen: bool = False
    pinned: tuple[str, ...] = ()
    pinned_at_s: EpochS | None = None
    original_required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    original_excluded: tuple[str, ...] = ()
    site_factor: int = 0
    original_site_factor: int = 0
    deferred_since_s: EpochS | None = None
    deferred_s: int = 0
    released_s: EpochS | None = None
    planned_nodes: tuple[str, ...] = ()
    planned_rank: int = -1
    tasks: int = 1
    failed_starts: int = 0
    surrendered: str = ""
    shape: Shape | None = None
    original_shape: Shape | None = None

    @property
    def marks(self) -> bool:
        """Whether anything of ours stands in Slurm."""
        return bool(
            self.lease_until_s is not None
            or self.held
            or self.pinned
            or self.excluded
            or self.shape is not None
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
    shape: Shape | None = None
    original_shape: Shape | None = None
    site_factor: int = 0


MARK = "[slurm_ext;"
"""What every note begins with: a cheap test before the real one."""

_NOTE = re.compile(r" ?\[slurm_ext;([^\s\[\]]*);crc:([0-9a-f]{8})\]")
_FIELDS = ("lease", "begin", "held", "pin", "req", "exc", "oexc", "shape", "oshape", "sf")
_PLAIN = re.compile(r"[0-9A-Za-z_.,-]*")
_ESCAPED = re.compile(r"%([0-9a-f]{2,6})\.")


def render_note(note: UndoNote) -> str:
    """One bracketed word without any blank (it must pass scontrol's stdin); folded host lists.

    Colons, not equals signs: ``scontrol -o`` output must not seem to hold another key. The
    checksum tells a whole note from one that was cut or edited. It is not bound to the job:
    Slurm copies AdminComment, with the values it speaks of, to array tasks and on a requeue.
    """
    values = (
        "" if note.lease_until_s is None else str(note.lease_until_s),
        str(note.original_begin_s),
        str(int(note.held)),
        note.pinned,
        note.original_required,
        note.excluded,
        note.original_excluded,
        _shape_text(note.shape),
        _shape_text(note.original_shape),
        str(note.site_factor),
    )
    text = ";".join(f"{k}:{_escape(v)}" for k, v in zip(_FIELDS, values, strict=True) if v)
    return f"{MARK}{text};crc:{_checksum(text)}]"


def parse_note(admin_comment: str) -> UndoNote | None:
    """The note inside an AdminComment, or None; a damaged note counts as none.

    Of several whole notes (another tool quoted one) the last is ours: we append.
    """
    if MARK not in admin_comment:
        return None
    whole = [found.group(1) for found in _NOTE.finditer(admin_comment) if _is_whole(found)]
    return _read(whole[-1]) if whole else None


def with_note(admin_comment: str, note: UndoNote | None) -> str:
    """The AdminComment with our note put in, replaced or (None) taken out; other text stays.

    All whole notes go, also quoted ones: left alone, one would be taken for ours later, and
    undo what is no longer there. What merely looks like a note is foreign text and stays.
    """
    rest = admin_comment
    if note is None and MARK not in rest:
        return rest
    while (shorter := _NOTE.sub(_drop_whole, rest)) != rest:
        rest = shorter  # again: taking one out may have joined the halves of another
    if note is None:
        return rest
    return f"{rest} {render_note(note)}" if rest else render_note(note)


def _read(text: str) -> UndoNote | None:
    values = dict(part.partition(":")[::2] for part in text.split(";"))
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
            shape=_shape(values.get("shape", "")),
            original_shape=_shape(values.get("oshape", "")),
            site_factor=int(values.get("sf", "0")),
        )
    except (ValueError, TypeError):  # TypeError: not the numbers of a shape
        return None


def _shape_text(shape: Shape | None) -> str:
    return "" if shape is None else ".".join(str(number) for number in shape)


def _shape(text: str) -> Shape | None:
    return Shape(*map(int, text.split("."))) if text else None


def _is_whole(found: re.Match[str]) -> bool:
    return _checksum(found.group(1)) == found.group(2)


def _drop_whole(found: re.Match[str]) -> str:
    return "" if _is_whole(found) else found.group()


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def _escape(value: str) -> str:
    """Round brackets for square ones, which end the note; %hex. for all but host list text."""
    if _PLAIN.fullmatch(value):
        return value
    return "".join(
        {"[": "(", "]": ")"}.get(ch)
        or (ch if ch.isascii() and (ch.isalnum() or ch in "-_.,") else f"%{ord(ch):02x}.")
        for ch in value
    )


def _unescape(value: str) -> str:
    plain = value.replace("(", "[").replace(")", "]")
    return _ESCAPED.sub(lambda found: chr(int(found.group(1), 16)), plain)
