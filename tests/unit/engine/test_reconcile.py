"""Wanted against seen: which patches a cycle sends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_ext.engine.cycle import Step, decide
from slurm_ext.engine.settings import GuardSettings, LeverSettings, Memory
from slurm_ext.model.decision import JobPatch, Lever, Mode, Shape, Verdict
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.ledger import LedgerEntry, UndoNote, parse_note, render_note
from tests.builders import NOW, context, job, node, observation

LEVERS = LeverSettings(interval_s=10, lease_s=300)


def patches(step: Step, lever: Lever | None = None) -> dict[int, JobPatch]:
    return {p.key.job_id: p for p in step.plan.patches if lever is None or p.lever is lever}


def leased(found: Job, until: int = NOW + 200, **fields: object) -> tuple[Job, LedgerEntry]:
    """The job as it shows under our lease, and the entry for it."""
    entry = LedgerEntry(found.key, found.address, until, deferred_since_s=NOW - 100, **fields)  # type: ignore[arg-type]
    return replace(found, begin_s=until, reason="BeginTime"), entry


def step_with(jobs: list[Job], *entries: LedgerEntry, **fields: object) -> Step:
    levers = fields.pop("levers", LEVERS)
    ctx = context(ledger={e.key: e for e in entries}, levers=levers, **fields)
    return decide(observation([node("n1")], jobs), ctx)


def pinned_on(name: str, found: Job) -> Job:
    nodes = (*found.request.required_nodes, name)
    return replace(found, request=replace(found.request, required_nodes=nodes))


def test_observe_sends_nothing() -> None:
    assert step_with([job(1, gpus=8), job(2, gpus=8)], mode=Mode.OBSERVE).plan.patches == ()


def test_order_only_ranks() -> None:
    jobs = [job(1, gpus=8, submit=NOW - 20, priority=5), job(2, gpus=8, submit=NOW - 30)]
    step = step_with(jobs, mode=Mode.ORDER)
    assert {p.lever for p in step.plan.patches} <= {Lever.RANK}


def test_a_job_to_start_is_taken_hold_of_first() -> None:
    step = step_with([job(1, gpus=8)])
    patch = patches(step)[1]
    assert patch.lever is Lever.LEASE
    assert patch.why == "capture"
    assert patch.required_nodes is None
    assert step.plan.wake_at_s == NOW + 1


def test_a_job_in_hand_is_released_onto_its_nodes() -> None:
    found, entry = leased(job(1, gpus=8))
    patch = patches(step_with([found], entry))[1]
    assert (patch.lever, patch.required_nodes, patch.begin_s) == (Lever.RELEASE, ("n1",), 0)


def test_release_keeps_the_users_own_begin() -> None:
    found, entry = leased(job(1, gpus=8), original_begin_s=NOW + 5)
    assert patches(step_with([found], entry))[1].begin_s == NOW + 5


def test_a_begin_far_ahead_is_the_users_business() -> None:
    assert step_with([job(1, gpus=1, begin=NOW + 500)]).plan.patches == ()


def test_an_array_is_released_without_a_pin() -> None:
    array = job(1, gpus=2, array_job_id=1, array_tasks="0-3", array_count=4)
    found, entry = leased(array)
    patch = patches(step_with([found], entry))[1]
    assert (patch.lever, patch.required_nodes) == (Lever.RELEASE, None)


def array(job_id: int, **fields: object) -> Job:
    """Two tasks of two GPUs each."""
    values: dict[str, object] = {
        "gpus": 2, "array_job_id": job_id, "array_tasks": "0-1", "array_count": 2,
        "submit": NOW - 40,
    }  # fmt: skip
    return job(job_id, **{**values, **fields})  # type: ignore[arg-type]


def first_in_line(**fields: object) -> Job:
    return job(1, gpus=4, submit=NOW - 50, **fields)  # type: ignore[arg-type]


def test_an_array_does_not_overtake_a_start_ahead_that_is_only_taken_hold_of() -> None:
    found = patches(step_with([first_in_line(), array(2)]))
    assert {k: (p.lever, p.why) for k, p in found.items()} == {
        1: (Lever.LEASE, "capture"), 2: (Lever.LEASE, "capture"),
    }  # fmt: skip


def test_an_array_in_hand_stays_there_while_a_start_ahead_is_let_go() -> None:
    (ahead, held), (behind, entry) = leased(first_in_line()), leased(array(2))
    assert set(patches(step_with([ahead, behind], held, entry), Lever.RELEASE)) == {1}


def test_an_array_waits_for_a_start_ahead_that_slurm_has_yet_to_make() -> None:
    ahead, (behind, entry) = first_in_line(), leased(array(2))
    let_go = LedgerEntry(ahead.key, "1", released_s=NOW - 1, planned_nodes=("n1",))
    assert patches(step_with([ahead, behind], let_go, entry), Lever.RELEASE) == {}


def test_an_array_is_let_go_once_the_job_ahead_runs() -> None:
    behind, entry = leased(array(2))
    found = patches(step_with([first_in_line(on={"n1": 4}), behind], entry), Lever.RELEASE)
    assert set(found) == {2}


def test_an_array_ahead_of_all_is_let_go_at_once() -> None:
    behind, entry = leased(array(2, submit=NOW - 60))
    assert set(patches(step_with([first_in_line(), behind], entry), Lever.RELEASE)) == {2}


def test_an_array_that_cannot_use_the_nodes_of_the_start_ahead_is_let_go() -> None:
    behind = array(2)
    elsewhere = replace(behind, request=replace(behind.request, excluded_nodes=("n1",)))
    found, entry = leased(elsewhere)
    ctx = context(ledger={entry.key: entry}, levers=LEVERS)
    step = decide(observation([node("n1"), node("n2")], [first_in_line(), found]), ctx)
    assert set(patches(step, Lever.RELEASE)) == {2}


def test_an_array_let_go_keeps_room_for_all_of_its_tasks() -> None:
    let_go = array(2, array_tasks="0-3", array_count=4)
    entry = LedgerEntry(let_go.key, "2", released_s=NOW - 1, tasks=4)
    step = step_with([let_go, job(3, gpus=2, submit=NOW - 30)], entry)
    assert step.plan.decisions[JobKey(3, NOW - 30)].verdict is Verdict.WAIT


def test_an_array_let_go_keeps_room_up_to_its_throttle() -> None:
    let_go = array(2, array_tasks="0-3%1", array_count=4, array_throttle=1)
    entry = LedgerEntry(let_go.key, "2", released_s=NOW - 1, tasks=1)
    step = step_with([let_go, job(3, gpus=2, submit=NOW - 30)], entry)
    assert step.plan.decisions[JobKey(3, NOW - 30)].verdict is Verdict.START


def blocked_and_small() -> list[Job]:
    """First in line needs 8 GPUs, 4 are busy; a long small job would fit now."""
    return [
        job(9, gpus=4, on={"n1": 4}, end=NOW + 600),
        job(1, gpus=8, submit=NOW - 50),
        job(2, gpus=2, limit=9999, submit=NOW - 40),
    ]


def small_cluster(jobs: list[Job], *entries: LedgerEntry, **fields: object) -> Step:
    ctx = context(ledger={e.key: e for e in entries}, levers=fields.pop("levers", LEVERS), **fields)
    config = fields.get("config")
    return decide(observation([node("n1", used=range(4), cpus_used=4)], jobs, config=config), ctx)  # type: ignore[arg-type]


def test_narrow_frontier_defers_only_what_fits_now() -> None:
    assert set(patches(small_cluster(blocked_and_small()), Lever.LEASE)) == {2}


def test_wide_frontier_defers_all_that_wait() -> None:
    levers = replace(LEVERS, frontier="wide")
    assert set(patches(small_cluster(blocked_and_small(), levers=levers), Lever.LEASE)) == {1, 2}


def test_without_site_factor_the_frontier_is_wide() -> None:
    obs = observation(
        [node("n1", used=range(4), cpus_used=4)], blocked_and_small(),
        config={"prioritytype": "priority/basic"},
    )  # fmt: skip
    step = decide(obs, context(levers=LEVERS))
    assert set(patches(step)) == {1, 2}
    assert {p.lever for p in step.plan.patches} == {Lever.LEASE}


def test_the_first_blocked_job_is_not_left_on_a_lease_it_no_longer_needs() -> None:
    """Hidden from Slurm it would hold nobody back, and a job behind it would take its room."""
    jobs = blocked_and_small()
    jobs[1], entry = leased(jobs[1], NOW + 200)
    restored = patches(small_cluster(jobs, entry), Lever.RESTORE)[1]
    assert restored.begin_s == 0


def test_the_first_blocked_job_waits_deferred_while_slurm_could_still_start_it() -> None:
    """The node is free until the jobs before it have started."""
    jobs = [job(1, gpus=4, submit=NOW - 60), job(2, gpus=4, submit=NOW - 50),
            job(3, gpus=8, submit=NOW - 40)]  # fmt: skip
    found = patches(step_with(jobs), Lever.LEASE)
    assert found[3].why == "defer"


def test_a_later_blocked_job_keeps_its_lease_until_it_lapses() -> None:
    jobs = [*blocked_and_small(), job(3, gpus=8, submit=NOW - 20)]
    jobs[3], entry = leased(jobs[3], NOW + 200)
    step = small_cluster(jobs, entry)
    assert 3 not in patches(step, Lever.LEASE)
    assert 3 not in patches(step, Lever.RESTORE)


@pytest.mark.parametrize(("left", "renewed"), [(290, False), (150, False), (100, True), (5, True)])
def test_a_lease_is_renewed_only_when_it_is_due(left: int, renewed: bool) -> None:
    jobs = blocked_and_small()
    jobs[2], entry = leased(jobs[2], NOW + left)
    found = patches(small_cluster(jobs, entry), Lever.LEASE)
    assert (2 in found) is renewed


def test_an_unchanged_queue_costs_no_update() -> None:
    jobs = blocked_and_small()
    first = small_cluster(jobs)
    entries = {e.key: e for e in first.entries}
    seen = []
    for found in jobs:
        patch = patches(first).get(found.job_id)
        if patch is None:
            seen.append(found)
            continue
        factor = patch.site_factor or 0
        seen.append(
            replace(
                found,
                begin_s=patch.begin_s,
                priority=found.priority + factor,
                admin_comment=patch.admin_comment or "",
            )
        )
    second = small_cluster(seen, *entries.values())
    assert second.plan.patches == ()


def test_a_users_change_of_begin_time_wins() -> None:
    jobs = blocked_and_small()
    jobs[2], entry = leased(jobs[2], NOW + 200)
    jobs[2] = replace(jobs[2], begin_s=NOW + 5000)
    step = small_cluster(jobs, entry)
    assert step.plan.decisions[jobs[2].key].reasons[0].code == "begin_time"
    assert 2 not in patches(step, Lever.LEASE)
    restored = patches(step, Lever.RESTORE).get(2)
    assert restored is None or restored.begin_s is None


def test_a_user_hold_is_never_lifted() -> None:
    found, entry = leased(job(1, gpus=8))
    found = replace(found, priority=0, reason="JobHeldUser", begin_s=None)
    for patch in step_with([found], entry).plan.patches:
        assert patch.hold is None


def test_defer_by_hold_and_release() -> None:
    levers = replace(LEVERS, defer="hold")
    step = small_cluster(blocked_and_small(), levers=levers)
    assert patches(step, Lever.HOLD)[2].hold is True
    note = render_note(UndoNote(held=True))
    held = replace(job(1, gpus=8), priority=0, reason="JobHeldAdmin", admin_comment=note)
    entry = LedgerEntry(held.key, "1", held=True, deferred_since_s=NOW - 5)
    released = patches(step_with([held], entry), Lever.RELEASE)[1]
    assert (released.hold, released.required_nodes) == (False, ("n1",))


def test_a_stale_pin_is_taken_off() -> None:
    found = pinned_on("n1", job(1, gpus=8, submit=NOW - 50))
    entry = LedgerEntry(
        found.key, "1", pinned=("n1",), pinned_at_s=NOW - 61, released_s=NOW - 61,
        original_required=("n7",),
    )  # fmt: skip
    jobs = [job(9, gpus=4, on={"n1": 4}), found]
    restored = patches(small_cluster(jobs, entry), Lever.RESTORE)
    assert restored[1].required_nodes == ("n7",)


def test_what_was_let_go_keeps_its_place() -> None:
    found = pinned_on("n1", job(1, gpus=8))
    entry = LedgerEntry(
        found.key, "1", pinned=("n1",), pinned_at_s=NOW - 3, released_s=NOW - 3,
        planned_nodes=("n1",),
    )  # fmt: skip
    step = step_with([found, job(2, gpus=2, submit=NOW - 5)], entry)
    assert step.plan.decisions[found.key].verdict == "starting"
    assert step.plan.decisions[JobKey(2, NOW - 5)].verdict == "wait"


def test_a_lost_ledger_is_rebuilt_from_the_note() -> None:
    note = UndoNote(lease_until_s=NOW + 200, pinned="n[1-2]", original_required="n3")
    found = job(1, gpus=8, begin=NOW + 200, admin_comment=f"theirs {render_note(note)}")
    found = pinned_on("n1", pinned_on("n2", found))
    step = step_with([found], mode=Mode.OBSERVE)
    restored = patches(step, Lever.RESTORE)[1]
    assert (restored.begin_s, restored.required_nodes) == (0, ("n3",))
    assert restored.admin_comment == "theirs"


def test_every_mark_leaves_a_note_that_undoes_it() -> None:
    step = small_cluster(blocked_and_small())
    for patch in step.plan.patches:
        if patch.lever is Lever.LEASE:
            note = parse_note(patch.admin_comment or "")
            assert note is not None
            assert note.lease_until_s == patch.begin_s


def test_a_pin_of_a_requeued_job_is_still_known() -> None:
    old = LedgerEntry(JobKey(1, NOW - 900), "1", pinned=("n1",), pinned_at_s=NOW - 800)
    again = pinned_on("n1", job(1, gpus=8, submit=NOW - 5, restarts=1, begin=NOW + 115))
    step = step_with([again], old)
    assert patches(step, Lever.RESTORE)[1].required_nodes == ()


def test_what_a_requeued_job_bears_is_kept_even_if_nothing_is_written() -> None:
    old = LedgerEntry(JobKey(1, NOW - 900), "1", shape=Shape(1, 2, 1, 1),
                      original_shape=Shape(1, 8, 1, 1))  # fmt: skip
    again = job(1, gpus=8, submit=NOW - 5, restarts=1, reason="Dependency", dependency="afterok:7")
    step = step_with([again], old)
    assert (step.plan.patches, step.gone) == ((), (old.key,))
    assert [e.original_shape for e in step.entries if e.key == again.key] == [Shape(1, 8, 1, 1)]


def test_the_entry_of_a_requeued_job_moves_to_its_new_key() -> None:
    """Also where this cycle has no patch left to undo what it speaks of."""
    old = LedgerEntry(JobKey(2, NOW - 900), "2", pinned=("n1",), pinned_at_s=NOW - 1)
    again = pinned_on("n1", job(2, gpus=8, submit=NOW - 5, restarts=1, begin=NOW + 115))
    jobs = [job(1, gpus=4), again, job(9, gpus=4, on={"n1": 4})]
    step = step_with(jobs, old, guard=GuardSettings(max_patches_per_cycle=1))
    assert [p.key.job_id for p in step.plan.patches] == [1]
    assert step.gone == (old.key,)
    assert {e.key: e.pinned for e in step.entries}[again.key] == ("n1",)


def test_deferral_is_bounded() -> None:
    jobs = blocked_and_small()
    jobs[2], entry = leased(jobs[2])
    entry = replace(entry, deferred_since_s=NOW - 7201)
    step = small_cluster(jobs, entry, guard=GuardSettings(max_deferral_s=7200))
    assert step.plan.decisions[jobs[2].key].reasons[0].code == "max_deferral"
    assert patches(step, Lever.RESTORE)[2].begin_s == 0
    surrendered = {e.key: e for e in step.entries}[jobs[2].key]
    assert surrendered.surrendered == "max_deferral"


def test_time_undeferred_does_not_count_as_deferral() -> None:
    """A job that was taken hold of once and then waited in Slurm's own queue."""
    found = job(1, gpus=8, submit=NOW - 50)
    entry = LedgerEntry(found.key, "1", deferred_since_s=NOW - 30)
    jobs = [job(9, gpus=4, on={"n1": 4}), found]
    step = small_cluster(jobs, entry)
    kept = {e.key: e for e in step.entries}[found.key]
    assert (kept.deferred_s, kept.deferred_since_s) == (30, None)
    later = small_cluster(jobs, kept, guard=GuardSettings(max_deferral_s=30))
    assert later.plan.decisions[found.key].verdict == "wait"


def test_notes_off_sends_no_empty_patch() -> None:
    note = render_note(UndoNote())
    found = job(1, gpus=8, admin_comment=note)
    step = step_with([found], mode=Mode.OBSERVE, levers=replace(LEVERS, undo_notes=False))
    assert step.plan.patches == ()


def test_a_job_without_a_partition_is_no_reason_to_stop() -> None:
    assert step_with([job(1, gpus=1, partitions=())]).plan.decisions


def test_pause_gives_everything_back() -> None:
    found, entry = leased(job(1, gpus=8))
    step = step_with([found], entry, paused=True)
    assert patches(step, Lever.RESTORE)[1].begin_s == 0


def test_the_breaker_lowers_to_order() -> None:
    found = job(1, gpus=8)
    entry = LedgerEntry(found.key, "1", deferred_since_s=NOW - 500)
    memory = Memory(waste={"gpu": 20}, wanting={found.key: NOW - 500})
    step = step_with([found], entry, memory=memory)
    assert step.memory.broken == {"gpu": NOW}
    after = step_with([found], entry, memory=step.memory)
    assert after.plan.modes["gpu"] is Mode.ORDER


def test_patches_over_the_limit_are_not_in_the_ledger() -> None:
    jobs = [job(i, gpus=1) for i in range(1, 6)]
    step = step_with(jobs, guard=GuardSettings(max_patches_per_cycle=2))
    assert len(step.plan.patches) == 2
    assert {e.key for e in step.entries} == {p.key for p in step.plan.patches}


def test_ended_jobs_leave_the_ledger() -> None:
    gone = LedgerEntry(JobKey(77, 5), "77", NOW + 100)
    assert step_with([], gone).gone == (gone.key,)


# -- marks that were noted but never sent, or sent and not noted --------------------------


def held_job(reason: str, comment: str = "") -> Job:
    return replace(job(1, gpus=8), priority=0, reason=reason, admin_comment=comment)


@pytest.mark.parametrize(
    ("reason", "noted", "released"),
    [
        pytest.param("JobHeldAdmin", True, True, id="ours"),
        pytest.param("JobHeldUser", True, False, id="the-users"),
        pytest.param("JobHeldAdmin", False, False, id="an-admins-our-hold-was-never-sent"),
    ],
)
@pytest.mark.parametrize("mode", [Mode.ENFORCE, Mode.OBSERVE])
def test_only_our_own_hold_is_released(
    reason: str, noted: bool, released: bool, mode: Mode
) -> None:
    found = held_job(reason, render_note(UndoNote(held=True)) if noted else "")
    entry = LedgerEntry(found.key, "1", held=True)
    holds = [p.hold for p in step_with([found], entry, mode=mode).plan.patches]
    assert (False in holds) is released


@pytest.mark.parametrize("ledger", [True, False])
@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("JobHeldUser", "launch failed requeued held"),
        # Held once more by an administrator: the sentence stays.
        ("JobHeldAdmin", "launch failed requeued held"),
        ("JobHeldAdmin", "License request 'x' is no longer valid, holding job"),
        ("JobHoldMaxRequeue", "launch failure limit exceeded requeued held"),
    ],
)
def test_a_hold_by_slurm_itself_is_not_ours(ledger: bool, reason: str, sentence: str) -> None:
    """It may come right after we let the job go, while our note still stands."""
    found = held_job(reason, render_note(UndoNote(held=True)))
    found = replace(found, reason_text=sentence, restarts=1)
    entries = [LedgerEntry(found.key, "1", held=True, hold_seen=True)] if ledger else []
    step = step_with([found], *entries)
    assert not any(p.hold is False for p in step.plan.patches)
    assert step.plan.decisions[found.key].reasons[0].code == "held"


def test_a_release_that_was_noted_but_not_sent_is_sent_again() -> None:
    found = held_job("JobHeldAdmin", render_note(UndoNote(held=True)))
    first = step_with([found], LedgerEntry(found.key, "1", held=True))
    again = step_with([found], *first.entries)
    assert patches(again, Lever.RELEASE)[1].hold is False


def test_the_note_of_a_hold_goes_only_after_the_hold() -> None:
    found = held_job("JobHeldAdmin", render_note(UndoNote(held=True)))
    step = step_with([found], LedgerEntry(found.key, "1", held=True), mode=Mode.OBSERVE)
    assert patches(step)[1].admin_comment is None
    after = replace(found, priority=100, reason="Priority")
    step = step_with([after], *step.entries, mode=Mode.OBSERVE)
    assert patches(step)[1].admin_comment == ""


def test_a_renewal_that_was_noted_but_not_sent_leaves_the_lease_ours() -> None:
    note = render_note(UndoNote(lease_until_s=NOW + 60, original_begin_s=NOW + 7))
    found = job(1, gpus=8, begin=NOW + 60, admin_comment=note)
    entry = LedgerEntry(found.key, "1", NOW + 300, original_begin_s=NOW + 7)
    restored = patches(step_with([found], entry, mode=Mode.OBSERVE))[1]
    assert restored.begin_s == NOW + 7


def test_an_unpin_that_was_noted_but_not_sent_is_sent_again() -> None:
    jobs = blocked_and_small()
    jobs[2], entry = leased(pinned_on("n1", jobs[2]), NOW + 5, pinned=("n1",))
    first = small_cluster(jobs, entry)
    assert patches(first, Lever.LEASE)[2].required_nodes == ()
    again = small_cluster(jobs, *first.entries)
    assert again.plan.decisions[jobs[2].key].verdict == "wait"
    assert any(e.pinned == ("n1",) for e in first.entries)


def test_a_running_job_loses_our_note_but_keeps_foreign_text() -> None:
    note = render_note(UndoNote(pinned="n1"))
    running = job(1, gpus=8, on={"n1": 8}, admin_comment=f"theirs {note}")
    patch = patches(step_with([running]))[1]
    assert patch.admin_comment == "theirs"
    assert patch.required_nodes is None


def test_a_standing_hold_becomes_a_lease_when_the_lever_is_changed() -> None:
    jobs = blocked_and_small()
    note = render_note(UndoNote(held=True))
    jobs[2] = replace(jobs[2], priority=0, reason="JobHeldAdmin", admin_comment=note)
    patch = patches(small_cluster(jobs, LedgerEntry(jobs[2].key, "2", held=True)))[2]
    assert (patch.lever, patch.hold) == (Lever.LEASE, False)
    assert patch.begin_s == NOW + 300
    left = parse_note(patch.admin_comment or note)
    assert left is not None
    assert left.held  # until it is seen released


# -- starts that Slurm does not make -----------------------------------------------------


def test_after_a_start_in_vain_the_job_is_let_go_without_a_pin() -> None:
    found = job(1, gpus=8)
    entry = LedgerEntry(found.key, "1", released_s=NOW - 60, planned_nodes=("n1",))
    step = step_with([found], entry)
    assert step.plan.decisions[found.key].verdict == "start"
    assert not any(p.required_nodes for p in step.plan.patches)
    kept = {e.key: e for e in step.entries}[found.key]
    assert (kept.failed_starts, kept.released_s) == (1, NOW)


def test_a_pin_that_makes_a_job_impossible_for_slurm_is_taken_off_and_not_tried_again() -> None:
    found = pinned_on("n1", job(1, gpus=8, priority=0, reason="BadConstraints"))
    entry = LedgerEntry(found.key, "1", pinned=("n1",), pinned_at_s=NOW - 3, released_s=NOW - 3)
    step = step_with([found], entry)
    assert patches(step, Lever.RESTORE)[1].required_nodes == ()
    again = step_with([job(1, gpus=8)], *step.entries)
    assert not any(p.required_nodes for p in again.plan.patches)


def test_after_three_starts_in_vain_it_belongs_to_slurm() -> None:
    found = job(1, gpus=8)
    step = step_with([found], LedgerEntry(found.key, "1", failed_starts=3))
    assert step.plan.decisions[found.key].reasons[0].code == "not_started"
    assert {e.key: e for e in step.entries}[found.key].surrendered == "not_started"


def test_an_array_that_starts_bit_by_bit_is_not_in_vain() -> None:
    array = job(1, gpus=2, array_job_id=1, array_tasks="4-9", array_count=6)
    entry = LedgerEntry(array.key, "1", released_s=NOW - 60)
    kept = {e.key: e for e in step_with([array], entry).entries}[array.key]
    assert kept.failed_starts == 0


def running_with_note(note: UndoNote, priority: int) -> Job:
    return job(1, on={"n1": 2}, admin_comment=render_note(note), priority=priority)


def test_the_note_goes_when_the_job_runs() -> None:
    patch = patches(step_with([running_with_note(UndoNote(lease_until_s=NOW), 10)]))[1]
    assert (patch.admin_comment, patch.hold) == ("", None)


def test_a_hold_that_came_after_the_start_is_lifted_before_its_note_goes() -> None:
    held = UndoNote(held=True)
    patch = patches(step_with([running_with_note(held, 0)]))[1]
    assert (patch.admin_comment, patch.hold) == (None, False)
    patch = patches(step_with([running_with_note(held, 10)]))[1]
    assert (patch.admin_comment, patch.hold) == ("", None)
