"""Nodes of a simulated cluster, and that nothing is handed out twice."""

from __future__ import annotations

import pytest

from slurm_ext.model.job import NodeShare
from slurm_ext.sim.cluster import Cluster, ClusterSpec
from slurm_ext.sim.errors import SimulationError, TraceError


def share(gpus: int, mask: int = 0, *, cpus: int = 1, node: str = "n1") -> NodeShare:
    return NodeShare(node, cpus, 0, gpus, mask)


@pytest.mark.parametrize(
    ("text", "nodes", "gpus"),
    [("4x8", 4, 32), ("2x8:a100,3x4:v100", 5, 28), ("pool:256", 1, 256), ("3x0", 3, 0)],
)
def test_parse(text: str, nodes: int, gpus: int) -> None:
    spec = ClusterSpec.parse(text)
    assert (len(Cluster(spec).names), spec.gpus) == (nodes, gpus)


@pytest.mark.parametrize("text", ["", "4", "x8", "0x8", "4x8:", "pool:0", "4x8;2x8", "-1x8"])
def test_parse_refuses(text: str) -> None:
    with pytest.raises(TraceError, match="NODESxGPUS"):
        ClusterSpec.parse(text)


def test_names_are_unique_over_groups() -> None:
    names = Cluster(ClusterSpec.parse("2x8:a,2x4:b")).names
    assert len(set(names)) == 4


def test_gives_the_lowest_free_gpus() -> None:
    cluster = Cluster(ClusterSpec.uniform(1))
    cluster.take([share(2)])
    assert cluster.take([share(3)])[0].gpu_mask == 0b11100


@pytest.mark.parametrize(
    "second",
    [share(1, 0b1), share(8), share(1, 1 << 9), share(1, 0b110), share(1, cpus=64)],
    ids=["taken", "too many", "no such", "mask of another size", "no CPUs"],
)
def test_refuses_what_is_not_free(second: NodeShare) -> None:
    cluster = Cluster(ClusterSpec.uniform(1))
    cluster.take([share(1, 0b1)])
    with pytest.raises(SimulationError):
        cluster.take([second])


def test_refuses_what_was_not_held() -> None:
    with pytest.raises(SimulationError, match="were free"):
        Cluster(ClusterSpec.uniform(1)).give([share(1, 0b1)])


def test_records_follow_what_is_held() -> None:
    cluster = Cluster(ClusterSpec.uniform(2))
    held = cluster.take([share(2, cpus=5)])
    node = cluster.records()[0]
    assert (node.gpu_used, node.cpus_alloc, node.states) == (0b11, 5, {"MIXED"})
    cluster.give(held)
    node = cluster.records()[0]
    assert (node.gpu_used, node.cpus_alloc, node.states) == (0, 0, {"IDLE"})
