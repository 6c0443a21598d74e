"""Shapes for annotated jobs, in the daemon's own decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from slurm_ext.engine.cycle import Step, decide
from slurm_ext.engine.settings import LeverSettings, PreemptionSettings
from slurm_ext.model.annotation import Annotation, Checkpoint, Scaling, Sensitivity, Speed
from slurm_ext.model.decision import JobPatch, Lever, Mode, Shape, Verdict
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import Job, JobKey, Request
from slurm_ext.model.ledger import LedgerEntry, parse_note
from slurm_ext.model.progress import Progress, Report
from slurm_ext.model.reshape import reshaped
from tests.builders import NOW, context, job, node, observation

LINEAR = Speed(table=((1, 1.0), (8, 8.0)))
FLAT = Speed(table=((1, 1.0), (2, 1.01), (8, 1.02)))
LEVERS = LeverSettings(interval_s=10)
PREEMPTION = PreemptionSettings(min_runtime_s=0)


def scaling(kind: str = "moldable", low: int = 1, high: int = 8, **fields: object) -> Annotation:
    values: dict[str, object] = {"speed": LINEAR, **fields}
    signal = Checkpoint(signal="USR1", restart_s=10)
    return Annotation(Scaling(kind, low, high), checkpoint=signal, **values)  # type: ignore[arg-type]


def one(job_id: int, gpus: int = 4, cpus: int = 8, mem: int = 0, **fields: object) -> Job:
    request = Request(
        1, 1, cpus=cpus, tasks=1, cpus_per_task=cpus, gpus_per_node=gpus, mem_per_node_mib=mem
    )
    values: dict[str, object] = {
        "requeueable": True, "submit": NOW - 1000 + job_id, "limit": None, **fields
    }  # fmt: skip
    return job(job_id, gpus=gpus, cpus=cpus, request=request, **values)  # type: ignore[arg-type]


def planned(
    jobs: Sequence[Job], annotated: Mapping[int, Annotation], *entries: LedgerEntry,
    policy: str = "doubling", **fields: object,
) -> Step:  # fmt: skip
    nodes = fields.pop("nodes", None) or [node("n1")]
    keys = {j.job_id: j.key for j in jobs}
    ctx = context(
        policy, ledger={e.key: e for e in entries}, levers=LEVERS, preemption=PREEMPTION,
        annotations={keys[i]: a for i, a in annotated.items()}, **fields,
    )  # fmt: skip
    return decide(observation(nodes, jobs), ctx)  # type: ignore[arg-type]


def in_hand(found: Job, **fields: object) -> tuple[Job, LedgerEntry]:
    entry = LedgerEntry(found.key, found.address, NOW + 200, **fields)  # type: ignore[arg-type]
    return replace(found, begin_s=NOW + 200, reason="BeginTime"), entry


def shapes(
    jobs: Sequence[Job], annotated: Mapping[int, Annotation], **fields: object
) -> dict[int, Shape | None]:
    """The shapes in the releases, of jobs that are all in our hands."""
    pairs = [in_hand(j) if j.state.pending else (j, None) for j in jobs]
    step = planned([j for j, _ in pairs], annotated, *[e for _, e in pairs if e], **fields)
    return {p.key.job_id: p.shape for p in step.plan.patches if p.lever is Lever.RELEASE}


def codes(step: Step, found: Job) -> dict[str, dict[str, object]]:
    return {r.code: dict(r.facts) for r in step.plan.decisions[found.key].reasons}


def the(step: Step, found: Job) -> JobPatch:
    return next(p for p in step.plan.patches if p.key == found.key)


# -- GPU counts ------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["doubling", "elastic-dp", "optimus"])
def test_a_job_alone_gets_all_it_can_use(policy: str) -> None:
    assert shapes([one(1)], {1: scaling()}, policy=policy) == {1: Shape(1, 8, 1, 16)}


@pytest.mark.parametrize("policy", ["elastic-dp", "optimus"])
def test_other_allocations_leave_a_plain_job_its_room(policy: str) -> None:
    found = shapes([one(1, gpus=2), one(2, gpus=4)], {1: scaling()}, policy=policy)
    assert found == {1: Shape(1, 4, 1, 16), 2: None}


def test_two_share_the_node() -> None:
    found = shapes([one(1, 8), one(2, 8)], {1: scaling(), 2: scaling()})
    assert found == {1: Shape(1, 4, 1, 4), 2: Shape(1, 4, 1, 4)}


@pytest.mark.parametrize(
    ("limit", "fields", "gpus"),
    [
        (1000, {"work": 8000.0}, 8),  # 1000 s on 8 GPUs: no time to lose
        (2300, {"work": 8000.0}, 8),  # 2000 s on 4 and a start, with a fifth more
        (2420, {"work": 8000.0}, 4),
        (10_000, {}, 8),  # nobody knows how long it takes
    ],
)
def test_a_size_too_slow_for_the_limit_is_not_given(
    limit: int, fields: dict[str, object], gpus: int
) -> None:
    found = shapes([one(1, 8, limit=limit), one(2, 8)], {1: scaling(**fields), 2: scaling()})
    assert found[1] == (None if gpus == 8 else Shape(1, gpus, 1, gpus))


@pytest.mark.parametrize(
    ("p90", "level", "given"), [(900, "user", True), (1100, "user", False), (900, "limit", False)]
)
def test_the_learnt_run_time_counts_where_no_work_is_told(
    p90: int, level: str, given: bool
) -> None:
    first = one(1, 8, limit=2200)
    known = {first.key: Estimate(700, 800, p90, 800, 9, level)}
    found = shapes([first, one(2, 8)], {1: scaling(), 2: scaling()}, estimates=known)
    assert (found[1] == Shape(1, 4, 1, 4)) is given


def test_a_job_that_gains_nothing_leaves_the_room() -> None:
    found = shapes([one(1), one(2)], {1: scaling(speed=FLAT, high=2), 2: scaling()})
    assert found[1] in (Shape(1, 1, 1, 2), Shape(1, 2, 1, 4))
    assert found[2] is None  # four, as it asked


def test_room_for_a_plain_job_that_waits_is_left() -> None:
    found = shapes([one(1, gpus=2), one(2, gpus=4)], {1: scaling()})
    assert found == {1: Shape(1, 4, 1, 16), 2: None}


def test_memory_grows_with_the_gpus_and_does_not_shrink_with_them() -> None:
    assert shapes([one(1, mem=1000)], {1: scaling()}) == {1: Shape(1, 8, 1, 16, 2000)}
    assert shapes([one(1, gpus=8, mem=1000)], {1: scaling(high=2)}) == {1: Shape(1, 2, 1, 2, 1000)}
    enough = scaling(high=2, sensitivity=Sensitivity(mem_mib_per_gpu=100))
    assert shapes([one(1, gpus=8, mem=1000)], {1: enough}) == {1: Shape(1, 2, 1, 2, 200)}


@pytest.mark.parametrize(
    "annotation",
    [
        scaling(low=1000, high=2000),
        scaling(speed=Speed()),
        scaling(speed=Speed(theta=(0.0, 0.0, 0.0, 0.0))),
        scaling("fixed"),
        scaling(low=3, high=3),
    ],
    ids=["too-large", "no-speed", "no-time", "fixed", "no-power-of-two"],
)
def test_what_cannot_be_had_stays_as_submitted(annotation: Annotation) -> None:
    plain = shapes([one(1), one(2, gpus=2)], {})
    assert shapes([one(1), one(2, gpus=2)], {1: annotation}) == plain == {1: None, 2: None}


def test_a_learned_curve_is_as_good_as_a_declared_one() -> None:
    found = one(1)
    assert shapes([found], {1: scaling(speed=Speed())}, curves={found.key: LINEAR}) == {
        1: Shape(1, 8, 1, 16)
    }


def test_without_annotated_jobs_it_is_fifo() -> None:
    jobs = [one(n, gpus=n) for n in (1, 2, 3, 4)]
    doubling, fifo = planned(jobs, {}).plan, planned(jobs, {}, policy="fifo").plan
    assert replace(doubling, policy="") == replace(fifo, policy="")


def test_why_tells_what_is_given() -> None:
    found = one(1)
    facts = codes(planned([found], {1: scaling()}), found)["shaped"]
    assert (facts["asked_gpus"], facts["gpus"], facts["cpus"]) == (4, 8, 16)


def test_only_enforce_changes_shapes() -> None:
    step = planned([one(1)], {1: scaling()}, mode=Mode.ORDER)
    assert all(p.shape is None for p in step.plan.patches)


def test_it_is_taken_hold_of_first_and_its_request_noted() -> None:
    found = one(1)
    assert the(planned([found], {1: scaling()}), found).lever is Lever.LEASE
    leased, entry = in_hand(found)
    patch = the(planned([leased], {1: scaling()}, entry), found)
    note = parse_note(patch.admin_comment or "")
    assert note is not None
    assert (note.shape, note.original_shape) == (Shape(1, 8, 1, 16), Shape(1, 4, 1, 8))


def test_a_shape_slurm_did_not_start_is_given_back_once() -> None:
    ours, before = Shape(1, 8, 1, 16), Shape(1, 4, 1, 8)
    found = one(1)
    leased, entry = in_hand(found, shape=ours, original_shape=before, failed_starts=1)
    leased = replace(leased, request=reshaped(leased.request, ours))
    step = planned([leased], {1: scaling()}, entry)
    assert the(step, found).shape == before
    assert "did not start" in str(codes(step, found)["as_submitted"]["because"])


def test_a_shape_that_a_limit_forbids_is_given_back() -> None:
    ours, before = Shape(1, 8, 1, 16), Shape(1, 4, 1, 8)
    entry = LedgerEntry(one(1).key, "1", shape=ours, original_shape=before, released_s=NOW - 5)
    stuck = replace(one(1), reason="QOSMaxGRESPerJob", request=reshaped(one(1).request, ours))
    step = planned([stuck], {1: scaling()}, entry)
    assert the(step, stuck).shape == before
    assert [e.failed_starts for e in step.entries] == [1]


def test_a_moldable_job_that_is_requeued_keeps_the_size_it_started_with() -> None:
    ours, before = Shape(1, 2, 1, 4), Shape(1, 4, 1, 8)
    found = one(1, restarts=1)
    leased, entry = in_hand(found, shape=ours, original_shape=before)
    leased = replace(leased, request=reshaped(leased.request, ours))
    step = planned([leased], {1: scaling()}, entry)
    patch = the(step, found)
    assert (patch.lever, patch.shape) == (Lever.RELEASE, None)  # it stands in Slurm
    assert [e.shape for e in step.entries] == [ours]
    (share,) = step.plan.decisions[found.key].placement.shares  # type: ignore[union-attr]
    assert share.gpus == 2


# -- running jobs ----------------------------------------------------------------------------


def runs(job_id: int, gpus: int, **fields: object) -> Job:
    return one(job_id, gpus, on={"n1": gpus}, restarts=0, **fields)


def told(step: float, gpus: int) -> Progress:
    return Progress((Report(NOW - 1.0, 0, step, gpus=gpus),))


def test_a_running_elastic_job_grows_where_nobody_waits() -> None:
    found = runs(1, 2)
    work = scaling("elastic", work=10_000.0)
    (wanted,) = planned([found], {1: work}, nodes=[node("n1", used=range(2))]).plan.resizes
    assert (wanted.gpus_now, wanted.shape.gpus) == (2, 8)
    assert wanted.gain_gpu_s > 2 * wanted.cost_gpu_s > 0


@pytest.mark.parametrize("most", [1, None])
@pytest.mark.parametrize("pinned", [False, True])
def test_it_grows_on_other_nodes_only_if_its_user_named_none(
    most: int | None, pinned: bool
) -> None:
    """n1 is full; our own pin to it is taken off at the restart, a --nodelist is not."""
    found = runs(1, 2, limit=50_000)
    found = replace(found, request=replace(found.request, required_nodes=("n1",), nodes_max=most))
    entry = LedgerEntry(found.key, "1", pinned=("n1",) if pinned else ())
    other = job(2, gpus=6, on={"n1": 6}, end=NOW + 50_000)
    nodes = [node("n1", used=range(8)), node("n2")]
    work = scaling("elastic", work=10_000.0)
    resizes = planned([found, other], {1: work}, entry, nodes=nodes).plan.resizes
    assert [wanted.shape.gpus for wanted in resizes] == ([8] if pinned else [])


def test_not_for_little_gain() -> None:
    found = runs(1, 2)
    work = scaling("elastic", work=10_000.0)
    near_end = {found.key: told(9_990.0, 2)}
    step = planned([found], {1: work}, nodes=[node("n1", used=range(2))], progress=near_end)
    assert step.plan.resizes == ()


@pytest.mark.parametrize("annotation", [scaling("moldable", work=1e4), None])
def test_what_is_not_elastic_is_never_resized(annotation: Annotation | None) -> None:
    annotated = {1: annotation} if annotation else {}
    step = planned([runs(1, 2)], annotated, nodes=[node("n1", used=range(2))])
    assert step.plan.resizes == ()


def test_a_running_job_shrinks_for_one_that_waits() -> None:
    running, waiting = runs(1, 8, end=NOW + 50_000), one(2, 8)
    work = scaling("elastic", work=100_000.0)
    step = planned([running, waiting], {1: work, 2: work}, nodes=[node("n1", used=range(8))])
    (wanted,) = step.plan.resizes
    assert (wanted.key, wanted.gpus_now, wanted.shape.gpus) == (running.key, 8, 4)
    assert step.plan.decisions[waiting.key].verdict is Verdict.WAIT


# -- CPUs and memory ---------------------------------------------------------------------------


def sensitive(cpus: int, mem: int = 0) -> Annotation:
    return Annotation(sensitivity=Sensitivity("image", cpus, mem))


def test_a_sensitive_job_gets_what_it_can_use() -> None:
    found = shapes([one(1, gpus=2, cpus=8)], {1: sensitive(12)}, policy="synergy")
    assert found == {1: Shape(1, 2, 1, 24)}


def test_an_insensitive_job_gives_up_what_it_cannot_use() -> None:
    found = shapes([one(1, gpus=2, cpus=16, mem=8000)], {1: sensitive(1, 500)}, policy="synergy")
    assert found == {1: Shape(1, 2, 1, 2, 1000)}


@pytest.mark.parametrize(
    ("kind", "asked", "given"),
    [("image", 8, 18), ("speech", 8, 12), ("language", 16, 2), ("image", 40, 40)],
    ids=["image", "speech", "language", "asked-for-more"],
)
def test_a_class_alone_has_its_usual_cpus(kind: str, asked: int, given: int) -> None:
    """Of memory it says nothing."""
    known = Annotation(sensitivity=Sensitivity(kind))
    found = shapes([one(1, gpus=2, cpus=asked, mem=8000)], {1: known}, policy="synergy")
    assert found[1] == (None if given == asked else Shape(1, 2, 1, given, 8000))


def test_nobody_takes_the_share_of_gpus_that_others_wait_for() -> None:
    """8 CPUs a GPU are fair; 6 GPUs are left for job 2, so job 1 may not have 40 of 64 CPUs."""
    jobs = [one(1, gpus=2, cpus=8), one(2, gpus=6, cpus=48)]
    assert shapes(jobs, {1: sensitive(20)}, policy="synergy") == {1: Shape(1, 2, 1, 16), 2: None}
    assert shapes(jobs[:1], {1: sensitive(20)}, policy="synergy") == {1: Shape(1, 2, 1, 40)}


def test_plain_jobs_beside_it_are_untouched() -> None:
    jobs = [one(1, gpus=2, cpus=8), one(2, gpus=2, cpus=30)]
    assert shapes(jobs, {1: sensitive(12)}, policy="synergy")[2] is None


def test_an_array_stays_as_submitted() -> None:
    array = one(1, gpus=1, cpus=1, array_job_id=1, array_tasks="0-3", array_count=4)
    step = planned([array], {1: scaling()})
    assert all(p.shape is None for p in step.plan.patches)
    assert "array" in str(codes(step, array)["as_submitted"]["because"])


def test_annotations_do_not_reach_other_jobs() -> None:
    """A key that is not in the queue, and one that wants everything."""
    wanting = scaling(low=8, high=8, speed=Speed(table=((1, 1e-9), (8, 1e9))))
    other = JobKey(99, 1)
    ctx = context("doubling", levers=LEVERS, annotations={other: wanting})
    jobs = [one(1, gpus=2), one(2, gpus=6)]
    step = decide(observation([node("n1")], jobs), ctx)
    assert {d.verdict for d in step.plan.decisions.values()} == {Verdict.START}
