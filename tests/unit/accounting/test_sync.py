"""Windows, watermark, breaks, slurmdbd down, clocks that jump."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.accounting.store import Covered, Store
from slurm_ext.accounting.sync import DAY_S, OVERLAP_S, import_dump, sync
from slurm_ext.errors import SlurmCommandError, SlurmUnavailableError
from tests.unit.accounting.helpers import T0, FakeSacct, attempt, ran, row

NOW = T0 + 10 * DAY_S


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "history.db") as opened:
        yield opened


def daily(days: int) -> FakeSacct:
    """A job an hour long each day."""
    return FakeSacct([ran(i + 1, T0 + i * DAY_S + 100, 3600) for i in range(days)])


def test_pages_by_day_with_overlap(store: Store) -> None:
    slurm = daily(10)
    report = sync(store, slurm, T0 + int(2.5 * DAY_S), since_s=T0)
    assert slurm.windows == [
        (T0 - OVERLAP_S, T0 + DAY_S),
        (T0 + DAY_S - OVERLAP_S, T0 + 2 * DAY_S),
        (T0 + 2 * DAY_S - OVERLAP_S, T0 + int(2.5 * DAY_S)),
    ]
    assert (report.pages, report.new, report.total) == (3, 3, 3)


def test_second_sync_reads_only_what_is_new(store: Store) -> None:
    slurm = daily(11)
    sync(store, slurm, NOW, since_s=T0)
    slurm.windows.clear()
    report = sync(store, slurm, NOW + 3600)
    assert slurm.windows == [(NOW - OVERLAP_S, NOW + 3600)]
    assert (report.new, report.total) == (1, 11)


def test_nothing_new_changes_nothing(store: Store) -> None:
    slurm = daily(5)
    sync(store, slurm, NOW, since_s=T0)
    report = sync(store, slurm, NOW)
    assert (report.new, report.total, report.stopped) == (0, 5, "")


def test_a_sync_within_the_same_second_still_asks(store: Store) -> None:
    slurm = daily(5)
    sync(store, slurm, NOW, since_s=T0)
    slurm.fail_at[slurm.calls + 1] = SlurmUnavailableError("gone")
    assert sync(store, slurm, NOW).unavailable


def test_long_job_in_many_windows_is_one_attempt(store: Store) -> None:
    slurm = FakeSacct([ran(1, T0, 9 * DAY_S)])
    report = sync(store, slurm, NOW, since_s=T0)
    assert (report.read, report.total) == (10, 1)


def test_attempts_of_one_job_are_kept_apart(store: Store) -> None:
    times = [T0 + i * 1000 for i in range(5)]
    rows = [ran(7, t, 500, State="REQUEUED") for t in times[:4]] + [ran(7, times[4], 600)]
    sync(store, FakeSacct(rows), NOW, since_s=T0)
    assert [a.state for a in store.attempts()] == ["REQUEUED"] * 4 + ["COMPLETED"]


def test_id_reused_after_a_wrap_is_another_job(store: Store) -> None:
    rows = [ran(7, T0, 10, User="ann"), ran(7, T0 + 5 * DAY_S, 20, User="bob")]
    sync(store, FakeSacct(rows), NOW, since_s=T0)
    assert [a.user for a in store.attempts()] == ["ann", "bob"]


def test_break_in_the_middle_goes_on_behind_the_last_page(store: Store) -> None:
    slurm = daily(10)
    slurm.fail_at[4] = SlurmUnavailableError("sacct: Connection refused")
    report = sync(store, slurm, NOW, since_s=T0)
    assert (report.pages, report.unavailable) == (3, True)
    assert "Connection refused" in report.stopped
    slurm.windows.clear()
    again = sync(store, slurm, NOW)
    assert slurm.windows[0] == (T0 + 3 * DAY_S - OVERLAP_S, T0 + 4 * DAY_S)
    assert (again.total, again.stopped) == (10, "")


def test_slurmdbd_down_keeps_what_is_there(store: Store) -> None:
    slurm = daily(3)
    sync(store, slurm, NOW, since_s=T0)
    before = store.covered()
    slurm.fail_at[slurm.calls + 1] = SlurmCommandError("sacct: error: slurm_persist_conn_open")
    report = sync(store, slurm, NOW + DAY_S)
    assert "what is stored is kept" in report.stopped
    assert (report.total, store.covered()) == (3, before)


def test_no_accounting_says_what_to_set(store: Store) -> None:
    slurm = daily(1)
    slurm.fail_at[1] = SlurmCommandError("Slurm accounting storage is disabled")
    assert "AccountingStorageType" in sync(store, slurm, NOW, since_s=T0).stopped


def test_older_history_is_read_newest_first_without_a_hole(store: Store) -> None:
    slurm = daily(10)
    sync(store, slurm, NOW, since_s=T0 + 8 * DAY_S)
    slurm.fail_at[slurm.calls + 4] = SlurmUnavailableError("gone")
    sync(store, slurm, NOW, since_s=T0)
    assert store.covered() == Covered(T0 + 6 * DAY_S, NOW, NOW)
    assert sync(store, slurm, NOW, since_s=T0).total == 10
    assert store.covered() == Covered(T0, NOW, NOW)


def test_clock_set_back_is_said_and_reads_the_last_day_again(store: Store) -> None:
    slurm = daily(10)
    sync(store, slurm, NOW, since_s=T0)
    slurm.windows.clear()
    report = sync(store, slurm, NOW - 2 * DAY_S)
    assert "set back" in report.notes[0]
    assert slurm.windows == [(NOW - 3 * DAY_S - OVERLAP_S, NOW - 2 * DAY_S)]
    assert store.count() == 10


def test_running_attempt_is_closed_by_the_next_sync(store: Store) -> None:
    slurm = FakeSacct([row(JobIDRaw=1, State="RUNNING", End="Unknown")])
    sync(store, slurm, T0 + 100, since_s=T0)
    assert store.still_open() == [1]
    slurm.rows = [row(JobIDRaw=1)]
    report = sync(store, slurm, T0 + 200)
    assert (store.still_open(), report.new) == ([], 0)
    assert slurm.asked_ids == []


def test_end_that_slurmdbd_learned_too_late_is_asked_for_by_id(store: Store) -> None:
    slurm = FakeSacct([row(JobIDRaw=1, State="RUNNING", End="Unknown")])
    sync(store, slurm, T0 + 5 * DAY_S, since_s=T0)
    slurm.rows = [row(JobIDRaw=1)]  # ended long before the overlap, known only now
    sync(store, slurm, T0 + 6 * DAY_S)
    assert slurm.asked_ids == [[1]]
    assert store.still_open() == []


def test_skips_are_counted_and_kept(store: Store) -> None:
    slurm = FakeSacct([row(JobIDRaw=1, State="ODD"), row(JobIDRaw=2)])
    report = sync(store, slurm, T0 + 100, since_s=T0)
    assert report.skipped.counts == {"unknown state": 1}
    assert store.skips() == {"unknown state": 1}


def test_dump_is_imported_beside_the_windows(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "dump"
    rows = [ran(i, T0 + i, 60) for i in range(5)]
    path.write_text("\n".join(["|".join(rows[0]), *("|".join(r.values()) for r in rows), "cut|"]))
    report = import_dump(store, path)
    assert (report.read, report.new, report.skipped.bad) == (5, 5, 1)
    assert store.covered() is None
    assert import_dump(store, path).new == 0


def test_old_dump_does_not_reopen_what_has_ended(store: Store) -> None:
    store.add([attempt()])
    store.add([attempt(end_s=None, state="RUNNING", outcome="censored")])
    assert [a.state for a in store.attempts()] == ["COMPLETED"]


def test_use_comes_with_the_attempts(store: Store) -> None:
    slurm = daily(1)
    own = {"JobIDRaw": "1", "Cluster": "mini", "Submit": str(T0 + 100), "Start": str(T0 + 100),
           "ElapsedRaw": "3600", "TotalCPU": "30:00", "TRESUsageInTot": "",
           "TRESUsageInAve": ""}  # fmt: skip
    slurm.step_rows = [own, own | {"JobIDRaw": "1.batch", "TRESUsageInTot": "mem=7M"}]
    sync(store, slurm, T0 + DAY_S, since_s=T0)
    assert store.used() == {("mini", 1, T0 + 100): ("mini", 1, T0 + 100, 1800, 7, None)}


def test_runaway_jobs_are_named(store: Store) -> None:
    rows = [ran(i, T0, 0, State="RUNNING", End="Unknown", ElapsedRaw=500) for i in (1, 2)]
    slurm = FakeSacct(rows)
    slurm.queue = [2]
    report = sync(store, slurm, T0 + DAY_S, since_s=T0)
    assert [note for note in report.notes if "runawayjobs" in note and "(1)" in note]
    assert report.stopped == ""


def test_without_slurmctld_the_sync_is_whole_all_the_same(store: Store) -> None:
    slurm = FakeSacct([ran(1, T0, 0, State="RUNNING", End="Unknown", ElapsedRaw=500)])
    slurm.queue = None
    report = sync(store, slurm, T0 + DAY_S, since_s=T0)
    assert (report.stopped, report.total) == ("", 1)
    assert "runaway jobs are not looked for" in report.notes[0]
