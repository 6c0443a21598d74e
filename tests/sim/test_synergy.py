"""Synergy: the artifact's own figures, and the promise of TUNE."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.engine.allocation import Contender, Grant, Servers
from slurm_ext.engine.parts.tune import KINDS, ORDERS, Sensitive
from slurm_ext.errors import PolicyError
from slurm_ext.model.annotation import Annotation, Sensitivity
from slurm_ext.model.job import JobKey
from slurm_ext.sim import traces
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.metrics import measure
from slurm_ext.sim.physics import NO_COST
from slurm_ext.sim.scenario import PHYSICS, Scenario, run
from tests.sim.helpers import data

PAIRS = {
    "fifo": ("15.250 / 5.631", "12.250 / 5.496", "11.000 / 5.083"),
    "srtf": ("14.084 / 4.412", "14.667 / 4.299", "13.000 / 4.110"),
    "las": ("11.417 / 5.625", "13.167 / 6.186", "10.667 / 5.173"),
}
"""Hours of makespan / mean JCT: GPU-proportional, GREEDY, TUNE."""


@pytest.mark.parametrize(
    ("order", "kind", "hours"),
    [
        (order, kind, hours)
        for order, row in PAIRS.items()
        for kind, hours in zip(("proportional", "greedy", "tune"), row, strict=True)
    ],
)
def test_static_trace_as_the_artifact(order: str, kind: str, hours: str) -> None:
    """100 jobs on 4 servers of 8 GPUs, 24 CPUs, 500 GB; rounds of 300 s from second 1 on."""
    workload = traces.read(data("synergy/static.csv"), on_bad="stop").with_limits("exact")
    scenario = Scenario(
        "ideal", "synergy", parameters={"order": order, "kind": kind}, cost=NO_COST,
        physics=PHYSICS["synergy-artifact"], stamp_rounds=True, round_start_s=1,
    )  # fmt: skip
    found = measure(run(scenario, workload, ClusterSpec.parse("4x8/24/500")))
    assert f"{found.makespan_s / 3600:.3f} / {found.jct_mean_s / 3600:.3f}" == hours


def contender(line: int, gpus: int, cpus: float, mem_gib: float, done: float = 0.0) -> Contender:
    known = Sensitivity("image", cpus, round(1024 * mem_gib))  # type: ignore[arg-type]
    return Contender(
        JobKey(line, 0), line, "u", gpus, 1000.0, 1000.0 - done,
        attained_gpu_s=done, annotation=Annotation(sensitivity=known),
    )  # fmt: skip


def granted(kind: str, jobs: list[Contender], servers: Servers, **values: object) -> list[Grant]:
    allocation = Sensitive(kind=kind, **values)  # type: ignore[arg-type]
    return allocation.grants(jobs, servers, 0, ())


def servers_of(count: int) -> Servers:
    return Servers((8,) * count, (24,) * count, (500 * 1024,) * count)


JOBS = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, 2, 3, 4, 8, 12, 16]),
        st.sampled_from([1, 3, 4, 6, 9, 12]),
        st.sampled_from([20.0, 62.5, 125.0, 187.5]),
        st.floats(0, 900),
    ),
    min_size=1, max_size=60,
)  # fmt: skip


@given(rows=JOBS, count=st.integers(2, 8), order=st.sampled_from(["fifo", "srsf", "las"]),
       large_first=st.booleans())  # fmt: skip
def test_tune_runs_the_jobs_of_the_proportional_share_and_none_below_it(
    rows: list[tuple[int, int, float, float]], count: int, order: str, large_first: bool
) -> None:
    jobs = [contender(i, *row) for i, row in enumerate(rows)]
    servers = servers_of(count)
    tuned = granted("tune", jobs, servers, order=order, large_first=large_first)
    plain = granted("proportional", jobs, servers, order=order)
    assert {g.key for g in tuned} == {g.key for g in plain}
    by_key = {j.key: j for j in jobs}
    for grant in tuned:
        job = by_key[grant.key]
        assert grant.gpus == job.gpus
        known = job.annotation.sensitivity
        assert sum(s.cpus for s in grant.slices) >= min(3, known.cpus_per_gpu) * job.gpus - 1e-6
        least_mib = min(62.5 * 1024, known.mem_mib_per_gpu) * job.gpus
        assert sum(s.mem_mib for s in grant.slices) >= least_mib - 1e-3


@given(rows=JOBS, count=st.integers(2, 8), kind=st.sampled_from(KINDS),
       order=st.sampled_from(sorted(ORDERS)))  # fmt: skip
def test_no_server_is_given_away_twice(
    rows: list[tuple[int, int, float, float]], count: int, kind: str, order: str
) -> None:
    servers = servers_of(count)
    grants = granted(kind, [contender(i, *r) for i, r in enumerate(rows)], servers, order=order)
    for i in range(count):
        held = [s for g in grants for s in g.slices if s.server == i]
        assert sum(s.gpus for s in held) <= 8
        assert sum(s.cpus for s in held) <= 24 + 1e-6
        assert sum(s.mem_mib for s in held) <= 500 * 1024 + 1e-3


def test_tune_takes_back_what_a_neighbour_has_too_much() -> None:
    # Four jobs want 12 CPUs each on one server of 24: two may, until the others come.
    jobs = [contender(i, 2, 6, 62.5) for i in range(4)]
    cpus = [sum(s.cpus for s in g.slices) for g in granted("tune", jobs, servers_of(1))]
    assert cpus == [6, 6, 6, 6]
    two = [sum(s.cpus for s in g.slices) for g in granted("tune", jobs[:2], servers_of(1))]
    assert two == [12, 12]


def test_greedy_leaves_gpus_idle_where_cpus_are_gone() -> None:
    jobs = [contender(i, 2, 6, 62.5) for i in range(4)]
    assert len(granted("greedy", jobs, servers_of(1))) == 2


def test_equal_servers_are_renamed_so_that_jobs_stay() -> None:
    jobs = [contender(i, 8, 3, 62.5, done=i) for i in range(2)]
    first = {g.key: g.slices for g in granted("tune", jobs, servers_of(2), order="fifo")}
    again = [
        Contender(j.key, 1 - j.line, j.user, j.gpus, 1000.0, 900.0, held=first[j.key],
                  annotation=j.annotation)
        for j in jobs
    ]  # fmt: skip
    for grant in granted("tune", again, servers_of(2), order="fifo"):
        assert grant.slices == first[grant.key]


def test_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(PolicyError, match="tune, greedy, proportional"):
        Sensitive(kind="opt")
