"""What the place of a job costs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.errors import TraceError
from slurm_ext.sim.links import Links, crowds, parse_links, parse_speeds
from slurm_ext.sim.outcome import SimResult
from slurm_ext.sim.physics import NO_COST
from slurm_ext.sim.scenario import Scenario, run
from slurm_ext.sim.sitelinks import read_site
from slurm_ext.sim.workload import TraceJob, Workload
from slurm_ext.topology.presets import PRESETS
from slurm_ext.topology.ring import ring_gbps
from slurm_ext.topology.site import SiteTopology
from tests.sim.helpers import check_conserved

ONE = [("a", "x")]
TWO = [("a", "x"), ("b", "x")]
SHARES = st.floats(0.01, 1.0)


def job(gpus: int = 8, comm: float = 0.5, job_id: int = 1, **more: int) -> TraceJob:
    return TraceJob(job_id, 0, 100, gpus, limit_s=1000, comm=comm, **more)  # type: ignore[arg-type]


@given(compete=SHARES, alpha=st.floats(0, 2))
def test_alone_a_job_does_not_feel_contention(compete: float, alpha: float) -> None:
    """SJF-BCO: with one job the time of a step depends on neither xi nor alpha."""
    plain, found = Links(100, 25), Links(100, 25, compete, alpha)
    for where in (ONE, TWO):
        assert found.speed(job(), where, 1) == plain.speed(job(), where, 1)


@given(compete=SHARES, alpha=st.floats(0, 2))
def test_a_second_job_on_the_uplink_lengthens_the_ring_by_f(compete: float, alpha: float) -> None:
    """SJF-BCO: the inter-node term is multiplied by f(alpha, max(1, 2 xi))."""
    k = max(1.0, 2 * compete)
    links = Links(1000, 25, compete, alpha)
    assert links.gbps(2, 1) / links.gbps(2, 2) == pytest.approx(k + alpha * (k - 1))
    assert links.gbps(1, 2) == links.gbps(1, 1)


@pytest.mark.parametrize(
    ("gpus", "comm", "where", "expected"),
    [
        (8, 0.5, ONE, 1.0),
        (8, 0.5, TWO, 1 / (0.5 + 0.5 * 4)),  # a quarter of the bandwidth for half of the time
        (1, 0.5, ONE, 1.0),
        (16, 0.5, TWO, 1.0),  # its run time is on two nodes
        (8, 0.0, TWO, 1 / (0.8 + 0.2 * 4)),  # the share for jobs that say nothing
        (8, 0.5, [("a", "slow")], 0.5),
        (8, 0.5, [("a", "x"), ("b", "slow")], 0.5 / 2.5),  # at the pace of the slowest
    ],
)
def test_speed(gpus: int, comm: float, where: list[tuple[str, str]], expected: float) -> None:
    links = Links(100, 25, comm=0.2, gpu_speeds={"slow": 0.5, "x": 1.0})
    assert links.speed(job(gpus, comm), where, 1) == pytest.approx(expected)


def test_the_most_crowded_uplink_counts() -> None:
    placed = [TWO, [("b", "x"), ("c", "x")], ONE, [("c", "x"), ("d", "x")], [("e", ""), ("f", "")]]
    assert crowds(placed) == [2, 2, 1, 2, 1]


def driven(rows: list[TraceJob], cluster: str, policy: str = "fifo", **more: object) -> SimResult:
    links = Links(100, 25, gpu_speeds={"slow": 0.5, "fast": 1.0})
    scenario = Scenario("ideal", policy, "easy", links=links, cost=NO_COST, **more)  # type: ignore[arg-type]
    return run(scenario, Workload.of("x", rows), ClusterSpec.parse(cluster))


@pytest.mark.parametrize("policy", ["fifo", "tiresias"])
def test_a_slow_type_takes_longer(policy: str) -> None:
    assert [o.end_s for o in driven([job()], "1x8:slow", policy).jobs] == [200]


def test_jobs_slow_each_other_while_they_share_an_uplink() -> None:
    # Alone on two nodes 4 times as slow in half of the time; together 8 times.
    rows = [job(4, nodes=2), job(4, job_id=2, nodes=2)]
    first = driven(rows[:1], "2x4").jobs[0].end_s
    assert first == 250
    both = [o.end_s for o in driven(rows, "2x4").jobs]
    assert both == [450, 450]
    rows[1] = TraceJob(2, 0, 50, 4, limit_s=1000, comm=0.5, nodes=2)
    # The shorter ends at 225 with half of the longer one's work left, which then is alone.
    assert [o.end_s for o in driven(rows, "2x4").jobs] == [350, 225]


def test_a_job_that_is_slowed_down_beyond_its_limit_is_killed() -> None:
    slow = TraceJob(1, 0, 100, 8, limit_s=150)
    outcome = driven([slow], "1x8:slow").jobs[0]
    assert (outcome.end_s, outcome.state) == (150, "TIMEOUT")


@pytest.mark.parametrize("policy", ["fifo", "tiresias"])
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 60), st.sampled_from([1, 2, 4, 8])),
        min_size=1, max_size=10,
    )
)  # fmt: skip
def test_every_job_does_its_work(policy: str, rows: list[tuple[int, int, int]]) -> None:
    workload = Workload.of(
        "x", [TraceJob(i, s, r, g, limit_s=9999, comm=0.3) for i, (s, r, g) in enumerate(rows)]
    )
    check_conserved(driven(list(workload.jobs), "3x4", policy), workload, 12)


def test_a_simulated_slurm_knows_nothing_of_links() -> None:
    with pytest.raises(TraceError, match="only ideal"):
        run(Scenario("stock", links=Links()), Workload.of("x", [job()]), ClusterSpec.parse("1x8"))


def test_options_as_text() -> None:
    assert parse_links("240/12.5") == (240.0, 12.5)
    assert parse_speeds("a100=1,v100=0.5") == {"a100": 1.0, "v100": 0.5}
    assert parse_speeds("") == {}


@pytest.mark.parametrize("text", ["240", "0/1", "1/0", "a/b", "1/2/3", "-1/2"])
def test_links_that_cannot_be(text: str) -> None:
    with pytest.raises(TraceError, match="INSIDE/UPLINK"):
        parse_links(text)


@pytest.mark.parametrize("text", ["v100", "v100=", "=1", "v100=0", "v100=-1", "v100=nan"])
def test_speeds_that_cannot_be(text: str) -> None:
    with pytest.raises(TraceError, match="TYPE=SPEED"):
        parse_speeds(text)


def test_placement_prefers_the_faster_type() -> None:
    assert driven([job()], "1x8:slow,1x8:fast").jobs[0].nodes == ("nb2",)
    assert driven([job()], "1x8:fast,1x8:slow").jobs[0].nodes == ("n1",)


def on_site(
    rows: list[TraceJob], cluster: str, site: SiteTopology, policy: str = "fifo"
) -> list[int]:
    scenario = Scenario("ideal", policy, "easy", topology=site, cost=NO_COST)
    found = run(scenario, Workload.of("x", rows), ClusterSpec.parse(cluster))
    return [o.end_s for o in found.jobs]


QUARTER = ring_gbps(PRESETS["hgx-a100-4"].shape, 0b1111) / 4


@pytest.mark.parametrize("policy", ["fifo", "tiresias"])
def test_with_a_topology_its_ring_score_counts(policy: str) -> None:
    site = read_site("hgx-a100-4", None, QUARTER)
    assert on_site([job(4)], "2x4", site, policy) == [100]
    if policy == "fifo":  # the other takes the fewest nodes whatever was asked for
        assert on_site([job(4, nodes=2)], "2x4", site) == [250]
        two = [job(4, nodes=2), job(4, job_id=2, nodes=2)]
        assert on_site(two, "2x4", site) == [450, 450]
    assert on_site([job(1)], "2x4", site, policy) == [100]


def test_a_larger_job_is_compared_with_the_fewest_nodes() -> None:
    site = read_site("hgx-a100-4", None, QUARTER)
    assert on_site([job(8)], "2x4", site) == [100]


def test_switches_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "topology.conf"
    path.write_text(
        "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\nSwitchName=t Switches=a,b\n"
    )
    site = read_site("hgx-a100-4", path, QUARTER)
    assert on_site([job(8)], "4x4", site) == [100]


@pytest.mark.parametrize(("preset", "match"), [("dgx", "one of dgx1-v100"), ("", "No such file")])
def test_a_site_that_cannot_be_read_is_named(tmp_path: Path, preset: str, match: str) -> None:
    with pytest.raises(TraceError, match=match):
        read_site(preset, tmp_path / "none", 25.0)


def test_on_a_node_of_unequal_links_the_pair_that_is_held_counts() -> None:
    site = read_site("dgx1-v100", None, 25.0)
    ends = on_site([job(2, job_id=i) for i in range(1, 5)], "1x8", site)
    assert min(ends) >= 100
    assert max(ends) > 100  # not every two neighbours have the double link
