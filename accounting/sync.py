"""Keeping the store up to date: windows of a day, oldest first, each committed with the watermark.

A break at any point loses nothing: what was committed stays, the next run goes on behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from slurm_ext.accounting import steps
from slurm_ext.accounting.record import Attempt
from slurm_ext.accounting.sacct import Skipped, read_dump, read_window
from slurm_ext.accounting.steps import Used
from slurm_ext.accounting.store import Covered, Store
from slurm_ext.errors import SlurmCommandError, SlurmUnavailableError
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.run import Runner

DAY_S = 86400
OVERLAP_S = 3600
"""Read again at each seam: slurmdbd learns of the last minutes late."""
OPEN_CHUNK = 500
FIRST_DAYS = 90


@dataclass(slots=True)
class SyncReport:
    """What one run did. ``stopped``: why it ended early, empty if it did not."""

    pages: int = 0
    read: int = 0
    new: int = 0
    total: int = 0
    skipped: Skipped = field(default_factory=Skipped)
    notes: list[str] = field(default_factory=list)
    stopped: str = ""
    unavailable: bool = False
    covered: Covered | None = None
    seen: set[int] = field(default_factory=set)


def sync(
    store: Store,
    runner: Runner,
    now_s: EpochS,
    *,
    since_s: EpochS | None = None,
    progress: Callable[[EpochS, EpochS, int], None] | None = None,
    overlap_s: int = OVERLAP_S,
) -> SyncReport:
    """Read what is new, and older history if ``since_s`` lies before what is there.

    Slurm not answering ends the run with ``stopped``; the store keeps all it has.

    :raises HistoryError: the store cannot be written.
    """
    report = SyncReport()
    try:
        for start_s, end_s, covered in _pages(store.covered(), now_s, since_s, overlap_s, report):
            attempts, skipped = read_window(runner, start_s, end_s)
            used = steps.read_window(runner, start_s, end_s)
            _keep(store, report, attempts, skipped, covered, used)
            report.pages += 1
            if progress is not None:
                progress(start_s, end_s, len(attempts))
        _revisit_open(store, runner, now_s, report)
        _name_runaways(store, runner, report)
    except (SlurmUnavailableError, SlurmCommandError) as error:
        report.unavailable = isinstance(error, SlurmUnavailableError)
        report.stopped = _explain(str(error))
    report.total, report.covered = store.count(), store.covered()
    return report


def import_dump(store: Store, path: Path) -> SyncReport:
    """Add a dump file; the watermark stays (nobody knows what span the file is complete for).

    :raises HistoryError: the file cannot be used, or the store not be written.
    """
    report = SyncReport()

    def counted() -> Iterator[Attempt]:
        for attempt in read_dump(path, report.skipped):
            report.read += 1
            yield attempt

    report.new = store.add(counted(), used=steps.read_dump(path))
    store.add((), skips=report.skipped.counts)
    report.total, report.covered = store.count(), store.covered()
    return report


def _keep(
    store: Store, report: SyncReport, attempts: list[Attempt], skipped: Skipped,
    covered: Covered | None, used: Iterable[Used] = (),
) -> None:  # fmt: skip
    report.new += store.add(attempts, covered, skipped.counts, used)
    report.read += len(attempts)
    report.seen.update(a.job_id for a in attempts)
    report.skipped.merge(skipped)


def _pages(
    have: Covered | None, now_s: EpochS, since_s: EpochS | None, overlap_s: int, report: SyncReport
) -> Iterator[tuple[EpochS, EpochS, Covered]]:
    """(start, end, watermark after it): forward to now, then backward to ``since_s``."""
    if have is None:
        first_s = now_s - FIRST_DAYS * DAY_S if since_s is None else since_s
        have = Covered(first_s, first_s, now_s)
    if have.until_s > now_s:
        report.notes.append(
            f"the last sync ended {have.until_s - now_s} s in the future: the clock was set back; "
            "reading the last day again"
        )
        have = Covered(min(have.from_s, now_s - DAY_S), now_s - DAY_S, now_s)
    first = True  # the overlap is read even if no second has passed since
    while first or have.until_s < now_s:
        first = False
        end_s = min(have.until_s + DAY_S, now_s)
        start_s = max(0, have.until_s - overlap_s)
        have = Covered(have.from_s, end_s, now_s)
        yield start_s, end_s, have
    # Newest first, so that the covered span has no hole wherever it breaks off.
    while since_s is not None and since_s < have.from_s:
        start_s = max(since_s, have.from_s - DAY_S)
        end_s = have.from_s + overlap_s
        have = Covered(start_s, have.until_s, now_s)
        yield start_s, end_s, have


def _revisit_open(store: Store, runner: Runner, now_s: EpochS, report: SyncReport) -> None:
    """Ask for attempts that ended unseen: slurmdbd was away, or learned of the end too late."""
    # What runs now was in the last window; only what has vanished from it is asked for by id.
    ids = [job_id for job_id in store.still_open() if job_id not in report.seen]
    for begin in range(0, len(ids), OPEN_CHUNK):
        chosen = ids[begin : begin + OPEN_CHUNK]
        attempts, skipped = read_window(runner, 0, now_s, chosen)
        _keep(store, report, attempts, skipped, None)


def _name_runaways(store: Store, runner: Runner, report: SyncReport) -> None:
    """Open in accounting, unknown to slurmctld: it lost them, and nobody will ever end them.

    They teach nothing and count nowhere while they are open; this only says so.
    """
    opened = set(store.still_open())
    if not opened:
        return
    try:
        queue = runner.ask(["squeue", "--noheader", "--all", "--array", "--format=%A"])
    except (SlurmUnavailableError, SlurmCommandError) as error:
        report.notes.append(f"runaway jobs are not looked for: {error}")
        return
    lost = sorted(opened - {int(word) for word in queue.split() if word.isdecimal()})
    if lost:
        shown = ", ".join(map(str, lost[:5])) + (", …" if len(lost) > 5 else "")
        report.notes.append(
            f"{len(lost)} attempts are open in accounting but not in the queue ({shown}); they are "
            "left out; `sacctmgr show runawayjobs` repairs them"
        )


def _explain(message: str) -> str:
    lowered = message.lower()
    if "accounting storage is disabled" in lowered:
        return f"{message}; set AccountingStorageType=accounting_storage/slurmdbd in slurm.conf"
    if "persist_conn" in lowered or "slurmdbd" in lowered:
        return f"slurmdbd does not answer, what is stored is kept: {message}"
    return message
