"""Placements against brute force on random small clusters, and what holds for any of them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.engine.cycle import decide
from slurm_ext.engine.mix import job_mix
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.pool import Demand, Pool, demand_of
from slurm_ext.engine.search import place
from slurm_ext.engine.taken import taken_by
from slurm_ext.model.decision import Placement, Verdict
from slurm_ext.model.job import Job, NodeShare, Request
from slurm_ext.model.node import Node
from slurm_ext.model.observation import Controller, Observation
from slurm_ext.model.plain import from_plain, to_plain
from slurm_ext.topology.fabric import Fabric, Rates
from slurm_ext.topology.fabric_text import parse_topology
from slurm_ext.topology.presets import PRESETS
from slurm_ext.topology.site import NO_FABRIC, ShapeGroup, SiteTopology
from tests.builders import context, job, node

from .test_decide import clusters

KINDS = ("nvl-4", "pcie-4", "hgx-a100-4")
PREFERENCE = Weighted()
Shares = tuple[NodeShare, ...]


def fabric(rng: random.Random, names: Sequence[str]) -> Fabric:
    """Two or three leaves under one spine."""
    leaves = rng.randint(2, 3)
    lines = [f"SwitchName=l{i} Nodes={','.join(names[i::leaves])}" for i in range(leaves)]
    return parse_topology("\n".join([*lines, f"SwitchName=top Switches=l[0-{leaves - 1}]"]))


def cluster(rng: random.Random) -> Pool:
    """Up to six nodes of 4 GPUs of several kinds, partly in use, with a mix of jobs."""
    names = [f"n{i}" for i in range(rng.randint(3, 6))]
    kinds = {name: rng.choice(KINDS) for name in names}
    types = rng.choice([("a100",), ("a100", "v100")])
    nodes: list[Node] = []
    for name in names:
        used = rng.sample(range(4), rng.choice((0, 0, 1, 2, 3)))
        cpus = rng.choice((8, 16, 32))
        nodes.append(
            node(name, gpus=4, type=rng.choice(types), used=used, cpus=cpus,
                 cpus_used=min(cpus, len(used)), mem=64_000)
        )  # fmt: skip
    groups = tuple(ShapeGroup((name,), PRESETS[kind].shape) for name, kind in kinds.items())
    rates = rng.choice([None, Rates(25.0, (3.0,))])
    waiting = [
        job(i, gpus=rng.choice((1, 2, 4)), cpus=rng.choice((1, 4, 8)), mem=rng.choice((0, 8000)))
        for i in range(6)
    ]
    return Pool(
        nodes, [], Controller((22, 5, 8), "t", {"selecttypeparameters": "CR_CORE_MEMORY"}),
        topology=SiteTopology(groups, fabric(rng, names), rates), mix=job_mix(waiting),
        speeds={"a100": 1.0, "v100": 0.6},
    )  # fmt: skip


def uniform(rng: random.Random, nodes: int) -> Job:
    return job(
        99, gpus=rng.randint(1, 4), nodes=nodes, cpus=nodes * rng.choice((1, 2, 6)),
        mem=rng.choice((0, 4000)), type=rng.choice(("", "", "a100")),
    )  # fmt: skip


def flexible(rng: random.Random) -> Job:
    request = Request(
        nodes_min=1, cpus=1, gpus_total=rng.randint(2, 10), cpus_per_gpu=rng.choice((0, 1, 3))
    )
    return job(99, request=request)


def every_placement(pool: Pool, demand: Demand) -> Iterator[Shares]:
    """All ways to give the demand what it asks, counted out without any search."""
    nodes = range(len(pool.nodes))
    room = [
        (int(pool.typed(pool.free, demand.gpu_type)[i]), int(pool.free.cpus[i]),
         int(pool.free.mem[i])) for i in nodes
    ]  # fmt: skip

    def share(i: int, gpus: int, cpus: int, mem: int) -> NodeShare:
        return NodeShare(pool.nodes[i].name, cpus, mem, gpus, 0, demand.gpu_type)

    if demand.uniform:
        need = (demand.gpus, demand.cpus, demand.mem_mib)
        fits = [i for i in nodes if all(have >= n for have, n in zip(room[i], need, strict=True))]
        for chosen in combinations(fits, demand.nodes_min):
            yield tuple(share(i, *need) for i in chosen)
        return
    counts = [range(min(room[i][0], demand.units) + 1) for i in nodes]
    for given_units in product(*counts):
        if sum(given_units) != demand.units:
            continue
        parts = [
            (i, n * demand.unit_gpus, max(demand.cpus, n * demand.unit_cpus), demand.mem_mib)
            for i, n in enumerate(given_units) if n
        ]  # fmt: skip
        if all(cpus <= room[i][1] and mem <= room[i][2] for i, _, cpus, mem in parts):
            yield tuple(share(*part) for part in parts)


def objective(pool: Pool, demand: Demand, shares: Shares) -> tuple[int, float]:
    """Fewest nodes first (several nodes were asked for or not), then the weighted cost."""
    return len(shares), PREFERENCE.rate(pool, pool.free, demand, taken_by(pool, demand, shares))[0][
        0
    ]


def found_and_best(pool: Pool, demand: Demand) -> tuple[Placement | None, float, float, int]:
    """(our placement, its cost, the least cost of as few nodes, the fewest nodes)."""
    ok = np.ones(len(pool.nodes), dtype=np.bool_)
    ours = place(pool, pool.free, demand, ok, PREFERENCE)
    all_of_them = [objective(pool, demand, shares) for shares in every_placement(pool, demand)]
    if not all_of_them:
        assert not ours
        return None, 0.0, 0.0, 0
    assert ours
    fewest, least = min(all_of_them)
    _, cost = objective(pool, demand, ours[0].shares)
    return ours[0], cost, least, fewest


def test_one_node_is_the_best_there_is() -> None:
    for seed in range(100):
        rng = random.Random(seed)
        _, cost, least, _ = found_and_best(cluster(rng), demand_of(uniform(rng, 1).request))
        assert cost == pytest.approx(least, abs=2e-6), seed


def gaps(seeds: range, kind: str) -> list[float]:
    """What our placements cost more than the best, in GPUs; nodes must be as few."""
    found = []
    for seed in seeds:
        rng = random.Random(seed)
        pool = cluster(rng)
        asked = flexible(rng) if kind == "flexible" else uniform(rng, rng.randint(2, 3))
        placement, cost, least, fewest = found_and_best(pool, demand_of(asked.request))
        if placement is None:
            continue
        assert len(placement.shares) == fewest
        found.append(cost - least)
    return found


@pytest.mark.parametrize(("kind", "optimal", "mean_gap"), [("uniform", 0.95, 0.03),
                                                             ("flexible", 0.85, 0.2)])  # fmt: skip
def test_several_nodes_are_mostly_the_best(kind: str, optimal: float, mean_gap: float) -> None:
    """Nodes are ranked one by one and compared in a few sets only: gaps exist, in GPUs.

    Of 400 seeds: uniform 261 of 269 the best, 0.012 GPUs above it on average, 0.9 at most;
    flexible 329 of 364, 0.12 and 9.0 (Slurm splits the GPUs, not we).
    """
    found = gaps(range(60), kind)
    assert sum(gap < 1e-5 for gap in found) >= optimal * len(found)
    assert sum(found) <= mean_gap * len(found)


@st.composite
def rich(draw: st.DrawFn) -> tuple[Observation, SiteTopology]:
    """A random cluster with links and switches."""
    obs = draw(clusters())
    groups = tuple(
        ShapeGroup((n.name,), PRESETS["nvl-4" if n.gpu_count == 4 else "nvl-8"].shape)
        for n in obs.nodes if n.gpu_count in (4, 8)
    )  # fmt: skip
    names = [n.name for n in obs.nodes]
    tree = fabric(random.Random(draw(st.integers(0, 99))), names) if len(names) > 2 else NO_FABRIC
    rates = draw(st.sampled_from([None, Rates(25.0, (3.0,))]))
    return obs, SiteTopology(groups, tree, rates)


@settings(max_examples=80)
@given(rich())
def test_nothing_is_oversubscribed_with_a_topology(known: tuple[Observation, SiteTopology]) -> None:
    obs, site = known
    step = decide(obs, context(topology=site))
    free = {n.name: [n.cpus - n.cpus_alloc, n.mem_mib, n.gpu_mask & ~n.gpu_used] for n in obs.nodes}
    for decision in step.plan.decisions.values():
        if decision.verdict is not Verdict.START or decision.placement is None:
            continue
        for share in decision.placement.shares:
            have = free[share.node]
            assert share.gpu_mask.bit_count() == share.gpus
            assert share.gpu_mask & ~have[2] == 0
            have[0] -= share.cpus
            have[1] -= share.mem_mib
            have[2] &= ~share.gpu_mask
    assert all(cpus >= 0 and mem >= 0 for cpus, mem, _ in free.values())


@settings(max_examples=80)
@given(rich(), st.randoms(use_true_random=False))
def test_order_of_nodes_and_jobs_does_not_matter(
    known: tuple[Observation, SiteTopology], order: random.Random
) -> None:
    obs, site = known
    nodes, jobs = list(obs.nodes), list(obs.jobs)
    order.shuffle(nodes)
    order.shuffle(jobs)
    ctx = context(topology=site)
    turned = replace(obs, nodes=tuple(nodes), jobs=tuple(jobs))
    assert decide(obs, ctx).plan == decide(turned, ctx).plan


@settings(max_examples=40)
@given(rich())
def test_topology_survives_a_snapshot(known: tuple[Observation, SiteTopology]) -> None:
    obs, site = known
    text = json.dumps(to_plain(site))
    again = from_plain(SiteTopology, json.loads(text))
    first, second = decide(obs, context(topology=site)), decide(obs, context(topology=again))
    assert first.plan == second.plan
