"""Slurm with the daemon's cycle beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_ext.engine.settings import Context, LeverSettings
from slurm_ext.errors import SlurmUnavailableError
from slurm_ext.model.decision import Mode
from slurm_ext.policies import get
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.metrics import measure
from slurm_ext.sim.outcome import SimResult
from slurm_ext.sim.settings import SlurmSettings
from slurm_ext.sim.simslurm import SimSlurm
from slurm_ext.sim.simulate import Simulation
from slurm_ext.sim.workload import TraceJob, Workload
from tests.sim.helpers import check_conserved, starts

SPEC = ClusterSpec.uniform(4)
TUNED = SlurmSettings(bf_interval_s=2, sched_interval_s=2, bf_resolution_s=1, plans=0)
LEVERS = LeverSettings(interval_s=1, lease_s=60)


def crowded(count: int = 80) -> Workload:
    """Short and long jobs in turn, many at once."""
    sizes, runs = (1, 1, 2, 4, 8), (5, 60, 10, 40, 20, 7, 30)
    rows = [
        TraceJob(i, i // 2, runs[i % 7], sizes[i % 5], runs[i % 7] * (2 + i % 6))
        for i in range(1, count + 1)
    ]
    return Workload.of("crowded", rows)


def context(policy: str, mode: Mode, **fields: object) -> Context:
    return Context(get(policy), mode=mode, levers=LEVERS, **fields)  # type: ignore[arg-type]


def steered(policy: str, mode: Mode, workload: Workload | None = None) -> SimResult:
    return Simulation(workload or crowded(), SPEC, TUNED, context(policy, mode)).run()


def test_observe_changes_nothing() -> None:
    stock = Simulation(crowded(), SPEC, TUNED).run()
    found = steered("sjf", Mode.OBSERVE)
    assert starts(found) == starts(stock)
    assert found.counters["patches"] == 0


@pytest.mark.parametrize("mode", [Mode.ORDER, Mode.ENFORCE])
def test_shortest_first_shortens_the_mean(mode: Mode) -> None:
    stock = measure(Simulation(crowded(), SPEC, TUNED).run())
    assert measure(steered("sjf", mode)).jct_mean_s < 0.85 * stock.jct_mean_s


@pytest.mark.parametrize("mode", [Mode.ORDER, Mode.ENFORCE])
@pytest.mark.parametrize("policy", ["fifo", "sjf", "multifactor"])
def test_every_job_ends_once_and_nothing_is_oversubscribed(policy: str, mode: Mode) -> None:
    workload = crowded()
    check_conserved(steered(policy, mode, workload), workload, SPEC.gpus)


def test_the_ledger_is_empty_when_all_is_done() -> None:
    sim = Simulation(crowded(20), SPEC, TUNED, context("sjf", Mode.ENFORCE))
    sim.run()
    assert sim.steering is not None
    sim.steering.cycle(sim.events.now_s + 10)
    assert sim.steering.ledger == {}


def test_an_outage_costs_cycles_but_no_job() -> None:
    sim = Simulation(crowded(), SPEC, TUNED, context("sjf", Mode.ENFORCE))
    assert sim.steering is not None

    def outage(call: str) -> None:
        if call == "observe" and 20 <= sim.events.now_s < 60:
            raise SlurmUnavailableError("slurmctld does not answer")

    sim.steering.port = SimSlurm(sim.core, outage)
    result = sim.run()
    assert sim.steering.failed_cycles == 40
    assert len(result.jobs) == 80


def test_when_the_daemon_dies_leases_lapse() -> None:
    sim = Simulation(crowded(), SPEC, TUNED, context("sjf", Mode.ENFORCE))
    assert sim.steering is not None

    def dead(call: str) -> None:
        if sim.events.now_s >= 20:
            raise SlurmUnavailableError("nobody there")

    sim.steering.port = SimSlurm(sim.core, dead)
    check_conserved(sim.run(), crowded(), SPEC.gpus)


def test_new_jobs_stamped_with_a_lease_wait_for_the_first_look() -> None:
    settings = replace(TUNED, submit_lease_s=4)
    workload = Workload.of("two", [TraceJob(1, 0, 50, 8, 60), TraceJob(2, 0, 5, 8, 10)])
    one = ClusterSpec.uniform(1)
    result = Simulation(workload, one, settings, context("sjf", Mode.ENFORCE)).run()
    assert result.jobs[1].start_s < result.jobs[0].start_s


def test_a_new_job_is_let_go_before_its_first_lease_ends() -> None:
    settings = replace(TUNED, submit_lease_s=30)
    workload = Workload.of("one", [TraceJob(1, 0, 5, 8, 10)])
    sim = Simulation(workload, ClusterSpec.uniform(1), settings, context("sjf", Mode.ENFORCE))
    assert sim.run().jobs[0].start_s <= 2 * LEVERS.interval_s


def test_a_fence_of_whole_nodes_is_reserved_and_given_back() -> None:
    rows = [TraceJob(i, 0, 20 + i, 4, 60) for i in range(1, 9)]
    rows += [TraceJob(9, 1, 30, 32, 60), *(TraceJob(i, 2, 50, 4, 90) for i in range(10, 20))]
    levers = replace(LEVERS, reserve_min_nodes=2)
    steering = replace(context("fifo", Mode.ENFORCE), levers=levers)
    sim = Simulation(Workload.of("wide", rows), SPEC, TUNED, steering)
    result = sim.run()
    assert sim.port.rpc_counts()["create_reservation"] >= 1
    assert sim.port.rpc_counts()["delete_reservation"] >= 1
    check_conserved(result, Workload.of("wide", rows), SPEC.gpus)
