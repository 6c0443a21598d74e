"""Whole decisions on small clusters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_ext.engine.cycle import Step, decide
from slurm_ext.engine.settings import BackfillSettings
from slurm_ext.model.decision import Decision, Verdict
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import Request
from slurm_ext.model.observation import Partition, Reservation
from tests.builders import NOW, context, job, node, observation


def of(step: Step, job_id: int) -> Decision:
    return next(d for k, d in step.plan.decisions.items() if k.job_id == job_id)


def started(step: Step) -> dict[int, tuple[str, ...]]:
    return {
        k.job_id: d.placement.nodes
        for k, d in step.plan.decisions.items()
        if d.verdict is Verdict.START and d.placement
    }


def code(step: Step, job_id: int) -> str:
    return of(step, job_id).reasons[0].code


def test_starts_what_fits() -> None:
    step = decide(observation([node("a1")], [job(1, gpus=4), job(2, gpus=4)]), context())
    assert started(step) == {1: ("a1",), 2: ("a1",)}


def test_gpu_indices_of_two_jobs_do_not_overlap() -> None:
    step = decide(observation([node("a1")], [job(1, gpus=4), job(2, gpus=4)]), context())
    masks = [of(step, i).placement.shares[0].gpu_mask for i in (1, 2)]  # type: ignore[union-attr]
    assert masks == [0x0F, 0xF0]


def test_a20_wide_job_goes_to_the_node_with_more_cpus() -> None:
    nodes = [node("n16", cpus=16), node("n32", cpus=32)]
    jobs = [job(1, gpus=1, cpus=12), *(job(i, gpus=1, cpus=1) for i in range(2, 17))]
    step = decide(observation(nodes, jobs), context())
    assert len(started(step)) == 16
    assert started(step)[1] == ("n32",)


def test_a21_small_jobs_are_packed() -> None:
    nodes = [node("n1", gpus=4), node("n2", gpus=4)]
    jobs = [job(1, gpus=1), job(2, gpus=2), job(3, gpus=2)]
    assert started(decide(observation(nodes, jobs), context())) == {
        1: ("n1",), 2: ("n1",), 3: ("n2",),
    }  # fmt: skip


def test_a21_twin_leaves_a_node_for_the_large_job() -> None:
    nodes = [node(n, gpus=2, cpus=24, mem=24_000) for n in ("n1", "n2")]
    jobs = [
        job(1, gpus=1, cpus=10, mem=10_000),
        job(2, gpus=1, cpus=10, mem=10_000),
        job(3, gpus=1, cpus=20, mem=20_000),
    ]
    found = started(decide(observation(nodes, jobs), context()))
    assert found[1] == found[2] != found[3]


def test_whole_nodes_are_preserved() -> None:
    nodes = [node("n1"), node("n2", used=range(5), cpus_used=5)]
    running = job(9, on={"n2": 5}, cpus=5)
    step = decide(observation(nodes, [running, job(1, gpus=2)]), context())
    assert started(step) == {1: ("n2",)}


@pytest.mark.parametrize(
    ("request_fields", "expected"),
    [
        pytest.param({"gpus_total": 12, "nodes_max": None}, 2, id="A06-12-gpus-on-8-gpu-nodes"),
        pytest.param({"gpus_per_task": 2, "tasks": 3, "nodes_max": None}, 1, id="A06-twin-6-gpus"),
        pytest.param({"gpus_per_node": 8, "nodes_min": 3, "nodes_max": 3}, 3, id="three-nodes"),
    ],
)
def test_node_count_follows_from_gpus(request_fields: dict[str, int], expected: int) -> None:
    nodes = [node(f"n{i}") for i in range(4)]
    jobs = [job(1, request=Request(**request_fields))]  # type: ignore[arg-type]
    assert len(started(decide(observation(nodes, jobs), context()))[1]) == expected


def test_type_is_respected() -> None:
    nodes = [node("n1", type="v100"), node("n2", type="a100")]
    assert started(decide(observation(nodes, [job(1, gpus=1, type="a100")]), context())) == {
        1: ("n2",)
    }


def test_mixed_types_on_one_node_are_counted_apart() -> None:
    nodes = [node("n1", types={"a100": 2, "v100": 2})]
    jobs = [job(1, gpus=2, type="v100"), job(2, gpus=1, type="v100"), job(3, gpus=2, type="a100")]
    assert set(started(decide(observation(nodes, jobs), context()))) == {1, 3}


def test_threads_round_up_to_cores() -> None:
    nodes = [node("n1", cpus=4, threads=2)]
    jobs = [job(1, gpus=1, cpus=3), job(2, gpus=1, cpus=1)]
    step = decide(observation(nodes, jobs), context())
    assert set(started(step)) == {1}
    assert code(step, 2) == "cpus_short"


@pytest.mark.parametrize(
    ("nodes", "waiting", "expected"),
    [
        ([node("n1", used=range(8))], job(1, gpus=1), "gpus_busy"),
        ([node("n1", used=range(6)), node("n2", used=range(6))], job(1, gpus=4), "fragmented"),
        ([node("n1", cpus=64, cpus_used=60)], job(1, gpus=1, cpus=8), "cpus_short"),
        ([node("n1", mem=1000, mem_used=900)], job(1, gpus=1, mem=500), "memory_short"),
        ([node("n1", states=("DOWN",))], job(1, gpus=1), "nodes_unavailable"),
        ([node("n1", states=("IDLE", "DRAIN"))], job(1, gpus=1), "nodes_unavailable"),
        ([node("n1", gpus=4)], job(1, gpus=8), "never_fits"),
        ([node("n1")], job(1, gpus=1, type="h100"), "never_fits"),
    ],
)
def test_what_is_short(nodes: list, waiting: object, expected: str) -> None:  # type: ignore[type-arg]
    step = decide(observation(nodes, [waiting]), context())  # type: ignore[list-item]
    assert code(step, 1) == expected


@pytest.mark.parametrize(
    ("sentence", "down", "expected"),
    [
        ("ReqNodeNotAvail, UnavailableNodes:", 0, ("gpus_busy", None)),
        ("ReqNodeNotAvail, UnavailableNodes:d[001-032],f[001-024]", 56, ("nodes_unavailable", 56)),
    ],
)
def test_a22_nodes_are_unavailable_only_if_some_are(
    sentence: str, down: int, expected: tuple[str, int | None]
) -> None:
    """The reason alone, with an empty list, is ordinary waiting."""
    names = [f"d{i:03}" for i in range(1, 33)] + [f"f{i:03}" for i in range(1, 25)]
    nodes = [node(n, states=("DOWN",) if down else ("IDLE",), used=range(8)) for n in names]
    waiting = job(1, gpus=8, nodes=2, reason="ReqNodeNotAvail", reason_text=sentence)
    step = decide(observation([*nodes, node("n1")], [waiting]), context())
    why = of(step, 1).reasons[0]
    assert (why.code, dict(why.facts).get("down")) == expected


@pytest.mark.parametrize(
    ("fields", "verdict", "expected"),
    [
        ({"priority": 0, "reason": "JobHeldUser"}, Verdict.UNMANAGED, "held"),
        ({"priority": 0, "reason": "JobHeldAdmin"}, Verdict.UNMANAGED, "held"),
        ({"cron": True}, Verdict.UNMANAGED, "cron_job"),
        ({"het_job_id": 1, "het_offset": 0}, Verdict.UNMANAGED, "het_job"),
        ({"reservation": "maint"}, Verdict.UNMANAGED, "in_reservation"),
        ({"batch": False}, Verdict.UNMANAGED, "interactive"),
        ({"comment": "x slurm_ext:off"}, Verdict.UNMANAGED, "opted_out"),
        ({"flags": ("SPECIAL_EXIT",)}, Verdict.UNMANAGED, "special_state"),
        ({"request": Request(unplannable=("shard",))}, Verdict.UNMANAGED, "unplannable"),
        ({"request": Request(features="[a|b]")}, Verdict.UNMANAGED, "features_unplannable"),
        ({"reason": "Dependency"}, Verdict.INELIGIBLE, "dependency"),
        ({"begin": NOW + 900}, Verdict.INELIGIBLE, "begin_time"),
        ({"begin": NOW + 900, "restarts": 1}, Verdict.INELIGIBLE, "begin_time"),
        (
            {"begin": NOW + 111, "submit": NOW - 10, "restarts": 1, "reason": "BeginTime"},
            Verdict.INELIGIBLE,
            "requeue_delay",
        ),
        ({"reason": "QOSMaxGRESPerUser"}, Verdict.INELIGIBLE, "limit_in_slurm"),
        ({"reason": "AssocGrpGRES"}, Verdict.INELIGIBLE, "limit_in_slurm"),
    ],
)
def test_left_to_slurm(fields: dict, verdict: Verdict, expected: str) -> None:  # type: ignore[type-arg]
    step = decide(observation([node("n1")], [job(1, **fields)]), context())
    assert (of(step, 1).verdict, code(step, 1)) == (verdict, expected)
    assert step.plan.patches == ()


def test_an_unmanaged_running_job_still_occupies() -> None:
    running = job(9, on={"n1": 8}, batch=False)
    step = decide(observation([node("n1")], [running, job(1, gpus=1)]), context())
    assert code(step, 1) == "gpus_busy"


def test_a_completing_job_still_occupies() -> None:
    completing = job(9, on={"n1": 8}, state="COMPLETED", flags=("COMPLETING",))
    step = decide(observation([node("n1")], [completing, job(1, gpus=1)]), context())
    assert code(step, 1) == "gpus_busy"


# -- backfill ----------------------------------------------------------------------------


def crowded() -> list:  # type: ignore[type-arg]
    """4 of 8 GPUs busy for 600 s; an 8-GPU job is first in line."""
    return [job(9, on={"n1": 4}, gpus=4, end=NOW + 600), job(1, gpus=8, submit=NOW - 900)]


@pytest.mark.parametrize(
    ("kind", "limit", "verdict"),
    [
        ("easy", 600, Verdict.START),
        ("easy", 601, Verdict.WAIT),
        ("none", 60, Verdict.WAIT),
        ("best_effort", 9999, Verdict.START),
    ],
)
def test_who_may_pass(kind: str, limit: int, verdict: Verdict) -> None:
    small = job(2, gpus=2, limit=limit, submit=NOW - 10)
    obs = observation([node("n1", used=range(4), cpus_used=1)], [*crowded(), small])
    step = decide(obs, context(backfill=BackfillSettings(kind=kind)))
    assert of(step, 2).verdict is verdict


@pytest.mark.parametrize(("overrun", "promise"), [(10, 60), (60, 60), (7200, 7200)])
def test_a_job_past_its_end_does_not_block_others_for_ever(overrun: int, promise: int) -> None:
    jobs = crowded()
    jobs[0] = replace(jobs[0], end_s=NOW - overrun)
    short = job(2, gpus=2, limit=3600, submit=NOW - 10)
    step = decide(observation([node("n1", used=range(4))], [*jobs, short]), context())
    assert of(step, 1).start_s == NOW + promise
    assert (of(step, 2).verdict is Verdict.START) is (promise >= 3600)


def test_the_blocked_job_is_promised_the_shadow_time() -> None:
    step = decide(observation([node("n1", used=range(4))], crowded()), context())
    assert of(step, 1).start_s == NOW + 600
    assert step.plan.fences[0].key.job_id == 1


def test_extra_nodes_beside_the_fence_may_be_used_for_long() -> None:
    obs = observation(
        [node("n1", used=range(4)), node("n2", used=range(6))],
        [
            *crowded(),
            job(8, on={"n2": 6}, end=NOW + 9000),
            job(2, gpus=2, limit=99_999, submit=NOW - 9),
        ],
    )
    step = decide(obs, context())
    assert started(step) == {2: ("n2",)}


def test_two_long_jobs_cannot_share_the_same_extra_room() -> None:
    obs = observation(
        [node("n1", used=range(4)), node("n2", used=range(6))],
        [*crowded(), job(8, on={"n2": 6}, end=NOW + 9000),
         job(2, gpus=2, limit=99_999, submit=NOW - 9),
         job(3, gpus=2, limit=99_999, submit=NOW - 8)],
    )  # fmt: skip
    step = decide(obs, context())
    assert set(started(step)) == {2}
    assert code(step, 3) == "behind_fence"


def test_a_maintenance_window_is_respected() -> None:
    window = Reservation("maint", NOW + 1000, NOW + 5000, ("n1",), frozenset({"MAINT"}))
    obs = observation(
        [node("n1")], [job(1, gpus=1, limit=1000), job(2, gpus=1, limit=1001)],
        reservations=[window],
    )  # fmt: skip
    step = decide(obs, context())
    assert set(started(step)) == {1}
    assert code(step, 2) == "reservation_window"
    assert of(step, 2).start_s == NOW + 5000


def test_arrays_start_as_many_tasks_as_fit() -> None:
    array = job(1, gpus=2, array_job_id=1, array_tasks="0-9", array_count=10)
    step = decide(observation([node("n1")], [array]), context())
    assert of(step, 1).tasks == 4


def test_array_throttle_counts_running_tasks() -> None:
    array = job(1, gpus=1, array_job_id=1, array_tasks="2-9%2", array_count=8, array_throttle=2)
    tasks = [job(10 + i, on={"n1": 1}, gpus=1, array_job_id=1, array_task_id=i) for i in range(2)]
    step = decide(observation([node("n1", used=range(2))], [array, *tasks]), context())
    assert code(step, 1) == "array_throttled"


def test_an_array_that_would_delay_a_fence_waits_whole() -> None:
    array = job(
        2, gpus=2, limit=9999, submit=NOW - 9, array_job_id=2, array_tasks="0-1", array_count=2
    )
    obs = observation(
        [node("n1", used=range(4)), node("n2", used=range(6))],
        [*crowded(), job(8, on={"n2": 6}, end=NOW + 9000), array],
    )
    assert code(decide(obs, context()), 2) == "array_behind_fence"


def test_partition_down_starts_nothing() -> None:
    obs = observation(
        [node("n1")], [job(1, gpus=1)], partitions=[Partition("gpu", ("n1",), up=False)]
    )
    assert of(decide(obs, context()), 1).verdict is not Verdict.START


def test_result_does_not_depend_on_input_order() -> None:
    nodes = [node(f"n{i}") for i in range(3)]
    jobs = [job(i, gpus=i % 5 + 1, limit=100 * i) for i in range(1, 20)]
    obs = observation(nodes, jobs)
    turned = replace(obs, jobs=tuple(reversed(obs.jobs)))
    assert decide(obs, context()).plan.decisions == decide(turned, context()).plan.decisions


@pytest.mark.parametrize(("policy", "first"), [("fifo", 1), ("sjf", 2), ("multifactor", 2)])
def test_policies_order(policy: str, first: int) -> None:
    jobs = [
        job(1, gpus=8, limit=500, priority=10, submit=NOW - 300),
        job(2, gpus=8, limit=100, priority=20, submit=NOW - 200),
        job(3, gpus=8, limit=900, priority=30, submit=NOW - 100),
    ]
    step = decide(observation([node("n1")], jobs), context(policy))
    assert step.plan.order[0].job_id == first


@pytest.mark.parametrize(
    "request_",
    [
        Request(nodes_min=3, nodes_max=3, gpus_total=6, required_nodes=("n4",)),
        Request(nodes_min=2, nodes_max=2, gpus_per_task=1, tasks=4, required_nodes=("n4",)),
        Request(nodes_min=2, nodes_max=2, gpus_per_node=2, required_nodes=("n4",)),
    ],
)
def test_named_nodes_are_always_part_of_it(request_: Request) -> None:
    """--nodelist with fewer nodes than the job has, the named one not the best of all."""
    nodes = [node(f"n{i}") for i in range(4)]
    nodes.append(node("n4", used=range(5), cpus_used=5))
    step = decide(observation(nodes, [job(1, request=request_)]), context())
    assert "n4" in started(step)[1]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("a", {"n1", "n3"}), ("a&b", {"n3"}), ("a|c", {"n1", "n3", "n4"}), ("!a", {"n2", "n4"}),
     ("b&!a|c", {"n2", "n4"}), ("z", set())],
)  # fmt: skip
def test_features(expression: str, expected: set[str]) -> None:
    have = {"n1": ("a",), "n2": ("b",), "n3": ("a", "b"), "n4": ("c",)}
    nodes = [node(name, gpus=1, features=names) for name, names in have.items()]
    request_ = Request(gpus_per_node=1, features=expression)
    jobs = [job(i, request=request_) for i in range(1, 5)]
    found = started(decide(observation(nodes, jobs), context()))
    assert {n for names in found.values() for n in names} == expected


@pytest.mark.parametrize(
    ("count", "throttle", "expected"), [(10_000, 0, 128), (5, 0, 5), (10_000, 7, 7)]
)
def test_tasks_of_a_large_array(count: int, throttle: int, expected: int) -> None:
    array = job(1, cpus=1, array_job_id=1, array_tasks="x", array_count=count,
                array_throttle=throttle)  # fmt: skip
    step = decide(observation([node("n1"), node("n2")], [array]), context())
    assert of(step, 1).tasks == expected


@pytest.mark.parametrize(
    ("cpus", "fits"),
    [
        pytest.param((14, 14), False, id="27-cpus-but-only-one-task-of-9-on-each"),
        pytest.param((18, 9), True, id="two-tasks-and-one"),
        pytest.param((28, 8), False, id="both-nodes-must-hold-one"),
    ],
)
def test_tasks_are_never_cut_in_half(cpus: tuple[int, int], fits: bool) -> None:
    nodes = [node(f"n{i}", gpus=0, cpus=c) for i, c in enumerate(cpus)]
    request_ = Request(nodes_min=2, nodes_max=2, tasks=3, cpus=27, cpus_per_task=9)
    assert bool(started(decide(observation(nodes, [job(1, request=request_)]), context()))) is fits


def test_a_job_that_names_a_missing_node_never_starts() -> None:
    request_ = Request(gpus_per_node=1, required_nodes=("gone",))
    step = decide(observation([node("n1")], [job(1, request=request_)]), context())
    assert (of(step, 1).verdict, code(step, 1)) == (Verdict.NEVER, "no_such_node")


def test_a_named_node_may_be_joined_by_others() -> None:
    """``-w n1 --gpus=10`` runs on n1 and a second node."""
    request_ = Request(gpus_total=10, nodes_max=None, required_nodes=("n1",))
    nodes = [node("n1"), node("n2"), node("n3")]
    found = started(decide(observation(nodes, [job(1, request=request_)]), context()))
    assert "n1" in found[1]
    assert len(found[1]) == 2


def test_a_reservation_elsewhere_is_not_why_a_named_node_is_out() -> None:
    window = Reservation("maint", NOW + 10, NOW + 5000, ("n2",))
    request_ = Request(gpus_per_node=1, nodes_max=None, required_nodes=("n1",))
    nodes = [node("n1", states=("DOWN",)), node("n2")]
    obs = observation(nodes, [job(1, request=request_)], reservations=[window])
    assert code(decide(obs, context()), 1) == "nodes_unavailable"


def test_sjf_takes_the_learnt_run_time_where_there_is_one() -> None:
    jobs = [job(1, gpus=8, limit=3600), job(2, gpus=8, limit=7200), job(3, gpus=8, limit=600)]
    learnt = {jobs[1].key: Estimate(60, 300, 900, 300, 9, "user")}
    step = decide(observation([node("a1")], jobs), context("sjf", estimates=learnt))
    assert [k.job_id for k in step.plan.order] == [2, 3, 1]
    assert of(step, 2).terms[0].value == 300


def test_sjf_expects_no_more_than_the_limit() -> None:
    jobs = [job(1, gpus=8, limit=600), job(2, gpus=8, limit=700)]
    learnt = {jobs[0].key: Estimate(800, 800, 800, 800, 9, "user")}
    step = decide(observation([node("a1")], jobs), context("sjf", estimates=learnt))
    assert of(step, 1).terms[0].value == 600


@pytest.mark.parametrize(
    ("waited_s", "first"), [(0, 1), (3000, 1), (60_000, 2)], ids=["new", "waited", "long"]
)
def test_slowdown_lets_short_jobs_pass_but_not_for_ever(waited_s: int, first: int) -> None:
    jobs = [
        job(1, gpus=8, limit=600, submit=NOW - 60),
        job(2, gpus=8, limit=3600, submit=NOW - waited_s),
    ]
    step = decide(observation([node("a1")], jobs), context("slowdown"))
    assert step.plan.order[0].job_id == first


def test_slowdown_takes_the_learnt_run_time() -> None:
    jobs = [job(1, gpus=8, limit=600), job(2, gpus=8, limit=3600)]
    learnt = {jobs[1].key: Estimate(60, 60, 60, 60, 9, "user")}
    step = decide(observation([node("a1")], jobs), context("slowdown", estimates=learnt))
    assert step.plan.order[0].job_id == 2
