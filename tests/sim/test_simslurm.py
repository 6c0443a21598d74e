"""The simulated Slurm behind its port: the life of a job, patches, looking."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_ext.model.decision import JobPatch, Lever, ReservationSpec
from slurm_ext.model.job import JobKey
from slurm_ext.sim.errors import SimulationError
from slurm_ext.sim.record import SimJob
from slurm_ext.sim.settings import PROMPT
from slurm_ext.sim.simulate import Simulation
from slurm_ext.sim.workload import TraceJob, Workload
from tests.sim.helpers import TWO, jobs, patch, simulation, starts, until


def job_of(sim: Simulation, job_id: int) -> SimJob:
    return sim.core.jobs.get(job_id) or sim.core.ended[job_id]


# -- the life of a job -----------------------------------------------------------------------


def test_a_job_is_killed_at_its_limit() -> None:
    settings = replace(PROMPT, term_s=50, kill_wait_s=30)
    outcome = simulation(jobs((0, 100, 1, 60)), settings=settings).run().jobs[0]
    assert (outcome.state, outcome.end_s) == ("TIMEOUT", 90)


def test_its_nodes_stay_taken_until_it_is_dead() -> None:
    settings = replace(PROMPT, term_s=20)
    assert starts(simulation(jobs((0, 100, 8, 60), (1, 10, 8)), settings=settings).run()) == [0, 80]


def test_epilog_keeps_nodes_but_the_job_has_ended() -> None:
    result = simulation(
        jobs((0, 100, 8), (1, 10, 8)), settings=replace(PROMPT, epilog_s=7)
    ).run()  # fmt: skip
    assert (result.jobs[0].end_s, result.jobs[1].start_s) == (100, 107)


def test_start_latency_adds_to_the_stay() -> None:
    workload = jobs((0, 100, 1, 600))
    assert (
        simulation(workload, settings=replace(PROMPT, start_latency_s=5)).run().jobs[0].end_s == 105
    )


def test_limits_may_be_ignored() -> None:
    settings = replace(PROMPT, kill=False)
    assert simulation(jobs((0, 100, 1, 60)), settings=settings).run().jobs[0].end_s == 100


@pytest.mark.parametrize(
    ("checkpoint_s", "restart_s", "end_s", "lost_s"),
    [(0, 0, 50 + 121 + 200, 50), (20, 5, 50 + 121 + 165, 15)],
    ids=["from nothing", "from the last checkpoint"],
)
def test_requeue(checkpoint_s: int, restart_s: int, end_s: int, lost_s: int) -> None:
    spec = TraceJob(1, 0, 200, 1, 900, checkpoint_s=checkpoint_s, restart_s=restart_s)
    sim = until(simulation(Workload.of("one", [spec])), 50)
    key = sim.core.jobs[1].key
    assert sim.port.requeue([(key, "1")])[0].ok
    outcome = sim.run().jobs[0]
    assert (outcome.end_s, outcome.lost_s, outcome.restarts) == (end_s, lost_s, 1)
    assert outcome.first_start_s == 0


def test_a_requeue_gives_a_new_key_and_shows_completing_first() -> None:
    sim = until(simulation(jobs((0, 200, 1)), settings=replace(PROMPT, term_s=10)), 50)
    old = sim.core.jobs[1].key
    sim.port.requeue([(old, "1")])
    assert sim.port.observe().jobs[0].state.completing
    until(sim, 60)
    job = sim.port.observe().jobs[0]
    assert (job.key, job.reason, job.begin_s) == (JobKey(1, 60), "BeginTime", 60 + 121)


def test_requeue_of_a_waiting_job_is_a_benign_nothing() -> None:
    sim = until(simulation(jobs((0, 100, 8), (0, 10, 8))), 5)
    outcome = sim.port.requeue([(sim.core.jobs[2].key, "2")])[0]
    assert (outcome.ok, outcome.benign) == (False, True)


# -- patches ---------------------------------------------------------------------------------


def test_a_lease_defers_and_lapses_by_itself() -> None:
    sim = until(simulation(jobs((0, 20, 8), (1, 10, 8), (2, 10, 8))), 3)
    patch(sim, 2, begin_s=100)
    assert sim.port.observe().jobs[1].reason == "BeginTime"
    assert starts(sim.run()) == [0, 100, 20]


def test_an_overwritten_lease_does_not_lapse_early() -> None:
    sim = until(simulation(jobs((0, 20, 8), (1, 10, 8))), 3)
    patch(sim, 2, begin_s=50)
    patch(sim, 2, begin_s=90)
    assert starts(sim.run())[1] == 90


def test_hold_and_release() -> None:
    sim = until(simulation(jobs((0, 20, 8), (1, 10, 8))), 3)
    patch(sim, 2, hold=True)
    assert sim.port.observe().jobs[1].held
    until(sim, 40)
    patch(sim, 2, hold=False)
    assert starts(sim.run())[1] == 40


def test_site_factor_moves_a_job_ahead() -> None:
    sim = until(simulation(jobs((0, 20, 8), (1, 10, 8), (2, 10, 8))), 3)
    patch(sim, 3, Lever.RANK, site_factor=10)
    assert starts(sim.run()) == [0, 30, 20]


def test_exclude() -> None:
    sim = until(simulation(jobs((0, 20, 16), (1, 10, 1)), TWO), 3)
    patch(sim, 2, excluded_nodes=("n1",))
    assert sim.run().jobs[1].nodes == ("n2",)


def test_patches_that_come_too_late_are_benign() -> None:
    sim = until(simulation(jobs((0, 20, 8))), 3)
    running = JobPatch(sim.core.jobs[1].key, "1", Lever.LEASE, begin_s=100)
    gone = JobPatch(JobKey(1, 999), "1", Lever.LEASE, begin_s=100)
    assert [(o.ok, o.benign) for o in sim.port.patch([running, gone])] == [(False, True)] * 2


def test_unknown_nodes_are_refused_and_change_nothing() -> None:
    sim = until(simulation(jobs((0, 20, 8), (1, 10, 8))), 3)
    assert not patch(sim, 2, begin_s=500, required_nodes=("n9",))
    assert starts(sim.run())[1] == 20


def test_admin_comment_is_kept() -> None:
    sim = until(simulation(jobs((0, 20, 8), (1, 10, 8))), 3)
    patch(sim, 2, admin_comment="note")
    assert sim.port.observe().jobs[1].admin_comment == "note"


def test_reserved_nodes_stay_free_for_their_time() -> None:
    sim = until(simulation(jobs((5, 50, 8), (5, 5, 8))), 0)
    spec = ReservationSpec("slurm_ext_1", 40, 10, ("n1",), ("root",))
    assert sim.port.reserve(spec).ok
    assert not sim.port.reserve(spec).ok
    assert starts(sim.run()) == [60, 30]


def test_a_magnetic_reservation_is_open_to_its_users() -> None:
    workload = Workload.of("two", [TraceJob(1, 5, 50, 8, 50, user="a"),
                                   TraceJob(2, 6, 50, 8, 50, user="b")])  # fmt: skip
    sim = until(simulation(workload, TWO), 0)
    sim.port.reserve(ReservationSpec("slurm_ext_1", 0, 300, ("n1", "n2"), ("b",), ("MAGNETIC",)))
    assert starts(sim.run()) == [300, 30]


def test_a_running_job_takes_text_but_no_node_list() -> None:
    sim = until(simulation(jobs((0, 20, 8))), 3)
    assert patch(sim, 1, Lever.RESTORE, admin_comment="gone")
    assert sim.port.observe().jobs[0].admin_comment == "gone"
    assert not patch(sim, 1, Lever.RESTORE, admin_comment="x", required_nodes=())
    assert sim.port.observe().jobs[0].admin_comment == "gone"


def test_foreign_reservations_are_not_deleted() -> None:
    assert not simulation(jobs((0, 1, 1))).port.unreserve("maint").ok


# -- looking ---------------------------------------------------------------------------------


def test_look_knows_ended_jobs() -> None:
    sim = until(simulation(jobs((0, 20, 8))), 30)
    key = job_of(sim, 1).key
    assert sim.port.look([key, JobKey(9, 9)])[key].state.ended


def test_running_jobs_show_where_they_are_and_when_their_limit_ends() -> None:
    sim = until(simulation(jobs((0, 20, 2, 60))), 1)
    job = sim.port.observe().jobs[0]
    assert (job.end_s, job.alloc[0].gpu_mask, job.reason) == (60, 0b11, "")


def test_calls_are_counted() -> None:
    sim = until(simulation(jobs((0, 20, 8), (1, 10, 8))), 3)
    sim.port.observe()
    patch(sim, 2, begin_s=100)
    assert sim.port.rpc_counts() == {"observe": 1, "update": 1}


def test_a_job_that_never_starts_is_an_error() -> None:
    sim = until(simulation(jobs((0, 20, 8), (1, 10, 8))), 3)
    patch(sim, 2, hold=True)
    with pytest.raises(SimulationError, match="never started"):
        sim.run()


def test_ids_are_unique() -> None:
    with pytest.raises(SimulationError, match="twice"):
        simulation(Workload.of("x", [TraceJob(1, 0, 5, 1), TraceJob(1, 1, 5, 1)])).run()
