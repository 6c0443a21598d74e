"""Published and reproduced figures on the same traces, in count-only mode."""

from __future__ import annotations

import pytest

from slurm_ext.sim import traces
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.metrics import Metrics, measure
from slurm_ext.sim.scenario import Scenario, run
from slurm_ext.sim.settings import SlurmSettings
from slurm_ext.sim.workload import LimitRule
from tests.sim.helpers import data

UNLIMITED = SlurmSettings(kill=False)


def metrics(name: str, gpus: int, policy: str, backfill: str, limits: LimitRule) -> Metrics:
    workload = traces.read(data(name), max_gpus=gpus, on_bad="stop").with_limits(limits)
    scenario = Scenario("ideal", policy, backfill, slurm=UNLIMITED)
    return measure(run(scenario, workload, ClusterSpec.count_only(gpus)))


@pytest.mark.parametrize(
    ("policy", "backfill", "jct_s", "wait_s", "makespan_s", "utilisation"),
    [
        ("fifo", "none", 4520.9, 1053.2, 339197, 0.4782),
        ("fifo", "best_effort", 4112.0, 644.3, 341333, 0.4752),
        ("fifo", "easy", 4321.5, 853.8, 339371, 0.4779),
        ("sjf", "best_effort", 3877.4, 409.6, 341612, None),
    ],
    ids=["FIFO strict", "FIFO best effort", "EASY, perfect durations", "SJF oracle, skip"],
)
def test_philly_two_days(
    policy: str,
    backfill: str,
    jct_s: float,
    wait_s: float,
    makespan_s: int,
    utilisation: float | None,
) -> None:
    """Tiresias artifact (FIFO), Alibaba PAI simulator (best effort, SJF), independent EASY."""
    found = metrics("traces/philly/philly-2d.csv", 256, policy, backfill, "exact")
    assert found.jct_mean_s == pytest.approx(jct_s, abs=0.1)
    assert found.wait_mean_s == pytest.approx(wait_s, abs=0.1)
    assert found.makespan_s == pytest.approx(makespan_s, abs=1)  # SJF: 341611 here, 341612 there
    if utilisation is not None:
        assert found.utilisation == pytest.approx(utilisation, abs=1e-4)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("limits", "flow_s", "slowdown"),
    [("exact", 15187.6, 71.72), ("requested", 15696.8, 92.58)],
    ids=["clairvoyant", "requested"],
)
def test_kth_sp2_easy(limits: LimitRule, flow_s: float, slowdown: float) -> None:
    """EASY on KTH-SP2 as in Gaussier et al., SC 2015: average flow time, bounded slowdown."""
    found = metrics("traces/kth-sp2/KTH-SP2.swf.gz", 100, "fifo", "easy", limits)
    assert found.jct_mean_s == pytest.approx(flow_s, rel=0.01)
    assert found.slowdown_mean == pytest.approx(slowdown, rel=0.01)
