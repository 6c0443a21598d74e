"""Elastic policies on the workload of Capes et al."""

from __future__ import annotations

import pytest

from slurm_ext.sim.capes import ARRIVALS, EPOCH_S, EPOCHS, capes
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.errors import TraceError
from slurm_ext.sim.metrics import Metrics, measure
from slurm_ext.sim.physics import StopCost
from slurm_ext.sim.scenario import Scenario, run
from slurm_ext.sim.workload import TraceJob, Workload
from tests.sim.helpers import jobs

POOL = ClusterSpec.count_only(64)
SAVED = StopCost(lossless=True)


def measured(
    policy: str, workload: Workload, spec: ClusterSpec = POOL, cost: StopCost = SAVED
) -> Metrics:
    scenario = Scenario("ideal", policy, "none", cost=cost)
    return measure(run(scenario, workload.with_limits("exact"), spec))


@pytest.mark.parametrize("gpus", list(EPOCH_S))
def test_alone_a_job_of_fixed_size_takes_its_epochs(gpus: int) -> None:
    found = measured("fifo", capes("none", 1, gpus).head(1))
    assert found.jct_mean_s == round(EPOCHS * EPOCH_S[gpus])


ELASTIC = ("doubling", "elastic-dp", "hesrpt", "optimus", "slope")


@pytest.mark.parametrize("policy", ELASTIC)
def test_alone_an_elastic_job_has_its_best_size_from_the_start(policy: str) -> None:
    found = measured(policy, capes("none", 1, 1).head(1))
    assert found.jct_mean_s == pytest.approx(EPOCHS * EPOCH_S[8], abs=1)
    assert found.restarts == 0


def test_exploring_costs_what_was_run_slowly() -> None:
    found = measured("doubling-explore", capes("none", 1).head(1))
    steps = sum(150 / EPOCH_S[g] for g in EPOCH_S)  # epochs in the first ten minutes
    assert found.jct_mean_s == pytest.approx(600 + (EPOCHS - steps) * EPOCH_S[8], abs=2)


@pytest.mark.parametrize("policy", ELASTIC)
def test_two_jobs_share_and_the_second_grows_when_the_first_ends(policy: str) -> None:
    a = TraceJob(1, 0, 400, 4, speed="1:1 2:2 4:4", restart_s=0)
    b = TraceJob(2, 0, 800, 4, speed="1:1 2:2 4:4", restart_s=0)
    found = measured(policy, Workload.of("x", [a, b]), ClusterSpec.count_only(4))
    assert found.makespan_s == pytest.approx(1200, abs=2)  # all four GPUs are busy all the time


def test_when_crowded_doubling_beats_every_fixed_size() -> None:
    elastic = measured("doubling", capes("extreme", 1)).jct_mean_s
    for gpus in EPOCH_S:
        assert elastic < measured("fifo", capes("extreme", 1, gpus)).jct_mean_s


def test_when_crowded_shortest_first_beats_longest_first() -> None:
    doubling, hesrpt = (measured(p, capes("extreme", 1)).jct_mean_s for p in ("doubling", "hesrpt"))
    assert hesrpt < doubling


def test_a_trace_without_speeds_is_refused_by_the_field() -> None:
    with pytest.raises(TraceError, match="field speed"):
        measured("doubling", jobs((0, 10, 1)))


@pytest.mark.parametrize(("contention", "gpus"), [("some", 8), ("none", 3)])
def test_unknown_settings_of_the_workload_are_named(contention: str, gpus: int) -> None:
    with pytest.raises(TraceError, match="one of"):
        capes(contention, 1, gpus)


def test_the_same_seed_gives_the_same_workload() -> None:
    for name, (_, count) in ARRIVALS.items():
        assert capes(name, 3).jobs == capes(name, 3).jobs
        assert len(capes(name, 3).jobs) == count
