"""Whatever jobs are annotated with: others keep their request, sizes stay in their range."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.engine.cycle import decide
from slurm_ext.engine.settings import LeverSettings, PreemptionSettings
from slurm_ext.model.annotation import Annotation, Checkpoint, Scaling, Sensitivity, Speed
from slurm_ext.model.job import Job, Request
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.reshape import shape_of
from tests.builders import NOW, context, job, node, observation

sizes = st.sampled_from((1, 2, 3, 4, 8, 16, 1000))
speeds = st.one_of(
    st.just(Speed()),
    st.dictionaries(sizes, st.floats(1e-12, 1e12), min_size=1).map(
        lambda t: Speed(table=tuple(sorted(t.items())))
    ),
    st.tuples(*[st.floats(0, 1e9)] * 4).map(lambda t: Speed(theta=t)),
)
annotations = st.none() | st.builds(
    Annotation,
    scaling=st.builds(
        Scaling, st.sampled_from(("fixed", "moldable", "elastic")), sizes, sizes, st.booleans(),
        st.sampled_from((0, 4, 6)),
    ),
    checkpoint=st.just(Checkpoint("USR1", restart_s=5)),
    speed=speeds,
    sensitivity=st.builds(
        Sensitivity, cpus_per_gpu=st.integers(0, 100), mem_mib_per_gpu=st.integers(0, 10**6)
    ),
    work=st.sampled_from((0.0, 1.0, 1e15)),
)  # fmt: skip


@st.composite
def queues(draw: st.DrawFn) -> list[tuple[Job, Annotation | None]]:
    found = []
    for number in range(1, draw(st.integers(1, 6)) + 1):
        gpus, cpus = draw(st.integers(1, 8)), draw(st.integers(1, 16))
        request = Request(1, 1, cpus=cpus, tasks=1, cpus_per_task=cpus, gpus_per_node=gpus,
                          mem_per_node_mib=draw(st.sampled_from((0, 1000))))  # fmt: skip
        on = {"n1": gpus} if draw(st.booleans()) and number == 1 else None
        one = job(number, gpus=gpus, request=request, on=on, requeueable=True,
                  submit=NOW - 1000 + number)  # fmt: skip
        found.append((one, draw(annotations)))
    return found


@settings(deadline=None)
@given(queues(), st.sampled_from(("doubling", "elastic-dp", "hesrpt", "optimus", "synergy")))
def test_only_annotated_jobs_change_and_only_within_their_range(
    queue: list[tuple[Job, Annotation | None]], policy: str
) -> None:
    jobs, entries = [], {}
    for one, _ in queue:
        if one.state.pending:
            entries[one.key] = LedgerEntry(one.key, one.address, NOW + 200)
            one = replace(one, begin_s=NOW + 200)
        jobs.append(one)
    said = {one.key: annotation for one, annotation in queue if annotation is not None}
    held = sum(one.request.gpus for one, _ in queue if not one.state.pending)
    obs = observation([node("n1", used=range(held)), node("n2")], jobs)
    ctx = context(policy, ledger=entries, annotations=said, levers=LeverSettings(interval_s=10),
                  preemption=PreemptionSettings(min_runtime_s=0))  # fmt: skip
    step = decide(obs, ctx)
    assert step == decide(obs, ctx)
    before = {one.key: shape_of(one.request) for one, _ in queue}
    shapes = [(p.key, p.shape) for p in step.plan.patches if p.shape is not None]
    shapes += [(r.key, r.shape) for r in step.plan.resizes]
    for key, shape in shapes:
        assert shape is not None
        scaling = said[key].scaling
        if policy == "synergy" or scaling.kind == "fixed":
            assert policy == "synergy"
            assert shape.gpus == before[key].gpus
        else:
            assert scaling.min_gpus <= shape.gpus <= scaling.max_gpus
            assert not (scaling.logical_workers and scaling.logical_workers % shape.gpus)
    starts = [d.placement for d in step.plan.decisions.values() if d.verdict == "start"]
    assert sum(s.gpus for p in starts if p for s in p.shares) <= 16 - held
