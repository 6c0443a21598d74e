"""JSON in the shapes of v0.0.38 to v0.0.45, and in shapes nobody has seen yet."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_ext.slurm import scalars
from slurm_ext.slurm.json import parse_jobs, reports
from slurm_ext.slurm.json_nodes import parse_nodes, parse_partitions, parse_reservations
from slurm_ext.slurm.times import Special


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (5, 5),
        ({"set": True, "infinite": False, "number": 5}, 5),
        ({"set": False, "infinite": False, "number": 0}, Special.UNSET),
        ({"set": False, "infinite": True, "number": 0}, Special.UNLIMITED),
        ({"set": True, "infinite": False, "number": "Infinity"}, Special.UNLIMITED),
        pytest.param("Infinity", Special.UNLIMITED, id="P57"),
        (4294967294, Special.UNSET),
        (None, Special.UNSET),
        ({}, Special.UNSET),
        ([], Special.UNSET),
        ("7", 7),
        (7.0, 7),
        (float("inf"), Special.UNLIMITED),
        (True, 1),
    ],
)
def test_numbers(value: object, number: int | Special) -> None:
    assert scalars.number(value) == number


RUNNING = {
    "job_id": 7,
    "job_state": "RUNNING",
    "submit_time": 1,
    "nodes": "n[1-2]",
    "cpus": 8,
    "tres_alloc_str": "cpu=8,mem=4000M,node=2,gres/gpu=2",
    "gres_detail": ["gpu:a100:1(IDX:4)", "gpu:a100:1(IDX:0)"],
}
OLD = {
    "nodes": "n[1-2]",
    "allocated_nodes": [
        {"nodename": "n1", "memory_allocated": 2000,
         "sockets": {"1": {"cores": {str(i): "allocated" for i in range(4)}}}},
        {"nodename": "n2", "memory_allocated": 2000,
         "sockets": {"0": {"cores": {str(i): "allocated" for i in range(4)}}}},
    ],
}  # fmt: skip


def allocation(with_counts: bool) -> dict[str, Any]:
    def node(index: int, name: str) -> dict[str, Any]:
        cores = [
            {"index": i, "status": ["ALLOCATED" if i < 4 else "UNALLOCATED"]} for i in range(32)
        ]
        shown: dict[str, Any] = {
            "index": index,
            "name": name,
            "sockets": [{"index": 0, "cores": cores}],
        }
        shown["memory"] = {"used": 0, "allocated": 2000}
        if with_counts:
            shown["cpus"] = {"count": 4, "used": 0}
        return shown

    nodes = {"count": 2, "list": "n[1-2]", "allocation": [node(0, "n1"), node(1, "n2")]}
    return {"cpus": 8, "nodes": nodes}


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param(OLD, id="A11-allocated_nodes"),
        pytest.param(allocation(True), id="A11-allocation"),
        pytest.param(allocation(False), id="A11-unallocated-cores-do-not-count"),
    ],
)
@pytest.mark.parametrize("state", ["RUNNING", ["RUNNING"], ["COMPLETED", "COMPLETING"]])
def test_a11_job_resources(resources: dict[str, Any], state: object) -> None:
    record = {**RUNNING, "job_state": state, "job_resources": resources}
    (job,), problems = parse_jobs({"jobs": [record]}, 0)
    assert problems == []
    assert [(s.node, s.cpus, s.mem_mib, s.gpus, s.gpu_mask) for s in job.alloc] == [
        ("n1", 4, 2000, 1, 0b10000),
        ("n2", 4, 2000, 1, 0b1),
    ]


@pytest.mark.parametrize("resources", [None, [], "", {}, {"nodes": None}, {"nodes": {"list": 5}}])
def test_resources_in_an_unknown_shape_give_counts(resources: object) -> None:
    (job,), problems = parse_jobs({"jobs": [{**RUNNING, "job_resources": resources}]}, 0)
    assert len(problems) == 1
    assert [(s.node, s.cpus, s.gpus, s.gpu_mask) for s in job.alloc] == [
        ("n1", 4, 1, 0),
        ("n2", 4, 1, 0),
    ]


def test_p55_entries_without_gres_may_be_null() -> None:
    record = {**RUNNING, "gres_detail": [None, "gpu:a100:2(IDX:0-1)"], "job_resources": OLD}
    (job,), problems = parse_jobs({"jobs": [record]}, 0)
    assert problems == []
    assert [share.gpus for share in job.alloc] == [0, 2]


@pytest.mark.parametrize(
    ("record", "task", "tasks"),
    [
        ({"array_job_id": 5, "array_task_id": 0}, 0, ""),
        ({"array_job_id": 0, "array_task_id": None}, None, ""),
        (
            {
                "array_job_id": {"set": True, "number": 5},
                "array_task_id": {"set": False, "number": 0},
                "array_task_string": "2-5%2",
            },
            None,
            "2-5%2",
        ),
        (
            {
                "array_job_id": {"set": True, "number": 0},
                "array_task_id": {"set": True, "number": 0},
            },
            None,
            "",
        ),
    ],
)
def test_array_ids(record: dict[str, Any], task: int | None, tasks: str) -> None:
    (job,), _ = parse_jobs({"jobs": [{"job_id": 9, "job_state": ["PENDING"], **record}]}, 0)
    assert (job.array_task_id, job.array_tasks) == (task, tasks)


def test_time_limits() -> None:
    values = [60, None, {"set": False, "infinite": True, "number": 0}, {"set": True, "number": 60}]
    jobs, _ = parse_jobs(
        {"jobs": [{"job_id": i + 1, "time_limit": v} for i, v in enumerate(values)]}, 0
    )
    assert [job.limit_s for job in jobs] == [3600, None, None, 3600]


def test_reason_and_sentence() -> None:
    shown = {
        "job_id": 1,
        "state_reason": "ReqNodeNotAvail",
        "state_description": "ReqNodeNotAvail, UnavailableNodes:",
    }
    (job, none), _ = parse_jobs({"jobs": [shown, {"job_id": 2, "state_reason": "None"}]}, 0)
    assert (job.reason, job.reason_text) == (
        "ReqNodeNotAvail",
        "ReqNodeNotAvail, UnavailableNodes:",
    )
    assert (none.reason, none.reason_text) == ("", "")


def test_begin_only_while_it_is_ahead() -> None:
    record = {"job_id": 1, "job_state": ["PENDING"], "eligible_time": 100}
    assert parse_jobs({"jobs": [record]}, 99)[0][0].begin_s == 100
    assert parse_jobs({"jobs": [record]}, 100)[0][0].begin_s is None


def test_cron() -> None:
    records = [
        {"job_id": 1, "flags": ["CRON_JOB"]},
        {"job_id": 2, "cron": "5 0 * * *"},
        {"job_id": 3},
    ]
    assert [job.cron for job in parse_jobs({"jobs": records}, 0)[0]] == [True, True, False]


def test_a01_node() -> None:
    node = {"name": "x", "gres": "gpu:4(S:0-1)", "gres_used": "gpu:(null):4(IDX:0-3)"}
    (found,), problems = parse_nodes({"nodes": [node, node]})
    assert problems == []
    assert (found.gpus[0].type, found.gpu_count, found.gpu_used_count) == ("", 4, 4)
    assert (found.gpu_used, found.gpus[0].sockets) == (0b1111, (0, 1))


def test_p56_errors_in_an_answer() -> None:
    answer = {
        "errors": [{"description": "down", "error_number": 1}],
        "warnings": [{"odd": 1}],
        "jobs": [],
    }
    assert reports(answer) == (["down"], ["{'odd': 1}"])
    assert reports(None) == ([], [])


@pytest.mark.parametrize(
    "document", [None, [], {}, {"jobs": None}, {"jobs": [None, 1, "x"]}, "x", 3]
)
def test_documents_without_records(document: object) -> None:
    assert parse_jobs(document, 0) == ([], [])
    assert parse_nodes(document) == ([], [])
    assert parse_partitions(document) == ([], [])
    assert parse_reservations(document, 0) == ([], [])


def test_a_record_without_identity_is_a_problem() -> None:
    assert len(parse_jobs({"jobs": [{"job_state": "RUNNING"}]}, 0)[1]) == 1
    assert len(parse_nodes({"nodes": [{"gres": "gpu:1"}]})[1]) == 1


@pytest.mark.parametrize(("size", "unplannable"), [(0, ()), (12, ("segment",))])
def test_segments_are_left_to_slurm(size: int, unplannable: tuple[str, ...]) -> None:
    record = {"job_id": 9, "job_state": ["PENDING"], "segment_size": size}
    (job,), _ = parse_jobs({"jobs": [record]}, 0)
    assert job.request.unplannable == unplannable
