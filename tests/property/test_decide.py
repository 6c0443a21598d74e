"""Invariants of a whole decision on random small clusters."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.engine.cycle import Step, decide
from slurm_ext.engine.settings import BackfillSettings
from slurm_ext.model.decision import Verdict
from slurm_ext.model.job import Job, Request
from slurm_ext.model.node import Node
from slurm_ext.model.observation import Observation, Reservation
from tests.builders import NOW, context, job, node, observation

TYPES = ("a100", "v100")


@st.composite
def requests(draw: st.DrawFn) -> Request:
    named = draw(st.integers(0, 9))
    nodes = draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["per_node", "total", "per_task", "none"]))
    gpus = draw(st.integers(1, 4))
    return Request(
        nodes_min=1 if kind in ("total", "per_task") else nodes,
        nodes_max=None if kind in ("total", "per_task") else nodes,
        cpus=draw(st.integers(1, 12)) * (nodes if kind == "per_node" else 1),
        tasks=draw(st.integers(1, 4)),
        cpus_per_task=draw(st.integers(1, 3)),
        gpus_per_node=gpus if kind == "per_node" else 0,
        gpus_total=gpus * 2 if kind == "total" else 0,
        gpus_per_task=min(gpus, 2) if kind == "per_task" else 0,
        gpu_type=draw(st.sampled_from(["", *TYPES])) if kind != "none" else "",
        mem_per_node_mib=draw(st.sampled_from([0, 100, 4000])),
        exclusive=draw(st.integers(0, 9)) == 0,
        required_nodes=(f"n{named}",) if named < 2 else (),
        excluded_nodes=("n1",) if named == 2 else (),
    )


@st.composite
def clusters(draw: st.DrawFn) -> Observation:
    nodes: list[Node] = []
    running: list[Job] = []
    for i in range(draw(st.integers(1, 5))):
        types = {t: draw(st.integers(0, 4)) for t in TYPES}
        name = f"n{i}"
        have = {t: c for t, c in types.items() if c}
        busy_type = draw(st.sampled_from(["", *have]))
        busy = draw(st.integers(1, have[busy_type])) if busy_type else 0
        first = 0 if busy_type == next(iter(have), "") else sum(have.values()) - have.get("v100", 0)
        nodes.append(
            node(name, types=have or {"a100": 1}, cpus=16, mem=8000,
                 used=range(first, first + busy), cpus_used=busy,
                 threads=draw(st.sampled_from([1, 2])))
        )  # fmt: skip
        if busy:
            running.append(job(100 + i, on={name: busy}, type=busy_type, cpus=busy,
                               end=NOW + draw(st.integers(-5, 900))))  # fmt: skip
    waiting = [
        job(i, request=draw(requests()), limit=draw(st.sampled_from([60, 300, 900, None])),
            submit=NOW - draw(st.integers(0, 50)), priority=draw(st.integers(1, 9)))
        for i in range(1, draw(st.integers(1, 12)) + 1)
    ]  # fmt: skip
    windows = []
    if draw(st.booleans()):
        start = NOW + draw(st.integers(0, 600))
        windows.append(Reservation("maint", start, start + 300, ("n0",)))
    return observation(nodes, [*running, *waiting], reservations=windows)


def settings_of(kind: str) -> BackfillSettings:
    return BackfillSettings(kind=kind, fences=2, depth=5, max_slip_s=200, default_limit_s=1200)


KINDS = st.sampled_from(["none", "best_effort", "easy", "conservative", "slack"])


def started(obs: Observation, step: Step) -> list[tuple[Job, object]]:
    jobs = {j.key: j for j in obs.jobs}
    return [
        (jobs[k], d.placement) for k, d in step.plan.decisions.items() if d.verdict is Verdict.START
    ]


@settings(max_examples=300)
@given(clusters(), KINDS)
def test_nothing_is_oversubscribed(obs: Observation, kind: str) -> None:
    step = decide(obs, context(backfill=settings_of(kind)))
    gpus: Counter[str] = Counter()
    cpus: Counter[str] = Counter()
    mem: Counter[str] = Counter()
    masks: dict[str, int] = {n.name: n.gpu_used for n in obs.nodes}
    for _, placement in started(obs, step):
        for share in placement.shares:  # type: ignore[attr-defined]
            gpus[share.node] += share.gpus
            cpus[share.node] += share.cpus
            mem[share.node] += share.mem_mib
            assert not masks[share.node] & share.gpu_mask
            assert share.gpu_mask.bit_count() == share.gpus
            masks[share.node] |= share.gpu_mask
    for n in obs.nodes:
        assert gpus[n.name] <= n.gpu_count - n.gpu_used_count
        assert cpus[n.name] <= n.cpus - n.cpus_alloc
        assert mem[n.name] <= n.mem_mib


@settings(max_examples=200)
@given(clusters(), KINDS)
def test_every_job_gets_exactly_one_decision_with_a_reason(obs: Observation, kind: str) -> None:
    step = decide(obs, context(backfill=settings_of(kind)))
    assert set(step.plan.decisions) == {j.key for j in obs.jobs}
    assert all(d.reasons for d in step.plan.decisions.values())


@settings(max_examples=150)
@given(clusters(), KINDS, st.randoms(use_true_random=False))
def test_input_order_does_not_matter(obs: Observation, kind: str, random: object) -> None:
    jobs = list(obs.jobs)
    random.shuffle(jobs)  # type: ignore[attr-defined]
    ctx = context(backfill=settings_of(kind))
    assert decide(obs, ctx).plan == decide(replace(obs, jobs=tuple(jobs)), ctx).plan


@settings(max_examples=300)
@given(clusters(), KINDS)
def test_the_request_is_met_exactly(obs: Observation, kind: str) -> None:
    step = decide(obs, context(backfill=settings_of(kind)))
    types = {n.name: {g.type for g in n.gpus} for n in obs.nodes}
    for found, placement in started(obs, step):
        request, shares = found.request, placement.shares  # type: ignore[attr-defined]
        assert len({s.node for s in shares}) == len(shares)
        if request.gpus_per_node:
            assert [s.gpus for s in shares] == [request.gpus_per_node] * request.nodes_min
        elif request.gpus_total or request.gpus_per_task:
            assert sum(s.gpus for s in shares) == request.gpus
        else:
            assert len(shares) == request.nodes_min
        assert {*request.required_nodes} <= {s.node for s in shares}
        assert not {*request.excluded_nodes} & {s.node for s in shares}
        if request.gpu_type:
            assert all(request.gpu_type in types[s.node] for s in shares)


@settings(max_examples=200)
@given(clusters())
def test_easy_never_starts_what_would_delay_the_first_fence(obs: Observation) -> None:
    """Replay the plan to the fence's moment: the promised placement must still fit then."""
    step = decide(obs, context(backfill=BackfillSettings(fences=1, default_limit_s=1200)))
    if not step.plan.fences:
        return
    fence = step.plan.fences[0]
    gpus_free = {n.name: n.gpu_count for n in obs.nodes}
    cpus_free = {n.name: n.cpus for n in obs.nodes}
    holding = [
        (j.alloc, max(j.end_s or 0, NOW + 60 if (j.end_s or 0) <= NOW else 0))
        for j in obs.jobs if j.state.occupies
    ]  # fmt: skip
    holding += [
        (p.shares, NOW + (j.limit_s if j.limit_s is not None else 1200))  # type: ignore[attr-defined]
        for j, p in started(obs, step)
    ]
    for shares, end_s in holding:
        if end_s > fence.start_s:
            for share in shares:
                gpus_free[share.node] -= share.gpus
                cpus_free[share.node] -= share.cpus
    for share in fence.placement.shares:
        assert gpus_free[share.node] >= share.gpus
        assert cpus_free[share.node] >= share.cpus


@settings(max_examples=150)
@given(clusters(), KINDS)
def test_entries_and_patches_belong_together(obs: Observation, kind: str) -> None:
    step = decide(obs, context(backfill=settings_of(kind)))
    assert {p.key for p in step.plan.patches} <= {e.key for e in step.entries}
