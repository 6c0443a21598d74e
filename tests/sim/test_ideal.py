"""The decision core driven directly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.engine.settings import BackfillSettings, Context
from slurm_ext.policies import get
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.errors import SimulationError
from slurm_ext.sim.ideal import IdealDriver
from slurm_ext.sim.outcome import SimResult
from slurm_ext.sim.workload import TraceJob, Workload
from tests.sim.helpers import check_conserved, jobs, starts

POOL = ClusterSpec.count_only(8)


def driven(
    workload: Workload,
    policy: str = "fifo",
    kind: str = "easy",
    *,
    spec: ClusterSpec = POOL,
    kill: bool = False,
    round_s: int = 0,
) -> list[int]:
    context = Context(get(policy), backfill=BackfillSettings(kind=kind))
    return starts(IdealDriver(workload, spec, context, kill=kill, round_s=round_s).run())


BLOCKED = jobs((0, 100, 6), (1, 10, 8), (2, 40, 1), (3, 98, 1))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("none", [0, 100, 110, 110]),
        ("best_effort", [0, 101, 2, 3]),
        ("easy", [0, 100, 2, 110]),
    ],
)
def test_kinds_of_backfill(kind: str, expected: list[int]) -> None:
    assert driven(BLOCKED, kind=kind) == expected


def test_a_late_job_moves_the_fence_along() -> None:
    # Job 1 is over its limit from 50 on and may end at any time.
    workload = jobs((0, 100, 6, 50), (1, 10, 8), (60, 30, 1), (61, 200, 1))
    assert driven(workload) == [0, 100, 60, 110]


def test_kill_ends_jobs_at_their_limit() -> None:
    assert driven(jobs((0, 100, 8, 50), (1, 10, 8)), kill=True) == [0, 50]


def test_shortest_first_among_those_that_wait() -> None:
    assert driven(jobs((0, 10, 8), (1, 50, 8), (2, 5, 8)), "sjf", "none") == [0, 15, 10]


def test_rounds_start_jobs_at_multiples_of_their_length() -> None:
    assert driven(jobs((0, 50, 8), (10, 5, 8), (70, 5, 8)), round_s=60) == [0, 60, 120]


def test_several_submits_in_one_second_are_decided_together() -> None:
    assert driven(jobs((0, 50, 8), (0, 5, 8)), "sjf", "none") == [5, 0]


def test_resources_freed_and_asked_for_in_the_same_second() -> None:
    assert driven(jobs((0, 10, 8), (10, 5, 8))) == [0, 10]


def test_placement_needs_whole_nodes_where_the_pool_does_not() -> None:
    workload = jobs((0, 10, 3), (0, 10, 3), (0, 10, 2))
    assert driven(workload, spec=ClusterSpec.uniform(2, 4)) == [0, 0, 10]
    assert driven(workload, spec=ClusterSpec.count_only(8)) == [0, 0, 0]


def test_a_job_that_can_never_start_is_an_error() -> None:
    with pytest.raises(SimulationError, match="never ended"):
        driven(jobs((0, 10, 9)))


def test_ids_are_unique() -> None:
    with pytest.raises(SimulationError, match="twice"):
        driven(Workload.of("x", [TraceJob(1, 0, 5, 1), TraceJob(1, 0, 6, 1)]))


ROWS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 60), st.sampled_from([1, 2, 4, 8])),
    min_size=1, max_size=12,
)  # fmt: skip


def fast(workload: Workload, kind: str, spec: ClusterSpec) -> SimResult:
    context = Context(get("fifo"), backfill=BackfillSettings(kind=kind))
    return IdealDriver(workload, spec, context, fast=True).run()


@pytest.mark.parametrize("kind", ["none", "best_effort", "easy"])
@given(rows=ROWS)
def test_in_a_pool_the_shortcut_changes_no_start(
    kind: str, rows: list[tuple[int, int, int]]
) -> None:
    workload = jobs(*rows)
    assert starts(fast(workload, kind, POOL)) == driven(workload, kind=kind)


@given(rows=ROWS)
def test_with_nodes_the_shortcut_uses_no_gpu_twice(rows: list[tuple[int, int, int]]) -> None:
    workload = jobs(*rows)
    spec = ClusterSpec.parse("1x8:b,1x8:a")
    check_conserved(fast(workload, "easy", spec), workload, 16)
