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


def started_at_once(policy: str, rows: list[TraceJob], cluster: str, **values: object) -> list[int]:
    scenario = Scenario("ideal", policy, "none", parameters=values)
    found = run(scenario, Workload.of("x", rows), ClusterSpec.parse(cluster))
    return [o.spec.job_id for o in found.jobs if o.first_start_s == 0]


def test_drf_fills_as_in_the_example_of_its_paper() -> None:
    # 9 GPUs and 18 GiB; a's jobs want 1 GPU and 4 GiB, b's 3 GPUs and 1 GiB.
    rows = [TraceJob(i, 0, 60, 1, 60, user="a", mem_mib=4096) for i in range(1, 6)]
    rows += [TraceJob(i, 0, 60, 3, 60, user="b", mem_mib=1024) for i in range(6, 11)]
    ratio = {"per_gpu.cpus": 0.0, "per_gpu.mem_mib": 2048.0}
    assert started_at_once("drf", rows, "1x9/64/18", **ratio) == [1, 2, 3, 6, 7]


def test_drf_counts_what_a_user_runs_already() -> None:
    rows = [TraceJob(1, 0, 100, 6, 100, user="a"), TraceJob(2, 1, 50, 4, 50, user="a"),
            TraceJob(3, 2, 50, 4, 50, user="b")]  # fmt: skip
    assert starts(driven("drf", Workload.of("x", rows))) == [0, 100, 100]
    rows.append(TraceJob(4, 3, 50, 4, 50, user="a"))
    assert starts(driven("drf", Workload.of("x", rows))) == [0, 100, 100, 150]


def test_tetris_takes_least_work_first_and_the_node_with_what_is_asked_for() -> None:
    heavy, light = TraceJob(1, 0, 60, 1, 60, cpus=90), TraceJob(2, 0, 60, 1, 60, cpus=40)
    scenario = Scenario("ideal", "tetris", "none")
    cluster = ClusterSpec.parse("1x8/64,1x8/128")
    found = run(scenario, Workload.of("x", [heavy, light]), cluster)
    assert [o.nodes for o in found.jobs] == [("nb2",), ("nb2",)]  # the one with more free CPUs
    assert starts(found) == [60, 0]


def test_fgd_spares_the_node_that_a_usual_job_needs_whole() -> None:
    rows = [TraceJob(1, 0, 99, 6, 99), TraceJob(2, 1, 99, 1, 99), TraceJob(3, 2, 99, 8, 99)]
    found = run(Scenario("ideal", "fgd", "none"), Workload.of("x", rows), ClusterSpec.parse("2x8"))
    assert starts(found) == [0, 1, 2]
