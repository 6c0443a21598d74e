"""One cycle: what is committed, sent and recorded, and in which order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ext.daemon.apply import Tokens
from slurm_ext.daemon.config import Config, load
from slurm_ext.daemon.journal import Journal
from slurm_ext.daemon.recover import fail_open
from slurm_ext.daemon.runner import Runner
from slurm_ext.errors import JournalError, SlurmUnavailableError
from slurm_ext.model.decision import JobPatch, Lever, Shape
from slurm_ext.model.job import Job, NodeShare
from slurm_ext.model.ledger import LedgerEntry, UndoNote, render_note
from slurm_ext.model.observation import Observation, Reservation
from slurm_ext.model.reshape import shape_of
from slurm_ext.slurm.port import Outcome
from tests.builders import job, node, observation
from tests.fake import FakeSlurm


def config(**overrides: object) -> Config:
    base: dict[str, object] = {
        "mode": "enforce",
        "policy.name": "fifo",
        "cycle.interval_s": 10,
        "levers.lease_s": 300,
    }
    return load(Path("/dev/null"), {**base, **overrides})


def now_obs(jobs: list, nodes: list | None = None) -> Observation:  # type: ignore[type-arg]
    now = int(time.time())
    moved = [
        replace(j, key=j.key._replace(submit_s=now - 100 + j.job_id)) if j.state.pending else j
        for j in jobs
    ]
    return observation(nodes or [node("n1")], moved, now=now)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "journal.db") as opened:
        yield opened


def runner(fake: FakeSlurm, journal: Journal | None, **overrides: object) -> Runner:
    return Runner(config(**overrides), fake, journal, can_note=True)


def test_two_cycles_take_hold_and_release_with_a_pin(journal: Journal) -> None:
    fake = FakeSlurm(now_obs([job(1, gpus=8)]))
    daemon = runner(fake, journal)
    daemon.run()
    daemon.run()
    assert [p.lever for p in fake.sent] == [Lever.LEASE, Lever.RELEASE]
    assert fake.obs.jobs[0].request.required_nodes == ("n1",)


@pytest.mark.parametrize(
    ("parameters", "asked"),
    [({}, [True, False]), ({"weight_fair_share": 1.0}, [True, True])],
)
def test_slurms_factors_are_read_only_for_a_policy_that_weighs_them(
    journal: Journal, parameters: dict[str, float], asked: list[bool]
) -> None:
    seen: list[bool] = []

    class Asked(FakeSlurm):
        def observe(self, *, site_factors: bool = False) -> Observation:
            seen.append(site_factors)
            return super().observe(site_factors=site_factors)

    settings = {"policy.name": "multifactor", "policy.parameters": parameters}
    daemon = Runner(config(**settings), Asked(now_obs([job(1)])), journal)
    daemon.run()
    daemon.run()
    assert seen == asked


def test_intents_are_committed_before_anything_is_sent(journal: Journal) -> None:
    fake = FakeSlurm(now_obs([job(1, gpus=8)]))
    seen: list[int] = []
    send = fake.patch

    def spy(patches: list[JobPatch]) -> tuple[Outcome, ...]:
        seen.append(len(journal.unfinished()))
        return send(patches)

    fake.patch = spy  # type: ignore[assignment,method-assign]
    runner(fake, journal).run()
    assert seen == [1]
    assert journal.unfinished() == ()


def test_nothing_is_sent_when_nothing_can_be_noted(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeSlurm(now_obs([job(1, gpus=8)]))

    def full(*args: object, **kwargs: object) -> None:
        raise JournalError("disk full")

    monkeypatch.setattr(journal, "commit_intents", full)
    with pytest.raises(JournalError):
        runner(fake, journal).run()
    assert fake.sent == []


@pytest.mark.parametrize("lost", ["refused", "put off"])
def test_the_pin_of_a_requeued_job_is_remembered_until_it_is_undone(
    journal: Journal, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = job(1, gpus=8, restarts=1, begin=int(time.time()) + 115)
    pinned = replace(again, request=replace(again.request, required_nodes=("n1",)))
    fake = FakeSlurm(now_obs([pinned]), refuse={1} if lost == "refused" else set())
    key = fake.obs.jobs[0].key
    old = LedgerEntry(key._replace(submit_s=key.submit_s - 900), "1", pinned=("n1",))
    journal.commit_intents([old], [], 1, 0)
    if lost == "put off":
        monkeypatch.setattr(Tokens, "take", lambda *_: 0)
    runner(fake, journal).run()
    assert {k: e.pinned for k, e in journal.entries().items()} == {key: ("n1",)}


def test_a_refused_patch_leaves_no_entry(journal: Journal) -> None:
    fake = FakeSlurm(now_obs([job(1, gpus=8)]), refuse={1})
    result = runner(fake, journal).run()
    assert len(result.applied.errors) == 1
    assert journal.entries() == {}


def test_a_dry_run_sends_and_records_nothing(journal: Journal) -> None:
    fake = FakeSlurm(now_obs([job(1, gpus=8)]))
    result = Runner(config(), fake, journal, can_note=True, dry_run=True).run()
    assert result.plan.patches
    assert fake.sent == []
    assert journal.cycles() == ()


def test_an_old_observation_is_not_acted_on(journal: Journal) -> None:
    fake = FakeSlurm(replace(now_obs([job(1, gpus=8)]), now_s=int(time.time()) - 1000))
    runner(fake, journal).run()
    assert fake.sent == []


def test_no_observation_no_decision(journal: Journal) -> None:
    fake = FakeSlurm(now_obs([]), down=True)
    with pytest.raises(SlurmUnavailableError):
        runner(fake, journal).run()


def test_a_pause_gives_back_and_sends_nothing_more(journal: Journal) -> None:
    fake = FakeSlurm(now_obs([job(1, gpus=8)]))
    daemon = runner(fake, journal)
    daemon.run()
    journal.pause("root", int(time.time()))
    daemon.run()
    assert fake.sent[-1].lever is Lever.RESTORE
    assert fake.obs.jobs[0].begin_s is None
    assert fake.obs.jobs[0].admin_comment == ""
    count = len(fake.sent)
    daemon.run()
    assert len(fake.sent) == count


def test_without_the_right_no_note_is_written(journal: Journal) -> None:
    fake = FakeSlurm(now_obs([job(1, gpus=8)]))
    Runner(config(), fake, journal, can_note=False).run()
    assert fake.sent[0].admin_comment is None


def test_the_budget_puts_off_what_is_less_urgent(journal: Journal) -> None:
    fake = FakeSlurm(now_obs([job(i, gpus=1) for i in range(1, 6)]))
    result = runner(fake, journal, **{"levers.write_burst": 2}).run()
    assert len(fake.sent) == 2
    assert result.applied.put_off == 3
    assert {e.job_id for e in journal.entries()} == {p.key.job_id for p in fake.sent}


def test_a_start_as_planned_is_recorded(journal: Journal) -> None:
    fake = FakeSlurm(now_obs([job(1, gpus=8)]))
    daemon = runner(fake, journal)
    daemon.run()
    daemon.run()
    waiting = fake.obs.jobs[0]
    running = job(1, gpus=8, state="RUNNING")
    running = replace(
        running, key=waiting.key, alloc=(NodeShare("n1", 1, 0, 8),), start_s=fake.obs.now_s
    )
    fake.obs = replace(fake.obs, jobs=(running,))
    daemon.run()
    share = journal.start_share(0)
    assert (share.total, share.as_planned) == (1, 1)


@pytest.mark.parametrize(
    ("before", "why"),
    [
        pytest.param([], "started_before_seen", id="never-seen"),
        pytest.param(
            [job(1, gpus=4, submit=1), job(9, on={"n1": 8})], "slurm_started_first", id="waited"
        ),
    ],
)
def test_a_start_that_was_not_ours_says_why(
    journal: Journal,
    before: list,
    why: str,  # type: ignore[type-arg]
) -> None:
    fake = FakeSlurm(now_obs(before, [node("n1", used=range(8))]))
    daemon = runner(fake, journal, **{"backfill.fences": 0, "backfill.kind": "best_effort"})
    daemon.run()
    running = job(1, gpus=4, on={"n1": 4}, submit=fake.obs.now_s - 99)
    running = replace(running, start_s=fake.obs.now_s)
    fake.obs = replace(fake.obs, jobs=(running,))
    daemon.run()
    assert dict(journal.start_share(0).by_why) == {why: 1}


# -- recovery ----------------------------------------------------------------------------


@pytest.mark.parametrize("with_ledger", [True, False])
def test_fail_open_gives_everything_back(journal: Journal, with_ledger: bool) -> None:
    theirs = replace(job(1, gpus=8), admin_comment="theirs")
    fake = FakeSlurm(now_obs([theirs]))
    runner(fake, journal).run()
    assert fake.obs.jobs[0].begin_s is not None
    fail_open(fake, journal if with_ledger else None, can_note=True, notes=True)
    assert fake.obs.jobs[0].begin_s is None
    assert fake.obs.jobs[0].admin_comment == "theirs"


ASKED, OURS = Shape(1, 8, 1, 1), Shape(1, 4, 1, 1)


NOTE = render_note(UndoNote(shape=OURS, original_shape=ASKED))
"""Of a job that asked for 8 GPUs and was made to ask for 4."""


@pytest.mark.parametrize("note", ["", NOTE])
def test_fail_open_gives_a_waiting_job_its_shape_back(journal: Journal, note: str) -> None:
    fake = FakeSlurm(now_obs([job(1, gpus=4, admin_comment=note)]))
    entry = LedgerEntry(fake.obs.jobs[0].key, "1", shape=OURS, original_shape=ASKED)
    journal.commit_intents([entry], [], 1, 1)
    fail_open(fake, None if note else journal, can_note=True, notes=True)
    assert shape_of(fake.obs.jobs[0].request) == ASKED
    assert fake.obs.jobs[0].admin_comment == ""


def test_the_submitted_shape_of_a_running_job_outlives_a_fail_open_and_a_requeue(
    journal: Journal,
) -> None:
    fake = FakeSlurm(now_obs([job(1, gpus=4, admin_comment=NOTE, on={"n1": 4})]))
    entry = LedgerEntry(fake.obs.jobs[0].key, "1", shape=OURS, original_shape=ASKED)
    journal.commit_intents([entry], [], 1, 1)
    fail_open(fake, journal, can_note=True, notes=True)
    (kept,) = journal.entries().values()
    assert (kept.shape, kept.original_shape) == (OURS, ASKED)
    noted = fake.obs.jobs[0].admin_comment
    fake = FakeSlurm(now_obs([job(1, gpus=4, restarts=1, admin_comment=noted)]))
    fail_open(fake, None, can_note=True, notes=True)
    assert shape_of(fake.obs.jobs[0].request) == ASKED


def test_fail_open_twice_changes_nothing_more(journal: Journal) -> None:
    fake = FakeSlurm(now_obs([job(1, gpus=8)]))
    runner(fake, journal).run()
    fail_open(fake, journal, can_note=True, notes=True)
    count = len(fake.sent)
    assert fail_open(fake, journal, can_note=True, notes=True).given_back == set()
    assert len(fake.sent) == count


def test_fail_open_deletes_only_our_reservations(journal: Journal) -> None:
    obs = now_obs([])
    ours = Reservation("slurm_ext_7", obs.now_s, obs.now_s + 60, ("n1",))
    theirs = Reservation("maint", obs.now_s, obs.now_s + 60, ("n1",))
    fake = FakeSlurm(replace(obs, reservations=(ours, theirs)))
    assert fail_open(fake, journal, can_note=True, notes=True).reservations == ["slurm_ext_7"]
    assert fake.deleted == ["slurm_ext_7"]


def test_what_slurm_refuses_stays_in_the_ledger(journal: Journal) -> None:
    fake = FakeSlurm(now_obs([job(1, gpus=8)]))
    runner(fake, journal).run()
    fake.refuse = {1}
    assert fail_open(fake, journal, can_note=True, notes=True).left
    assert len(journal.entries()) == 1


# -- tokens ------------------------------------------------------------------------------


def test_tokens_refill_up_to_the_burst() -> None:
    tokens = Tokens(rate_per_s=2, burst=4)
    assert tokens.take(10, 0.0) == 4
    assert tokens.take(10, 1.0) == 2
    assert tokens.take(10, 100.0) == 4


# -- holds -------------------------------------------------------------------------------

HOLD = {"levers.defer": "hold", "backfill.fences": 1}


def held_fake(journal: Journal, *, can_note: bool, **overrides: object) -> tuple[FakeSlurm, Runner]:
    """A job of which the daemon holds: it would pass the fence of the first."""
    jobs = [job(9, gpus=4, on={"n1": 4}), job(1, gpus=8), job(2, gpus=2, limit=99_999)]
    obs = now_obs(jobs, [node("n1", used=range(4), cpus_used=4)])
    running = tuple(replace(j, end_s=obs.now_s + 600) if j.state.running else j for j in obs.jobs)
    fake = FakeSlurm(replace(obs, jobs=running))
    daemon = Runner(config(**{**HOLD, **overrides}), fake, journal, can_note=can_note)
    daemon.run()
    assert by_id(fake, 2).held
    return fake, daemon


def by_id(fake: FakeSlurm, job_id: int) -> Job:
    return next(j for j in fake.obs.jobs if j.job_id == job_id)


@pytest.mark.parametrize(
    ("can_note", "overrides"),
    [
        pytest.param(True, {}, id="with-notes"),
        pytest.param(True, {"levers.undo_notes": "off"}, id="notes-off"),
        pytest.param(False, {}, id="operator"),
    ],
)
def test_a_hold_is_lifted_at_the_end(
    journal: Journal, can_note: bool, overrides: dict[str, object]
) -> None:
    fake, _ = held_fake(journal, can_note=can_note, **overrides)
    notes = can_note and not overrides
    assert fail_open(fake, journal, can_note=can_note, notes=notes).left == []
    assert not by_id(fake, 2).held
    assert by_id(fake, 2).admin_comment == ""


def test_a_hold_whose_note_was_overwritten_is_still_ours(journal: Journal) -> None:
    fake, daemon = held_fake(journal, can_note=True)
    daemon.run()  # sees the hold with its note
    jobs = tuple(replace(j, admin_comment="theirs") if j.held else j for j in fake.obs.jobs)
    fake.obs = replace(fake.obs, jobs=jobs)
    fail_open(fake, journal, can_note=True, notes=True)
    assert not by_id(fake, 2).held
    assert by_id(fake, 2).admin_comment == "theirs"
