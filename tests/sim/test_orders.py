"""Orders that trade length against fairness."""

from __future__ import annotations

from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.metrics import measure
from slurm_ext.sim.outcome import SimResult
from slurm_ext.sim.physics import NO_COST
from slurm_ext.sim.scenario import Scenario, run
from slurm_ext.sim.workload import TraceJob, Workload
from tests.sim.helpers import jobs, starts

POOL = ClusterSpec.count_only(8)


def driven(policy: str, workload: Workload, round_s: int = -1) -> SimResult:
    scenario = Scenario("ideal", policy, "none", cost=NO_COST, round_s=round_s)
    return run(scenario, workload, POOL)


def test_tokens_with_equal_lengths_are_first_come_first_served() -> None:
    assert starts(driven("tokens", jobs(*[(i, 50, 8) for i in range(5)]))) == [
        0, 50, 100, 150, 200,
    ]  # fmt: skip


def test_tokens_let_a_starving_job_in_where_shortest_first_does_not() -> None:
    stream = jobs((0, 10, 8), (0, 100, 8), *[(10 * i, 10, 8) for i in range(1, 60)])
    assert starts(driven("sjf", stream))[1] == 600  # after all the short ones
    assert starts(driven("tokens", stream))[1] < 400


def test_fair_gives_a_second_user_its_part_at_once() -> None:
    many = [TraceJob(i, 0, 100, 4, user="a") for i in range(1, 5)]
    late = TraceJob(9, 10, 100, 4, user="b")
    result = driven("fair", Workload.of("x", [*many, late]))
    assert result.jobs[-1].first_start_s == 10
    assert sum(o.restarts for o in result.jobs) == 1


def test_themis_is_fairer_than_shortest_first() -> None:
    stream = jobs((0, 300, 8), *[(10 * i, 10, 8) for i in range(1, 60)]).with_limits("exact")
    fair, short = (measure(driven(policy, stream, 10)) for policy in ("themis", "srtf"))
    assert fair.ftf_worst < short.ftf_worst
    assert fair.jct_mean_s > short.jct_mean_s
