"""The profile and the search on it against counting second by second."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.engine.earliest import moments
from slurm_ext.engine.pool import Demand, Pool
from slurm_ext.engine.profile import Profile, Token
from slurm_ext.engine.steps import Release
from slurm_ext.model.job import NodeShare
from slurm_ext.model.observation import Controller
from tests.builders import NOW, job, node

HORIZON = 24
TYPES = ("a100", "v100")


@dataclass(frozen=True)
class World:
    """A pool, what runs in it, and reservations as (start, end, shares)."""

    pool: Pool
    releases: list[Release]
    holds: list[tuple[int, int, tuple[NodeShare, ...]]]

    def profile(self) -> tuple[Profile, list[Token]]:
        profile = Profile(self.pool, NOW, self.releases)
        return profile, [profile.add(s, e, shares) for s, e, shares in self.holds]

    def free(self, at_s: int, held: range) -> list[dict[str, int]]:
        """Counts per node at one second, the slow way."""
        found = [
            {**{t: int(self.pool.free.gpus[r, i]) for r, t in enumerate(self.pool.types)},
             "cpus": int(self.pool.free.cpus[i]), "mem": int(self.pool.free.mem[i]),
             "jobs": int(self.pool.free.jobs[i])}
            for i in range(len(self.pool.nodes))
        ]  # fmt: skip
        changes = [(r.shares, +1) for r in self.releases if r.end_s <= at_s]
        changes += [
            (shares, -1)
            for number, (s, e, shares) in enumerate(self.holds)
            if number in held and max(s, NOW) <= at_s < e
        ]
        for shares, sign in changes:
            for share in shares:
                here = found[self.pool.index[share.node]]
                here[share.gpu_type or "a100"] += sign * share.gpus
                here["cpus"] += sign * share.cpus
                here["mem"] += sign * share.mem_mib
                here["jobs"] -= sign
        return found


@st.composite
def worlds(draw: st.DrawFn) -> World:
    nodes, running, releases = [], [], []
    for i in range(draw(st.integers(1, 4))):
        name = f"n{i}"
        busy = [draw(st.integers(0, 2)) for _ in range(draw(st.integers(0, 3)))]
        nodes.append(
            node(name, types={"a100": 6, "v100": 2}, cpus=16, mem=1000, cpus_used=len(busy),
                 used=range(sum(busy)), mem_used=100 * len(busy))
        )  # fmt: skip
        for number, count in enumerate(busy):
            one = job(100 * i + number, on={name: count}, cpus=1, mem=100, type="a100")
            running.append(one)
            releases.append(Release(NOW + draw(st.integers(1, HORIZON)), one.alloc))
    pool = Pool(nodes, running, Controller((22, 5, 8), "test"))
    holds = []
    for _ in range(draw(st.integers(0, 5))):
        start = NOW + draw(st.integers(-2, HORIZON))
        where = draw(st.sets(st.sampled_from([n.name for n in nodes]), min_size=1))
        kind = draw(st.sampled_from(TYPES))
        shares = tuple(NodeShare(n, 1, 50, draw(st.integers(0, 1)), 0, kind) for n in sorted(where))
        holds.append((start, start + draw(st.integers(1, HORIZON)), shares))
    return World(pool, releases, holds)


def shown(profile: Profile, i: int, at_s: int) -> list[int]:
    """GPUs by type, CPUs, memory, jobs of one node at one second."""
    step = int((profile.steps[i] <= at_s).sum()) - 1
    values = profile.values[:, i, step].tolist()
    return [*values[:-1], -values[-1]]


@settings(max_examples=60)
@given(worlds(), st.data())
def test_every_second_is_as_counted(world: World, data: st.DataObject) -> None:
    profile, tokens = world.profile()
    gone = data.draw(st.integers(0, len(tokens)))
    for token in tokens[:gone]:
        profile.remove(token)
    held = range(gone, len(tokens))
    for at_s in range(NOW, NOW + 2 * HORIZON + 2):
        for i, counted in enumerate(world.free(at_s, held)):
            assert shown(profile, i, at_s) == list(counted.values())


@settings(max_examples=60)
@given(worlds(), st.lists(st.integers(1, 2 * HORIZON), min_size=1, max_size=4), st.data())
def test_a_window_is_the_least_of_its_seconds(
    world: World, lengths: list[int], data: st.DataObject
) -> None:
    """Asked before, between and after changes: what is remembered must follow them."""
    profile = Profile(world.pool, NOW, world.releases)
    tokens = []
    for number, (start, end, shares) in enumerate(world.holds):
        profile.window(NOW + data.draw(st.sampled_from(lengths)))
        tokens.append(profile.add(start, end, shares))
        if data.draw(st.booleans()):
            profile.remove(tokens[number])
            profile.again(tokens[number])
    for length in lengths:
        free = profile.window(NOW + length)
        seconds = [world.free(NOW + t, range(len(tokens))) for t in range(length)]
        for i in range(len(world.pool.nodes)):
            least = [min(s[i][k] for s in seconds) for k in ("a100", "v100", "cpus", "mem")]
            found = [*free.gpus[:, i].tolist(), int(free.cpus[i]), int(free.mem[i])]
            assert found == [max(0, n) for n in least]
            assert int(free.jobs[i]) == max(s[i]["jobs"] for s in seconds)


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    kind = draw(st.sampled_from(["", *TYPES]))
    if draw(st.booleans()):
        nodes = draw(st.integers(1, 3))
        return Demand(kind, nodes, nodes, draw(st.integers(1, 16)), draw(st.sampled_from([0, 850])),
                      draw(st.integers(0, 7)), exclusive=draw(st.booleans()))  # fmt: skip
    return Demand(
        kind, 1, 0, 1, 0, 0, uniform=False, units=draw(st.integers(1, 12)),
        unit_gpus=draw(st.integers(0, 2)), unit_cpus=draw(st.integers(1, 5)),
    )  # fmt: skip


def fits(world: World, demand: Demand, at_s: int, duration_s: int) -> bool:
    """Counted: whether the demand could run from ``at_s`` on for its whole duration."""
    seconds = [world.free(at_s + t, range(len(world.holds))) for t in range(duration_s)]
    units = []
    for i in range(len(world.pool.nodes)):
        here = [s[i] for s in seconds]
        gpus = min(h[demand.gpu_type] if demand.gpu_type else h["a100"] + h["v100"] for h in here)
        cpus, mem = min(h["cpus"] for h in here), min(h["mem"] for h in here)
        if cpus < demand.cpus or mem < demand.mem_mib:
            continue
        if demand.exclusive and any(h["jobs"] > 0 for h in here):
            continue
        if demand.uniform:
            units.append(int(gpus >= demand.gpus))
            continue
        have = [demand.units, cpus // demand.unit_cpus]
        have += [gpus // demand.unit_gpus] if demand.unit_gpus else []
        units.append(min(have))
    wanted = demand.nodes_min if demand.uniform else demand.units
    return sum(u for u in units if u > 0) >= wanted


@settings(max_examples=120)
@given(worlds(), demands(), st.integers(1, HORIZON), st.integers(0, 5))
def test_the_earliest_start_is_the_earliest(
    world: World, demand: Demand, duration_s: int, later_s: int
) -> None:
    profile, _ = world.profile()
    everywhere = np.ones(len(world.pool.nodes), dtype=np.bool_)
    after_s = NOW + later_s
    found = moments(profile, demand, everywhere, (), duration_s, after_s)[0].tolist()
    counted = [
        t for t in range(after_s, NOW + 2 * HORIZON + 2) if fits(world, demand, t, duration_s)
    ]
    assert found[:1] == counted[:1]
    assert set(found) <= set(counted)
