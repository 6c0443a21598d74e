"""Which nodes the simulated Slurm picks."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_ext.engine.pool import demand_of
from slurm_ext.model.job import NodeShare, Request
from slurm_ext.sim.cluster import Cluster, ClusterSpec
from slurm_ext.sim.fit import pick


def picked(
    request: Request,
    *,
    used: dict[str, int] | None = None,
    required: tuple[int, ...] = (),
    spec: str = "3x8:a,1x4:b",
) -> dict[str, int] | None:
    cluster = Cluster(ClusterSpec.parse(spec))
    for node, gpus in (used or {}).items():
        cluster.take([NodeShare(node, 1, 0, gpus)])
    allowed = np.ones(len(cluster.names), dtype=np.bool_)
    shares = pick(cluster, cluster.free, demand_of(request), allowed, required)
    if shares is None:
        return None
    cluster.take(shares)  # what is picked must be free
    return {s.node: s.gpus for s in shares}


CASES: list[tuple[str, Request, dict[str, int], tuple[int, ...], dict[str, int] | None]] = [
    ("first", Request(gpus_per_node=2), {}, (), {"n1": 2}),
    ("first with room", Request(gpus_per_node=4), {"n1": 5}, (), {"n2": 4}),
    ("two nodes", Request(nodes_min=2, nodes_max=2, gpus_per_node=8), {"n2": 1}, (),
     {"n1": 8, "n3": 8}),
    ("not enough nodes", Request(nodes_min=4, nodes_max=4, gpus_per_node=8), {}, (), None),
    ("a lone node rather than one of two", Request(gpus_per_node=2), {"n3": 8}, (), {"nb4": 2}),
    ("two neighbours rather than the first two", Request(nodes_min=2, nodes_max=2, gpus_per_node=1),
     {"n2": 8}, (), {"n3": 1, "nb4": 1}),
    ("the larger group first", Request(nodes_min=3, nodes_max=3, gpus_per_node=1), {"n2": 8}, (),
     {"n1": 1, "n3": 1, "nb4": 1}),
    ("type", Request(gpus_per_node=2, gpu_type="b"), {}, (), {"nb4": 2}),
    ("no such type", Request(gpus_per_node=2, gpu_type="c"), {}, (), None),
    ("pinned", Request(gpus_per_node=2), {}, (2,), {"n3": 2}),
    ("pinned, but full", Request(gpus_per_node=2), {"n3": 7}, (2,), None),
    ("pinned and more", Request(nodes_min=2, nodes_max=2, gpus_per_node=1), {}, (2,),
     {"n3": 1, "nb4": 1}),
    ("any nodes", Request(gpus_total=12), {}, (), {"n1": 8, "n2": 4}),
    ("any nodes, emptiest first", Request(gpus_total=12), {"n1": 6}, (), {"n2": 8, "n3": 4}),
    ("at most two nodes", Request(nodes_max=2, gpus_total=18), {}, (), None),
    ("a unit on each node", Request(nodes_min=3, nodes_max=3, gpus_total=9), {}, (),
     {"n1": 7, "n2": 1, "n3": 1}),
    ("exclusive", Request(gpus_per_node=1, exclusive=True), {"n1": 1}, (), {"n2": 1}),
    ("memory", Request(gpus_per_node=1, mem_per_node_mib=600_000), {}, (), None),
    ("CPUs", Request(gpus_per_node=1, cpus=65), {}, (), None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "used", "required", "expected"),
    [c[1:] for c in CASES],
    ids=[c[0] for c in CASES],
)
def test_pick(
    request_: Request,
    used: dict[str, int],
    required: tuple[int, ...],
    expected: dict[str, int] | None,
) -> None:
    assert picked(request_, used=used, required=required) == expected


def test_of_neighbours_the_one_with_fewest_cpus_is_taken() -> None:
    cluster = Cluster(ClusterSpec.parse("3x8"))
    for node, cpus in (("n1", 8), ("n2", 40), ("n3", 8)):
        cluster.take([NodeShare(node, cpus, 0, 1)])
    demand = demand_of(Request(gpus_per_node=1))
    shares = pick(cluster, cluster.free, demand, np.ones(3, dtype=np.bool_))
    assert shares is not None
    assert [share.node for share in shares] == ["n2"]
