"""What Slurm 22.05 showed for each way to ask (recorded), and the request it stands for."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_ext.slurm.request import RawRequest, build_request


def built(**raw: Any) -> Any:
    request, unreadable = build_request(RawRequest(**raw))
    assert unreadable == ()
    return request


@pytest.mark.parametrize(
    ("raw", "gpus", "unplannable"),
    [
        pytest.param({"tres_per_job": "gres:gpu:12"}, 12, (), id="A06-gpus"),
        pytest.param(
            {"tres_per_task": "gres:gpu:2", "tasks": 3, "cpus": 3}, 6, (), id="A06-gpus-per-task"
        ),
        ({"tres_per_node": "gres:gpu:a100:2", "nodes_min": 2, "nodes_max": 2}, 4, ()),
        ({"tres_per_node": "gres:gpu"}, 1, ()),
        ({"tres_per_node": "gres:shard:2"}, 0, ("shard",)),
        ({"tres_per_node": "gres:gpu:1,gres:mps:10"}, 1, ("mps",)),
        ({"tres_per_job": "gres:gpu:2", "tres_per_socket": "gres:gpu:1"}, 2, ("gpus_per_socket",)),
        ({"tres_per_node": "gres:gpu:a100:1,gres:gpu:v100:1"}, 2, ("gpu_types",)),
        ({"tres_per_task": "cpu=8"}, 0, ()),
        ({"contiguous": True}, 0, ("contiguous",)),
        ({"switches": 1}, 0, ("switches",)),
        ({"core_spec": True}, 0, ("core_spec",)),
        ({"tasks_per_gpu": 2, "tres_per_job": "gres:gpu:4"}, 4, ("tasks_per_gpu",)),
        ({"sockets_per_node": 2}, 0, ("sockets_per_node",)),
        ({"segment": 12}, 0, ("segment",)),
        ({"exclusive": "USER"}, 0, ("exclusive_user",)),
        ({"exclusive": "NODE"}, 0, ()),
        ({"features": "a&b"}, 0, ()),
        ({"features": "a|b"}, 0, ("features_expression",)),
        ({"seen": False}, 0, ("details_not_read",)),
    ],
)
def test_gpus_and_what_cannot_be_planned(
    raw: dict[str, Any], gpus: int, unplannable: tuple[str, ...]
) -> None:
    request = built(**raw)
    assert request.gpus == gpus
    assert request.unplannable == unplannable


def test_total_and_per_node_need_several_nodes() -> None:
    request = built(tres_per_job="gres:gpu:4", tres_per_node="gres:gpu:2")
    assert (request.nodes_min, request.gpus) == (2, 4)


def test_required_nodes_raise_the_minimum() -> None:
    assert built(required="n[1-3]").nodes_min == 3
    assert built(required="n[1-3]", nodes_max=1).nodes_min == 1


@pytest.mark.parametrize(
    ("raw", "nodes"),
    [
        pytest.param({"nodes_min": 2, "tasks": 1}, 1, id="held-without-nodes"),
        pytest.param({"nodes_min": 2, "tasks": 4, "cpus": 16}, 2, id="by-cpus"),
        pytest.param({"nodes_min": 2, "nodes_max": 2, "tasks": 2}, 2, id="nodes-2"),
        pytest.param({"nodes_min": 2, "nodes_max": 4, "tasks": 1}, 2, id="nodes-2-4"),
        pytest.param({"nodes_min": 2, "tasks": 0}, 2, id="tasks-not-shown"),
        pytest.param(
            {"nodes_min": 2, "tasks": 1, "tres_per_job": "gpu:4", "tres_per_node": "gpu:2"}, 2,
            id="gpus-over-two",
        ),
        pytest.param({"nodes_min": 2, "tasks": 1, "required": "n[1-2]"}, 2, id="nodelist"),
    ],
)  # fmt: skip
def test_there_are_no_more_nodes_than_tasks_unless_asked_for(
    raw: dict[str, Any], nodes: int
) -> None:
    assert built(**raw).nodes_min == nodes


@pytest.mark.parametrize(
    ("raw", "memory"),
    [
        ({"mem_node_mib": 100}, (100, 0, 0, False)),
        ({"mem_cpu_mib": 100}, (0, 100, 0, False)),
        ({"mem_node_mib": 0}, (0, 0, 0, True)),
        pytest.param(
            {"mem_per_tres": "gres:gpu:300", "mem_cpu_mib": 7812}, (0, 0, 300, False),
            id="per-gpu-beats-default",
        ),
        ({"mem_per_tres": "gres/gpu:100", "mem_node_mib": 0}, (0, 0, 100, False)),
        ({}, (0, 0, 0, False)),
    ],
)  # fmt: skip
def test_memory(raw: dict[str, Any], memory: tuple[int, int, int, bool]) -> None:
    request = built(**raw)
    assert (
        request.mem_per_node_mib,
        request.mem_per_cpu_mib,
        request.mem_per_gpu_mib,
        request.mem_whole_node,
    ) == memory


def test_cpus_per_gpu() -> None:
    assert built(cpus_per_tres="gres:gpu:3").cpus_per_gpu == 3


def test_unreadable_lists_are_reported_and_left_to_slurm() -> None:
    request, unreadable = build_request(RawRequest(required="n[", tres_per_node=":x"))
    assert unreadable == (":x", "n[")
    assert "unreadable" in request.unplannable
