"""What holds for every workload and every driver."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ext.engine.settings import LeverSettings
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.generate import Shape, generate
from slurm_ext.sim.outcome import SimResult
from slurm_ext.sim.scenario import BACKFILLS, DRIVERS, Scenario, run
from slurm_ext.sim.settings import PROMPT, SlurmSettings
from slurm_ext.sim.workload import TraceJob, Workload
from tests.sim.helpers import check_conserved, starts

SPECS = (ClusterSpec.uniform(3), ClusterSpec.parse("2x8:a,3x4:b"), ClusterSpec.count_only(24))

ROW = st.tuples(
    st.integers(0, 120), st.integers(1, 90), st.sampled_from([1, 1, 2, 3, 4, 8, 9, 16]),
    st.integers(1, 300), st.sampled_from([0, 10]),
)  # fmt: skip
WORKLOADS = st.lists(ROW, min_size=1, max_size=25).map(
    lambda rows: Workload.of(
        "any",
        [TraceJob(i, s, r, g, limit, checkpoint_s=c)
         for i, (s, r, g, limit, c) in enumerate(rows, 1)],
    )
)  # fmt: skip

ANY = settings(
    max_examples=25, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip


def scenario(driver: str, policy: str = "fifo", backfill: str = "easy") -> Scenario:
    return Scenario(
        driver, policy, backfill,
        slurm=SlurmSettings(bf_interval_s=5, sched_interval_s=10, bf_resolution_s=1),
        levers=LeverSettings(interval_s=5, lease_s=60),
    )  # fmt: skip


@pytest.mark.parametrize("driver", DRIVERS)
@ANY
@given(workload=WORKLOADS, spec=st.sampled_from(SPECS), policy=st.sampled_from(["fifo", "sjf"]))
def test_conservation(driver: str, workload: Workload, spec: ClusterSpec, policy: str) -> None:
    check_conserved(run(scenario(driver, policy), workload, spec), workload, spec.gpus)


@pytest.mark.parametrize("backfill", BACKFILLS)
@ANY
@given(workload=WORKLOADS, spec=st.sampled_from(SPECS))
def test_conservation_of_the_core_alone(
    backfill: str, workload: Workload, spec: ClusterSpec
) -> None:
    found = run(scenario("ideal", backfill=backfill), workload, spec)
    check_conserved(found, workload, spec.gpus)


@ANY
@given(workload=WORKLOADS, spec=st.sampled_from(SPECS))
def test_strict_fifo_starts_in_order_of_submit(workload: Workload, spec: ClusterSpec) -> None:
    result = run(scenario("ideal", backfill="none"), workload, spec)
    in_order = sorted(result.jobs, key=lambda o: (o.spec.submit_s, o.spec.job_id))
    found = [o.start_s for o in in_order]
    assert found == sorted(found)


@ANY
@given(workload=WORKLOADS, spec=st.sampled_from(SPECS))
def test_stock_slurm_without_backfill_is_strict_fifo(workload: Workload, spec: ClusterSpec) -> None:
    # sbatch would give both the same nodes only if all fit alike: so in the pool, by count.
    spec = ClusterSpec.count_only(spec.gpus)
    slurm = run(
        Scenario("stock", slurm=replace(PROMPT, bf_interval_s=1 << 30)), workload, spec
    )  # fmt: skip
    core = run(Scenario("ideal", backfill="none"), workload, spec)
    assert starts(slurm) == starts(core)


@ANY
@given(workload=WORKLOADS)
def test_the_first_in_line_is_never_put_off_by_backfill(workload: Workload) -> None:
    """EASY's promise, where limits hold: nobody starts later than the first fence said."""
    exact = workload.with_limits("exact")
    spec = ClusterSpec.count_only(16)
    strict = run(scenario("ideal", backfill="none"), exact, spec)
    easy = run(scenario("ideal", backfill="easy"), exact, spec)
    first = min(range(len(exact.jobs)), key=lambda i: _blocked(strict, i))
    assert starts(easy)[first] <= starts(strict)[first]


def _blocked(result: SimResult, position: int) -> tuple[bool, int, int]:
    """Sorts the earliest submitted job that had to wait to the front."""
    o = result.jobs[position]
    return (o.first_start_s == o.spec.submit_s, o.spec.submit_s, o.spec.job_id)


@pytest.mark.parametrize("driver", DRIVERS)
def test_determinism(driver: str) -> None:
    spec = ClusterSpec.uniform(2)
    shape = Shape(jobs=60, load=1.5, ln_mean=3.0, ln_sd=1.0)
    results = [run(scenario(driver, "sjf"), generate(shape, spec, 11), spec) for _ in range(2)]
    assert results[0].jobs == results[1].jobs
