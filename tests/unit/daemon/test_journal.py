"""What the journal stores and gives back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ext.daemon.journal import Journal
from slurm_ext.daemon.records import CycleRecord, StartRecord
from slurm_ext.errors import JournalError
from slurm_ext.model.decision import Decision, JobPatch, Lever, Plan, Reason, Stage, Verdict
from slurm_ext.model.job import JobKey
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.slurm.port import Outcome

NOW = 1_700_000_000
KEY = JobKey(7, NOW - 100)
ENTRY = LedgerEntry(KEY, "7", lease_until_s=NOW + 300, pinned=("n1", "n2"), held=True)
PATCH = JobPatch(KEY, "7", Lever.LEASE, begin_s=NOW + 300, why="blocked")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "journal.db") as opened:
        yield opened


def test_entries_come_back(journal: Journal) -> None:
    journal.commit_intents([ENTRY], [], 1, NOW)
    assert journal.entries() == {KEY: ENTRY}


texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(-(1 << 62), 1 << 62)
entries = st.builds(
    LedgerEntry,
    key=st.builds(JobKey, numbers, numbers),
    address=texts,
    lease_until_s=st.none() | numbers,
    original_begin_s=numbers,
    held=st.booleans(),
    pinned=st.lists(st.text()).map(tuple),
    pinned_at_s=st.none() | numbers,
    original_required=st.lists(texts).map(tuple),
    site_factor=numbers,
    released_s=st.none() | numbers,
    planned_nodes=st.lists(texts).map(tuple),
    surrendered=texts,
)


@given(entries)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_any_entry_comes_back(journal: Journal, entry: LedgerEntry) -> None:
    journal.commit_intents([entry], [], 1, NOW)
    assert journal.entries()[entry.key] == entry


def test_an_entry_replaces_the_one_of_the_same_job(journal: Journal) -> None:
    journal.commit_intents([ENTRY], [], 1, NOW)
    journal.commit_intents([replace(ENTRY, pinned=())], [], 2, NOW)
    assert journal.entries()[KEY].pinned == ()


def test_the_same_job_id_submitted_later_is_another_job(journal: Journal) -> None:
    later = replace(ENTRY, key=JobKey(7, NOW))
    journal.commit_intents([ENTRY, later], [], 1, NOW)
    journal.forget([KEY])
    assert journal.entries() == {later.key: later}


def test_an_intent_is_unfinished_until_its_outcome(journal: Journal) -> None:
    (number,) = journal.commit_intents([ENTRY], [PATCH], 3, NOW)
    (action,) = journal.unfinished()
    assert (action.action_id, action.cycle, action.lever, action.why) == (
        number, 3, "lease", "blocked",
    )  # fmt: skip
    assert action.values == {"address": "7", "begin_s": NOW + 300}
    journal.record_outcomes([number], [Outcome(KEY, True)], NOW + 1)
    assert journal.unfinished() == ()


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome(KEY, True), "ok"),
        (Outcome(KEY, False, benign=True, detail="gone"), "benign"),
        (Outcome(KEY, False, detail="denied"), "error"),
    ],
)
def test_outcomes_are_kept_with_their_detail(
    journal: Journal, outcome: Outcome, state: str
) -> None:
    ids = journal.commit_intents([ENTRY], [PATCH], 1, NOW)
    journal.record_outcomes(ids, [outcome], NOW)
    (action,) = journal.actions(KEY)
    assert (action.state, action.detail) == (state, outcome.detail)


def test_outcomes_must_match_the_actions(journal: Journal) -> None:
    ids = journal.commit_intents([ENTRY], [PATCH, PATCH], 1, NOW)
    with pytest.raises(ValueError):
        journal.record_outcomes(ids, [Outcome(KEY, True)], NOW)
    assert len(journal.unfinished()) == 2


def test_unfinished_actions_can_be_given_up(journal: Journal) -> None:
    journal.commit_intents([ENTRY], [PATCH, PATCH], 1, NOW)
    assert journal.give_up(NOW) == 2
    assert [action.state for action in journal.actions(KEY)] == ["lost", "lost"]


def test_refused_requeues_do_not_count(journal: Journal) -> None:
    requeue = replace(PATCH, lever=Lever.REQUEUE)
    ids = journal.commit_intents([], [requeue, requeue, PATCH], 1, NOW)
    journal.record_outcomes(ids[:1], [Outcome(KEY, False)], NOW)
    assert [journal.requeues_since(s) for s in (NOW, NOW + 1)] == [1, 0]


def test_cycle_numbers_go_on_after_pruning(journal: Journal) -> None:
    assert journal.last_cycle() == 0
    journal.record_cycle(CycleRecord(5, NOW))
    journal.prune(NOW + 1)
    assert (journal.cycles(), journal.last_cycle()) == ((), 5)


def test_cycle_record_comes_back(journal: Journal) -> None:
    record = CycleRecord(
        2,
        NOW,
        "las",
        "abc",
        {"observe": 0.25},
        {"patches": 3, "x": float("inf")},
        {"ping": 2},
        "no",
    )
    journal.record_cycle(record)
    assert journal.cycles() == (record,)


def start(at_s: int, why: str = "") -> StartRecord:
    return StartRecord(
        JobKey(at_s, 1), "ann", "las", 0, ("n1",), ("n1",) if not why else ("n2",), at_s, at_s,
        not why, why,
    )  # fmt: skip


def test_share_of_starts_as_planned(journal: Journal) -> None:
    journal.record_start(start(1, "old"))
    journal.record_starts([start(10), start(11), start(12, "taken"), start(13, "taken")])
    journal.record_start(start(14, "unknown_gpu"))
    journal.record_start(start(10))
    share = journal.start_share(10)
    assert (share.total, share.as_planned) == (5, 2)
    assert share.by_why == {"taken": 2, "unknown_gpu": 1}
    assert share.share == 0.4
    assert journal.start_share(99).share == 1.0


def plan(now_s: int, *decisions: Decision) -> Plan:
    return Plan(now_s, "las", {d.key: d for d in decisions})


def wait(code: str, key: JobKey = KEY, facts: int = 0) -> Decision:
    reason = Reason(code, Stage.PLACE, (("free", facts), ("on", ("n1",))), "a free GPU")
    return Decision(key, Verdict.WAIT, (reason, Reason("second", Stage.GUARD)), rank=2)


def test_only_changes_of_verdict_or_first_reason_are_recorded(journal: Journal) -> None:
    plans = [
        plan(1, wait("full")),
        plan(2, wait("full", facts=4)),
        plan(3, wait("fenced")),
        plan(4, Decision(KEY, Verdict.START, start_s=4)),
        plan(5, Decision(KEY, Verdict.START, start_s=5)),
    ]
    assert [journal.record_changes(p) for p in plans] == [1, 0, 1, 1, 0]
    assert [(c.at_s, c.verdict, c.code) for c in journal.history(KEY)] == [
        (1, "wait", "full"), (3, "wait", "fenced"), (4, "start", ""),
    ]  # fmt: skip
    first = journal.history(KEY)[0]
    assert (first.stage, first.facts, first.would_change, first.rank) == (
        Stage.PLACE, (("free", 0), ("on", ("n1",))), "a free GPU", 2,
    )  # fmt: skip


def test_a_job_that_was_out_of_sight_for_a_cycle_is_not_recorded_anew(journal: Journal) -> None:
    plans = (plan(1, wait("a")), plan(2), plan(3, wait("a")))
    assert [journal.record_changes(p) for p in plans] == [1, 0, 0]


def test_changes_are_known_across_a_restart(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.record_changes(plan(1, wait("a")))
    with Journal(tmp_path / "j") as journal:
        assert journal.record_changes(plan(2, wait("a"))) == 0


def test_pause_lasts_until_resumed(journal: Journal) -> None:
    assert journal.paused(NOW) is None
    journal.pause("root", NOW, why="upgrade")
    pause = journal.paused(NOW + 10**6)
    assert pause is not None
    assert (pause.who, pause.at_s, pause.until_s, pause.why) == ("root", NOW, None, "upgrade")
    journal.resume("root", NOW + 5)
    assert journal.paused(NOW + 6) is None


def test_pause_ends_by_itself(journal: Journal) -> None:
    journal.pause("root", NOW, NOW + 60)
    assert [journal.paused(t) is not None for t in (NOW + 59, NOW + 60)] == [True, False]


def test_pruning_keeps_ledger_unfinished_actions_and_the_pause(journal: Journal) -> None:
    ids = journal.commit_intents([ENTRY], [PATCH, PATCH], 1, NOW)
    journal.record_outcomes(ids[:1], [Outcome(KEY, True)], NOW)
    journal.record_cycle(CycleRecord(1, NOW))
    journal.record_start(start(NOW))
    journal.record_changes(plan(NOW, wait("a")))
    journal.pause("a", NOW)
    journal.pause("b", NOW)
    assert journal.prune(NOW) == 0
    assert journal.prune(NOW + 1) == 5
    pause = journal.paused(NOW)
    assert journal.entries() == {KEY: ENTRY}
    assert len(journal.unfinished()) == 1
    assert pause is not None
    assert pause.who == "b"


def test_routine_actions_may_go_earlier(journal: Journal) -> None:
    patches = [PATCH, replace(PATCH, lever=Lever.RELEASE), PATCH]
    ids = journal.commit_intents([], patches, 1, NOW)
    outcomes = [Outcome(KEY, True), Outcome(KEY, True), Outcome(KEY, False)]
    journal.record_outcomes(ids, outcomes, NOW)
    assert journal.prune(0, routine_before_s=NOW + 1) == 1
    assert [a.lever for a in journal.actions(KEY)] == ["release", "lease"]


def test_pruning_is_bounded(journal: Journal) -> None:
    for number in range(5):
        journal.record_cycle(CycleRecord(number, number))
    assert [journal.prune(NOW, limit=3) for _ in range(3)] == [3, 2, 0]


HOSTILE = ["'; DROP TABLE entry; --", "a\x00b", "\x1b[2J", "\udcff", "\n", "🦥" * 50]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_text_is_only_data(journal: Journal, text: str) -> None:
    ids = journal.commit_intents([ENTRY], [replace(PATCH, admin_comment=text, why=text)], 1, NOW)
    journal.record_outcomes(ids, [Outcome(KEY, False, detail=text)], NOW)
    journal.record_start(replace(start(1), user=text, why=text, same_nodes=False))
    journal.record_changes(plan(1, wait(text)))
    journal.pause(text, NOW)
    (action,) = journal.actions(KEY)
    assert action.values["admin_comment"] == text
    assert action.detail == text.replace("\udcff", "\\udcff")
    assert journal.record_changes(plan(2, wait(text))) == 0


def test_a_number_that_does_not_fit_is_a_journal_error(journal: Journal) -> None:
    journal.commit_intents([ENTRY], [], 1, NOW)
    with pytest.raises(JournalError):
        journal.commit_intents([replace(ENTRY, tasks=2), replace(ENTRY, tasks=1 << 70)], [], 1, NOW)
    assert journal.entries() == {KEY: ENTRY}


def test_another_thread_is_refused(journal: Journal) -> None:
    caught: list[BaseException] = []

    def use() -> None:
        try:
            journal.entries()
        except JournalError as error:
            caught.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(caught) == 1
