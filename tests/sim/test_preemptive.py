"""Policies that stop running jobs: the driver, and published figures on the same trace."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.engine.parts.placement import BestFit
from slurm_ext.engine.settings import BackfillSettings, Context
from slurm_ext.policies import get, registry
from slurm_ext.sim import traces
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.errors import TraceError
from slurm_ext.sim.ideal import IdealDriver
from slurm_ext.sim.metrics import Metrics, measure
from slurm_ext.sim.outcome import SimResult
from slurm_ext.sim.physics import NO_COST, StopCost
from slurm_ext.sim.scenario import Scenario, run
from slurm_ext.sim.settings import SlurmSettings
from slurm_ext.sim.workload import TraceJob, Workload
from tests.sim.helpers import check_conserved, data, jobs, peak_gpus

POOL = ClusterSpec.count_only(8)


def driven(
    workload: Workload,
    policy: str = "srtf",
    spec: ClusterSpec = POOL,
    cost: StopCost = NO_COST,
    **values: object,
) -> SimResult:
    scenario = Scenario("ideal", policy, cost=cost, **values)  # type: ignore[arg-type]
    return run(scenario, workload, spec)


def ends(result: SimResult) -> list[int]:
    return [o.end_s for o in result.jobs]


def test_a_shorter_job_stops_a_longer_one() -> None:
    result = driven(jobs((0, 100, 8), (10, 20, 8)))
    assert ends(result) == [120, 30]
    assert [o.restarts for o in result.jobs] == [1, 0]


def test_a_restart_costs_what_it_costs() -> None:
    result = driven(jobs((0, 100, 8), (10, 20, 8)), cost=StopCost(7, lossless=True))
    assert ends(result) == [127, 30]
    assert result.jobs[0].lost_s == 7


@pytest.mark.parametrize(("checkpoint_s", "end_s"), [(4, 122), (0, 130), (100, 130)])
def test_work_since_the_last_checkpoint_is_done_again(checkpoint_s: int, end_s: int) -> None:
    workload = jobs((0, 100, 8), (10, 20, 8))
    first = replace(workload.jobs[0], checkpoint_s=checkpoint_s)
    other = replace(workload.jobs[1], checkpoint_s=1)
    result = driven(Workload.of("x", [first, other]), cost=StopCost(0))
    assert ends(result) == [end_s, 30]


def test_attained_service_lets_new_jobs_past_old_ones() -> None:
    result = driven(
        jobs((0, 100, 8), (50, 10, 8)), "tiresias", parameters={"rank.limits": (160.0, 320.0)}
    )
    assert ends(result) == [110, 60]


def test_a_queue_limit_reached_while_running_is_acted_on() -> None:
    # Job 1 falls to the second queue after 20 s on 8 GPUs, while job 2 waits in the first.
    workload = jobs((0, 100, 8), (5, 10, 8))
    result = driven(workload, "tiresias", parameters={"rank.limits": (160.0, 3200.0)})
    assert ends(result) == [110, 30]


def test_only_the_jobs_in_the_way_are_stopped() -> None:
    workload = jobs((0, 100, 4), (0, 100, 4), (0, 99, 4), (10, 20, 2))
    result = driven(workload, spec=ClusterSpec.uniform(3, 4))
    assert [o.restarts for o in result.jobs] == [0, 1, 0, 0]


def test_a_job_stays_where_it_is_while_it_may_run() -> None:
    workload = jobs((0, 100, 2), (1, 10, 2), (2, 10, 4), (3, 10, 4))
    result = driven(workload, spec=ClusterSpec.uniform(2, 4))
    assert result.jobs[1].restarts == 0


def test_rounds_decide_at_multiples_of_their_length() -> None:
    result = driven(jobs((0, 50, 8), (10, 5, 8)), round_s=60)
    assert ends(result) == [50, 65]
    stamped = driven(jobs((0, 50, 8), (10, 5, 8)), round_s=60, stamp_rounds=True)
    assert ends(stamped) == [60, 120]


def test_a_trace_without_checkpoints_is_refused_by_the_field() -> None:
    with pytest.raises(TraceError, match="checkpoint_s"):
        driven(jobs((0, 50, 8)), cost=StopCost(0))


def test_equal_lengths_make_srtf_first_come_first_served() -> None:
    workload = jobs((0, 50, 8), (1, 50, 8), (2, 50, 8))
    assert ends(driven(workload)) == [50, 100, 150]


PREEMPTIVE = sorted(
    name
    for name, p in registry().items()
    if p.allocation is not None and not {"speed", "goodput", "models"} & set(p.needs)
)


@pytest.mark.parametrize("policy", PREEMPTIVE)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 60), st.sampled_from([1, 2, 3, 4, 8])),
        min_size=1, max_size=12,
    ),
    nodes=st.integers(2, 3),
)  # fmt: skip
def test_every_job_ends_and_no_gpu_is_used_twice(
    policy: str, rows: list[tuple[int, int, int]], nodes: int
) -> None:
    workload = Workload.of(
        "h",
        [TraceJob(i, s, r, g, limit_s=r, user=f"u{i % 3}") for i, (s, r, g) in enumerate(rows)],
    )
    result = driven(workload, policy, ClusterSpec.uniform(nodes, 4))
    check_conserved(result, workload, nodes * 4)
    assert peak_gpus(result.jobs) <= nodes * 4


def philly(policy: str, spec: ClusterSpec, **values: object) -> Metrics:
    workload = traces.read(data("traces/philly/philly-2d.csv"), on_bad="stop")
    if values.get("durations") != "history":
        workload = workload.with_limits("exact")
    else:
        workload = workload.with_limits("requested", 7 * 86_400)
    values.setdefault("cost", NO_COST)
    scenario = Scenario(
        "ideal",
        policy,
        slurm=SlurmSettings(kill=False),
        **values,  # type: ignore[arg-type]
    )
    return measure(run(scenario, workload, spec))


COUNT = ClusterSpec.count_only(256)
PLACED = ClusterSpec.uniform(32)
LAS = {"rank.times_gpus": False}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "values", "jct_s", "rel"),
    [
        ("srtf", {}, 3562.3, 2e-5),
        ("srsf", {}, 3522.4, 2e-5),
        ("tiresias", {}, 3524.5, 0.01),
        ("tiresias", {"parameters": LAS}, 3563.4, 0.01),
    ],
    ids=["SRTF", "SRSF", "2D-LAS", "LAS"],
)
def test_philly_two_days_count_only(
    policy: str, values: dict[str, object], jct_s: float, rel: float
) -> None:
    """Tiresias artifact: shortest, shortest-gpu, dlas-gpu, dlas."""
    assert philly(policy, COUNT, **values).jct_mean_s == pytest.approx(jct_s, rel=rel)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "values", "jct_s"),
    [
        ("qssf", {"backfill": "none"}, 3715.4),
        ("qssf", {"backfill": "none", "durations": "history"}, 3753.1),
        ("srtf", {"cost": StopCost(30, lossless=True)}, 3583.6),
        ("tiresias", {"cost": StopCost(30, lossless=True), "round_s": 60}, 3615.5),
    ],
    ids=["QSSF oracle", "QSSF causal", "SRTF", "LAS in rounds"],
)
def test_philly_two_days_placed(policy: str, values: dict[str, object], jct_s: float) -> None:
    """Helios and Lucid simulators on 32 nodes of 8 GPUs; placement differs by a few per cent."""
    assert philly(policy, PLACED, **values).jct_mean_s == pytest.approx(jct_s, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "jct_s"), [("fifo", 5131.4), ("sjf", 4214.6)])
def test_philly_two_days_in_the_tightest_nodes(policy: str, jct_s: float) -> None:
    """Strict orders of the Helios simulator, which takes the fullest node that has room."""
    workload = traces.read(data("traces/philly/philly-2d.csv")).with_limits("exact")
    tight = replace(get(policy), placement=BestFit())
    context = Context(tight, backfill=BackfillSettings(kind="none"))
    found = measure(IdealDriver(workload, PLACED, context).run())
    assert found.jct_mean_s == pytest.approx(jct_s, rel=0.03)
