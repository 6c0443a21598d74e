"""Which nodes and GPUs a job gets: published cases, and each cost by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from slurm_ext.engine.cycle import decide
from slurm_ext.engine.explain import sentence
from slurm_ext.engine.mix import TaskClass
from slurm_ext.engine.parts import costs
from slurm_ext.engine.parts.placement import CostPart, Lexicographic, Weighted
from slurm_ext.engine.policy import NodePreference, Policy
from slurm_ext.engine.pool import Pool, demand_of
from slurm_ext.engine.search import place
from slurm_ext.engine.settings import Context
from slurm_ext.engine.taken import would_take
from slurm_ext.errors import PolicyError
from slurm_ext.model.decision import Decision, Verdict
from slurm_ext.model.job import Job, NodeShare, Request
from slurm_ext.model.node import GpuGroup, Node
from slurm_ext.model.observation import Controller
from slurm_ext.model.units import indices_of, mask_of
from slurm_ext.policies import get
from slurm_ext.topology.fabric import Fabric, Rates
from slurm_ext.topology.fabric_text import parse_topology
from slurm_ext.topology.nvsmi import parse_topo
from slurm_ext.topology.presets import PRESETS
from slurm_ext.topology.shape import NodeShape
from slurm_ext.topology.site import NO_FABRIC, ShapeGroup, SiteTopology
from tests.builders import NOW, context, job, node, observation
from tests.unit.topology.common import TWO_ISLANDS, text

TREE = parse_topology(text("topology_tree.conf"))
"""Nodes n0-n3, n4-n7 and n8-n10 on three leaves."""


def planned(nodes: Sequence[Node], jobs: Sequence[Job], **fields: object) -> list[Decision]:
    """Decisions of the waiting jobs in the order given."""
    ctx: Context = context(**fields)
    step = decide(observation(nodes, jobs), ctx)
    return [step.plan.decisions[j.key] for j in jobs if j.state.pending]


def where(decision: Decision) -> tuple[str, ...]:
    assert decision.verdict is Verdict.START
    assert decision.placement is not None
    return decision.placement.nodes


def gpus(decision: Decision) -> tuple[int, ...]:
    assert decision.placement is not None
    return indices_of(decision.placement.shares[0].gpu_mask)


def site(
    shape: NodeShape | None = None,
    nodes: Sequence[str] = (),
    fabric: Fabric = NO_FABRIC,
    rates: Rates | None = None,
) -> SiteTopology:
    groups = (ShapeGroup(tuple(nodes), shape),) if shape else ()
    return SiteTopology(groups, fabric, rates)


def queue(*demands: tuple[int, int, int], submit: int = NOW - 1000) -> list[Job]:
    """(GPUs, CPUs, MiB) each, in this order."""
    return [
        job(i, gpus=g, cpus=c, mem=m, submit=submit + i)
        for i, (g, c, m) in enumerate(demands, start=1)
    ]


class TestCases:
    def test_bridged_pair_goes_first_then_the_pair_of_one_numa_node(self) -> None:
        shape = parse_topo(text("topo_missing_bridge.txt"))
        found = planned(
            [node("n1", gpus=4)], queue((2, 2, 0), (2, 2, 0)), topology=site(shape, ["n1"])
        )
        assert [gpus(d) for d in found] == [(0, 1), (2, 3)]

    def test_whole_island_is_preferred_to_a_broken_one(self) -> None:
        """Free {0,1,4..7} may be picked across islands; free {4..7} cannot."""
        nodes = [node("n1", used=(2, 3), cpus_used=2), node("n2", used=(0, 1, 2, 3), cpus_used=4)]
        running = [job(100, on={"n1": 2}), job(101, on={"n2": 4})]
        (found,) = planned(
            nodes, [*running, *queue((4, 4, 0))], topology=site(TWO_ISLANDS, ["n1", "n2"])
        )
        assert where(found) == ("n2",)
        assert gpus(found) == (4, 5, 6, 7)

    def test_many_cpus_go_where_no_gpu_is_stranded(self) -> None:
        nodes = [node("small", cpus=16), node("large", cpus=32)]
        found = planned(nodes, queue((1, 12, 0), *[(1, 1, 0)] * 15))
        assert where(found[0]) == ("large",)
        assert all(d.verdict is Verdict.START for d in found)

    def test_much_memory_goes_where_no_gpu_is_stranded(self) -> None:
        nodes = [node("small", mem=16_000), node("large", mem=32_000)]
        found = planned(nodes, queue((1, 1, 12_000), *[(1, 1, 1000)] * 15))
        assert where(found[0]) == ("large",)
        assert all(d.verdict is Verdict.START for d in found)

    @pytest.mark.parametrize(
        ("gpus_per_node", "request_", "gpus_by_node"),
        [
            (8, Request(gpus_total=12), [8, 4]),
            (4, Request(gpus_total=12), [4, 4, 4]),
            (8, Request(gpus_per_task=2, tasks=3, cpus=3), [6]),
            (4, Request(gpus_per_task=2, tasks=3, cpus=3), [4, 2]),
        ],
        ids=["12 of 8", "12 of 4", "3 tasks of 8", "3 tasks of 4"],
    )
    def test_gpus_without_a_number_of_nodes_take_as_many_as_needed(
        self, gpus_per_node: int, request_: Request, gpus_by_node: list[int]
    ) -> None:
        """Case A06: Slurm shows one node, a lower bound."""
        nodes = [node(f"n{i}", gpus=gpus_per_node) for i in range(4)]
        (found,) = planned(nodes, [job(1, request=request_)])
        assert found.placement is not None
        assert [s.gpus for s in found.placement.shares] == gpus_by_node

    def test_small_jobs_share_a_node(self) -> None:
        nodes = [node("n1", gpus=4), node("n2", gpus=4)]
        first, second, third = planned(nodes, queue((1, 1, 0), (2, 1, 0), (2, 1, 0)))
        assert where(first) == where(second) != where(third)

    def test_small_jobs_share_a_node_so_that_a_large_one_starts(self) -> None:
        nodes = [node(n, gpus=2, cpus=24, mem=24_000) for n in ("n1", "n2")]
        found = planned(nodes, queue((1, 10, 10_000), (1, 10, 10_000), (1, 20, 20_000)))
        assert all(d.verdict is Verdict.START for d in found)


class TestSeveralNodes:
    rates = Rates(node_gbps=25.0, oversubscription=(4.0,))

    def nodes(self, **used: int) -> list[Node]:
        return [
            node(f"n{i}", used=range(used.get(f"n{i}", 0)), cpus_used=used.get(f"n{i}", 0))
            for i in range(11)
        ]

    def test_one_leaf_is_preferred(self) -> None:
        nodes = [n for n in self.nodes() if n.name in ("n0", "n4", "n5", "n6", "n8")]
        (found,) = planned(nodes, [job(1, gpus=8, nodes=3)], topology=site(fabric=TREE))
        assert where(found) == ("n4", "n5", "n6")

    def test_flexible_job_stays_on_one_leaf_too(self) -> None:
        nodes = [n for n in self.nodes() if n.name in ("n0", "n4", "n5")]
        asked = Request(nodes_min=1, cpus=1, gpus_total=16)
        (found,) = planned(nodes, [job(1, request=asked)], topology=site(fabric=TREE))
        assert where(found) == ("n4", "n5")

    def test_busy_uplink_is_avoided(self) -> None:
        running = job(100, on={"n0": 8, "n4": 8})  # crosses both leaves
        nodes = [
            node(n, used=range(8) if n in ("n0", "n4") else (), cpus_used=0)
            for n in ("n0", "n1", "n4", "n8", "n9")
        ]
        (found,) = planned(
            nodes, [running, job(1, gpus=8, nodes=2)], topology=site(None, (), TREE, self.rates)
        )
        assert where(found) == ("n8", "n9")

    def test_predicted_bandwidth_is_told(self) -> None:
        nodes = [n for n in self.nodes() if n.name in ("n0", "n4")]
        (found,) = planned(
            nodes, [job(1, gpus=8, nodes=2)], topology=site(None, (), TREE, self.rates)
        )
        told = [r for r in found.reasons if r.code == "bandwidth"]
        assert [dict(r.facts)["gbps"] for r in told] == [25.0]
        assert "25.0 GB/s" in sentence(told[0])

    def test_one_type_is_kept_together(self) -> None:
        nodes = [node("a1", type="a100"), node("v1", type="v100"), node("v2", type="v100")]
        speeds = {"a100": 1.0, "v100": 0.9}
        (found,) = planned(nodes, [job(1, gpus=8, nodes=2)], gpu_speeds=speeds)
        assert where(found) == ("v1", "v2")


class TestTypes:
    nodes = (node("a1", type="a100"), node("v1", type="v100"))

    @pytest.mark.parametrize("fast", ["a100", "v100"])
    def test_untyped_job_takes_the_fastest(self, fast: str) -> None:
        speeds = {"a100": 0.5, "v100": 0.5, fast: 1.0}
        (found,) = planned(self.nodes, queue((4, 4, 0)), gpu_speeds=speeds)
        assert where(found) == (f"{fast[0]}1",)

    def test_untyped_job_leaves_the_type_others_ask_for(self) -> None:
        typed = [job(i, gpus=8, type="a100", submit=NOW - 10) for i in (2, 3, 4)]
        found = planned(self.nodes, [*queue((8, 8, 0)), *typed])
        assert where(found[0]) == ("v1",)
        assert where(found[1]) == ("a1",)

    def test_slices_count_as_a_part_of_a_card(self) -> None:
        nodes = [node("m1", types={"1g.5gb": 7}), node("w1", type="a100", gpus=7)]
        (found,) = planned(nodes, queue((1, 1, 0)))
        assert where(found) == ("w1",)

    def test_slices_are_a_type_of_their_own(self) -> None:
        nodes = [node("m1", types={"1g.5gb": 7, "a100": 1})]
        jobs = [job(1, gpus=2, type="a100"), job(2, gpus=7, type="1g.5gb")]
        first, second = planned(nodes, jobs)
        assert first.verdict is Verdict.NEVER
        assert gpus(second) == tuple(range(7))

    def test_gpu_with_shards_in_use_is_not_free(self) -> None:
        shared = replace(node("n1", gpus=2), gpu_shared=0b01)
        first, second = planned([shared], queue((1, 1, 0), (1, 1, 0)))
        assert gpus(first) == (1,)
        assert second.verdict is Verdict.WAIT


class TestPick:
    def bound(self, **fields: object) -> Node:
        plain = replace(node("n1", cpus=16), sockets=2, cores_per_socket=8)
        return replace(plain, **fields)  # type: ignore[arg-type]

    def test_socket_with_more_free_cores_gives_the_gpus(self) -> None:
        held = job(100, on={"n1": 1}, cpus=4)
        share = replace(held.alloc[0], gpu_mask=1, cpu_ids=((0, 3),))
        held = replace(held, alloc=(share,))
        one = self.bound(gpu_used=1, gpu_used_count=1, cpus_alloc=4)
        (found,) = planned([one], [held, *queue((2, 2, 0))], topology=site(TWO_ISLANDS, ["n1"]))
        assert gpus(found) == (4, 5)

    def test_cores_given_in_this_cycle_count(self) -> None:
        found = planned(
            [self.bound()], queue((2, 6, 0), (2, 6, 0)), topology=site(TWO_ISLANDS, ["n1"])
        )
        assert [gpus(d) for d in found] == [(0, 1), (4, 5)]


def pool(nodes: Sequence[Node], *mix: TaskClass, jobs: Sequence[Job] = ()) -> Pool:
    config = {"selecttypeparameters": "CR_CORE_MEMORY"}
    return Pool(nodes, jobs, Controller((22, 5, 8), "t", config), mix=mix)


def cost(part: CostPart, here: Pool, asked: Job) -> list[float]:
    taken = would_take(here, here.free, demand_of(asked.request), np.arange(len(here.nodes)))
    return [round(float(x), 6) for x in part.cost(here, here.free, taken)]


class TestCosts:
    def test_fragmentation_counts_gpus_a_class_cannot_use(self) -> None:
        nodes = [node("n1", gpus=4), node("n2", gpus=8)]
        mix = (TaskClass(4, 1, 0, "", 0.5), TaskClass(1, 1, 0, "", 0.5))
        assert cost(costs.Fragmentation(), pool(nodes, *mix), job(1, gpus=1)) == [1.5, 0.0]

    def test_fragmentation_falls_where_nobody_could_use_the_gpus(self) -> None:
        nodes = [node("n1", gpus=4, cpus=4), node("n2", gpus=4, cpus=8)]
        mix = (TaskClass(2, 8, 0, "", 1.0),)
        assert cost(costs.Fragmentation(), pool(nodes, *mix), job(1, gpus=1)) == [-1.0, 3.0]

    def test_stranding_counts_gpus_without_cpus(self) -> None:
        nodes = [node("n1", cpus=16), node("n2", cpus=32)]
        found = cost(
            costs.Stranding(), pool(nodes, TaskClass(1, 1, 0, "", 1.0)), job(1, gpus=1, cpus=12)
        )
        assert found == [3.0, 0.0]

    def test_whole_node_is_broken(self) -> None:
        nodes = [node("n1"), node("n2", used=(0,))]
        assert cost(costs.WholeNodes(), pool(nodes), job(1, gpus=3)) == [5.0, 0.0]

    def test_nothing_is_known_of_links(self) -> None:
        assert cost(costs.Links(), pool([node("n1")]), job(1, gpus=4)) == [0.0]


class TestComposites:
    nodes = (node("small", gpus=4, cpus=8), node("large", gpus=8, cpus=64))
    asked = job(1, gpus=3, cpus=8)

    def best(self, preference: NodePreference) -> tuple[str, ...]:
        here = pool(self.nodes, TaskClass(1, 1, 0, "", 1.0))
        ok = np.ones(2, dtype=np.bool_)
        return place(here, here.free, demand_of(self.asked.request), ok, preference)[0].nodes

    def test_weights_decide(self) -> None:
        """``small`` strands one GPU, ``large`` loses a whole node."""
        assert self.best(Weighted((costs.Stranding(2.0), costs.WholeNodes(0.1)))) == ("large",)
        assert self.best(Weighted((costs.Stranding(0.1), costs.WholeNodes(2.0)))) == ("small",)

    def test_the_first_part_decides(self) -> None:
        assert self.best(Lexicographic((costs.Stranding(), costs.WholeNodes()))) == ("large",)
        assert self.best(Lexicographic((costs.WholeNodes(), costs.Stranding()))) == ("small",)


def test_jobs_on_an_uplink_are_counted_and_given_back() -> None:
    view = site(None, (), TREE)
    here = Pool(
        [node(n) for n in ("n0", "n4", "n1")], [job(100, on={"n0": 1, "n4": 1})],
        Controller((22, 5, 8), "t", {}), topology=view,
    )  # fmt: skip
    both = {"n0": 1, "n4": 1, "leaf0": 1, "leaf1": 1}
    assert here.slots.crossing == both
    mark = here.checkpoint()
    here.take([NodeShare("n0", 1, 0), NodeShare("n1", 1, 0)])
    assert here.slots.crossing == {**both, "n0": 2, "n1": 1}
    here.rollback(mark)
    assert here.slots.crossing == both


def test_hidden_gpu_mask_is_not_trusted() -> None:
    """Slurm shows five GPUs in use but no index: links cannot be judged."""
    hidden = Node(
        "n1", frozenset({"IDLE"}), 64, 0, 10_000, 0, (GpuGroup("a100", mask_of(range(8))),),
        gpu_used=0, gpu_used_count=5,
    )  # fmt: skip
    (found,) = planned([hidden], queue((2, 2, 0)), topology=site(PRESETS["pcie-8"].shape, ["n1"]))
    assert found.verdict is Verdict.START


class TestParameters:
    policy = get("fifo")

    def part(self, policy: Policy, name: str) -> CostPart:
        assert isinstance(policy.placement, Weighted)
        return next(p for p in policy.placement.parts if p.name == name)

    def test_every_weight_has_a_path(self) -> None:
        names = self.policy.parameters()
        assert names["placement.links.weight"] == 1.0
        assert names["placement.ties.cpus_per_gpu"] == 1

    def test_weight_is_replaced(self) -> None:
        changed = self.policy.with_parameters({"placement.links.weight": 3, "cpus_per_gpu": 2})
        assert self.part(changed, "links").weight == 3.0
        assert self.part(changed, "spread") == self.part(self.policy, "spread")
        assert changed.parameters()["placement.ties.cpus_per_gpu"] == 2

    def test_all_parameters_can_be_given_back(self) -> None:
        assert self.policy.with_parameters(self.policy.parameters()) == self.policy

    @pytest.mark.parametrize(
        ("key", "value", "told"),
        [("weight", 1.0, "ambiguous"), ("placement.lnks.weight", 1.0, "unknown"),
         ("placement.links.weight", "much", "expected float")],
    )  # fmt: skip
    def test_wrong_parameters_are_told(self, key: str, value: object, told: str) -> None:
        with pytest.raises(PolicyError, match=told):
            self.policy.with_parameters({key: value})
