"""What every implementation of SlurmPort must do, tried on a real Slurm."""

from __future__ import annotations

import time
from typing import Any

import pytest

from slurm_ext.model.decision import JobPatch, Lever, ReservationSpec, Shape
from slurm_ext.model.job import BaseState, Job, JobKey
from slurm_ext.model.ledger import UndoNote, with_note
from slurm_ext.model.reshape import shape_of
from slurm_ext.model.units import indices_of
from slurm_ext.slurm.port import SlurmPort
from tests.live import wait_until

from .driver import Driver, job, settled, wait_job

pytestmark = pytest.mark.slurm

NOBODY = JobKey(987654, 1)


def change(one: Job, **values: Any) -> JobPatch:
    return JobPatch(one.key, one.address, Lever.LEASE, **values)


def running(port: SlurmPort, driver: Driver, *options: str) -> Job:
    return wait_job(port, driver.submit(*options), lambda one: one.state.running, "running")


def test_controller(port: SlurmPort, driver: Driver) -> None:
    controller = port.controller()
    assert controller.version >= (22, 5)
    assert controller.cluster == driver.cluster
    assert controller.multifactor
    assert controller.value("selecttype") == "select/cons_tres"


def test_an_empty_cluster(port: SlurmPort, driver: Driver) -> None:
    seen = settled(port)
    assert [one for one in seen.jobs if not one.state.ended] == []
    assert abs(seen.now_s - time.time()) < 5
    assert [node.name for node in seen.nodes] == ["n1", "n2", "n3", "n4"]
    assert all(node.usable and node.gpu_count == 8 and not node.gpu_used for node in seen.nodes)
    by_name = {part.name: part for part in seen.partitions}
    assert by_name["gpu"].nodes == ("n1", "n2", "n3", "n4")
    assert (by_name["short"].nodes, by_name["short"].max_time_s) == (("n1", "n2"), 3600)


def test_a_queue_in_which_nothing_happens_stays_as_it_is(port: SlurmPort, driver: Driver) -> None:
    held = driver.submit("-H")
    first = job(port, held)
    changed_s = port.observe().now_s
    # Only in a later second than that of the change can slurmctld tell that nothing has changed.
    wait_until(port.observe, lambda look: look.now_s > changed_s + 1, 10, "a later second")
    seen = [one for _ in range(3) for one in port.observe().jobs if one.job_id == held]
    assert seen == [first] * 3


def test_running_jobs_have_gpu_indices(port: SlurmPort, driver: Driver) -> None:
    first = running(port, driver, "-N2", "-n2", "-c4", "--gres=gpu:a100:2", "-w", "n1,n2")
    second = running(port, driver, "--gpus=3", "-n1", "-w", "n1", "--mem=100")
    seen = settled(port)
    jobs = {one.job_id: one for one in seen.jobs}
    shares = {s.node: s for s in jobs[first.job_id].alloc}
    assert set(shares) == {"n1", "n2"}
    assert all(s.gpus == 2 and s.gpu_mask.bit_count() == 2 and s.cpus == 4 for s in shares.values())
    (share,) = jobs[second.job_id].alloc
    assert (share.node, share.gpus, share.mem_mib, share.gpu_type) == ("n1", 3, 100, "a100")
    assert share.gpu_mask & shares["n1"].gpu_mask == 0
    node = next(one for one in seen.nodes if one.name == "n1")
    assert node.gpu_used == share.gpu_mask | shares["n1"].gpu_mask
    assert len(indices_of(node.gpu_used)) == node.gpu_used_count == 5
    assert node.cpus_alloc == 5
    assert jobs[first.job_id].end_s == (jobs[first.job_id].start_s or 0) + 3600


def test_pending_requests(port: SlurmPort, driver: Driver) -> None:
    asked = {
        "total": ("-H", "--gpus=12"),
        "task": ("-H", "-n3", "--gpus-per-task=2"),
        "node": ("-H", "-N2", "--gpus-per-node=a100:4"),
        "range": ("-H", "-N1-4", "--gres=gpu:2"),
        "exclude": ("-H", "-x", "n1,n3", "-w", "n2"),
        "whole": ("-H", "-N1", "--exclusive", "--mem=0"),
        "cpu": ("-H", "-n4", "-c2", "--mem-per-cpu=100"),
        "licence": ("-H", "-L", "sim:2"),
    }
    ids = {name: driver.submit(*options) for name, options in asked.items()}
    jobs = {one.job_id: one for one in port.observe().jobs}
    request = {name: jobs[job_id].request for name, job_id in ids.items()}
    assert all(jobs[job_id].held for job_id in ids.values())
    # 24.11 and 25.11 show the least number of nodes of a job not yet looked at as the most.
    most = {None, 1} if port.controller().version >= (24, 11) else {None}
    assert request["total"].gpus == 12
    assert request["total"].nodes_max in most
    assert (request["task"].gpus, request["task"].tasks) == (6, 3)
    assert (request["node"].gpus, request["node"].gpu_type) == (8, "a100")
    assert (request["node"].nodes_min, request["node"].nodes_max) == (2, 2)
    assert (request["range"].nodes_min, request["range"].nodes_max) == (1, 4)
    assert request["exclude"].excluded_nodes == ("n1", "n3")
    assert request["exclude"].required_nodes == ("n2",)
    assert request["whole"].exclusive
    assert request["whole"].mem_whole_node
    assert (request["cpu"].cpus, request["cpu"].mem_per_cpu_mib) == (8, 100)
    assert request["licence"].unplannable == ()  # Slurm counts them, and says so in its reason
    assert request["cpu"].unplannable == ()


def test_an_array_is_one_record_with_its_tasks(port: SlurmPort, driver: Driver) -> None:
    array = driver.submit("-H", "-a", "0-467%7", "--gpus=1")
    one = job(port, array)
    assert (one.array_count, one.array_throttle, one.array_task_id) == (468, 7, None)
    assert one.address == str(array)


def test_look(port: SlurmPort, driver: Driver) -> None:
    a, b = (job(port, driver.submit("-H")) for _ in range(2))
    seen = port.look([a.key, b.key, NOBODY, JobKey(b.job_id, b.key.submit_s + 9)])
    assert set(seen) == {a.key, b.key}
    assert seen[a.key].held
    assert port.look([]) == {}
    assert port.look([NOBODY]) == {}


def test_site_factor(port: SlurmPort, driver: Driver) -> None:
    driver.fill()
    one = job(port, driver.submit("-N1"))
    assert all(outcome.ok for outcome in port.patch([change(one, site_factor=500)]))
    seen = next(o for o in port.observe(site_factors=True).jobs if o.key == one.key)
    assert seen.site_factor == 500
    assert seen.priority - one.priority == pytest.approx(500, abs=60)
    port.patch([change(one, site_factor=0)])
    seen = next(o for o in port.observe(site_factors=True).jobs if o.key == one.key)
    assert seen.site_factor == 0
    assert job(port, one.job_id).site_factor is None


def test_lease_and_now(port: SlurmPort, driver: Driver) -> None:
    one = job(port, driver.submit("-b", "now+1hour"))
    target = int(time.time()) + 400
    assert port.patch([change(one, begin_s=target)])[0].ok
    assert job(port, one.job_id).begin_s == target
    assert port.patch([change(one, begin_s=0)])[0].ok
    wait_job(port, one.job_id, lambda seen: seen.state.running, "running after begin 0")


def test_pin_and_clear(port: SlurmPort, driver: Driver) -> None:
    one = job(port, driver.submit("-b", "now+1hour", "--gres=gpu:1"))
    assert port.patch([change(one, required_nodes=("n3",), excluded_nodes=("n1", "n2"))])[0].ok
    request = job(port, one.job_id).request
    assert (request.required_nodes, request.excluded_nodes) == (("n3",), ("n1", "n2"))
    assert port.patch([change(one, required_nodes=(), excluded_nodes=())])[0].ok
    request = job(port, one.job_id).request
    assert (request.required_nodes, request.excluded_nodes) == ((), ())
    assert port.patch([change(one, required_nodes=("n4",), begin_s=0)])[0].ok
    seen = wait_job(port, one.job_id, lambda seen: seen.state.running, "running")
    assert [share.node for share in seen.alloc] == ["n4"]


@pytest.mark.parametrize("partition", ["gpu", "gpu,short"])
def test_a_pin_never_shrinks_a_running_job(port: SlurmPort, driver: Driver, partition: str) -> None:
    """The patch was made for a pending job that has started meanwhile."""
    one = running(port, driver, "-N2", "-n2", "-w", "n1,n2", "-p", partition)
    (outcome,) = port.patch([change(one, required_nodes=("n1",), begin_s=0)])
    assert (outcome.ok, outcome.benign) == (False, True)
    seen = job(port, one.job_id)
    assert [share.node for share in seen.alloc] == ["n1", "n2"]


def test_a_pin_with_several_partitions(port: SlurmPort, driver: Driver) -> None:
    one = job(port, driver.submit("-b", "now+1hour", "-p", "gpu,short"))
    assert port.patch([change(one, required_nodes=("n2",))])[0].ok
    seen = job(port, one.job_id)
    assert (seen.request.required_nodes, seen.partitions) == (("n2",), ("gpu", "short"))
    assert seen.begin_s == one.begin_s


def test_hold_and_release(port: SlurmPort, driver: Driver) -> None:
    one = job(port, driver.submit("-b", "now+1hour"))
    assert port.patch([change(one, hold=True)])[0].ok
    assert job(port, one.job_id).held
    assert port.patch([change(one, hold=False, begin_s=0)])[0].ok
    wait_job(port, one.job_id, lambda seen: seen.state.running, "running after release")


def test_a_hold_that_comes_too_late_leaves_no_trace(port: SlurmPort, driver: Driver) -> None:
    one = running(port, driver, "-N1")
    (outcome,) = port.patch([change(one, hold=True)])
    assert (outcome.ok, outcome.benign) == (False, True)
    assert job(port, one.job_id).priority > 0


def test_a_hold_of_an_array_spares_its_running_tasks(port: SlurmPort, driver: Driver) -> None:
    array = driver.submit("-a", "0-9%2")

    def tasks() -> list[Job]:
        return [one for one in port.observe().jobs if one.array_job_id == array]

    wait_until(tasks, lambda seen: sum(t.state.running for t in seen) == 2, 30, "two run")
    rest = next(one for one in tasks() if one.state.pending)
    assert port.patch([change(rest, hold=True)])[0].ok
    assert {(t.state.pending, t.priority == 0) for t in tasks()} == {(True, True), (False, False)}


def test_an_array_update_changes_only_what_waits(port: SlurmPort, driver: Driver) -> None:
    array = driver.submit("-a", "0-9%2")

    def tasks() -> list[Job]:
        return [one for one in port.observe().jobs if one.array_job_id == array]

    wait_until(tasks, lambda seen: sum(t.state.running for t in seen) == 2, 30, "two run")
    before = {t.key: t.alloc for t in tasks() if t.state.running}
    rest = next(one for one in tasks() if one.state.pending)
    target = int(time.time()) + 500
    (outcome,) = port.patch([change(rest, begin_s=target, site_factor=9)])
    assert outcome.ok
    assert {t.key: t.alloc for t in tasks() if t.state.running} == before
    assert [t.begin_s for t in tasks() if t.state.pending] == [target]
    single = JobPatch(rest.key, f"{array}_7", Lever.LEASE, begin_s=target + 60)
    assert port.patch([single])[0].ok
    waiting = {t.address: t.begin_s for t in tasks() if t.state.pending}
    assert waiting == {str(array): target, f"{array}_7": target + 60}


def test_tasks_changed_by_their_owner_are_left_alone(port: SlurmPort, driver: Driver) -> None:
    array = driver.submit("-a", "0-9%2", "-b", "now+1hour")
    driver.run("scontrol", "update", f"JobId={array}_3", "StartTime=now+2hours")
    driver.run("scontrol", "uhold", f"{array}_5")

    def tasks() -> dict[str, Job]:
        return {one.address: one for one in port.observe().jobs if one.array_job_id == array}

    before = tasks()
    rest = before[str(array)]
    target = int(time.time()) + 500
    for values in ({"begin_s": target}, {"hold": True}, {"hold": False}):
        assert port.patch([change(rest, **values)])[0].ok
        if values.get("hold"):
            assert tasks()[str(array)].held
    after = tasks()
    assert after.keys() == before.keys()
    assert (after[str(array)].held, after[str(array)].begin_s) == (False, target)
    assert after[f"{array}_3"].begin_s == before[f"{array}_3"].begin_s
    assert after[f"{array}_5"].reason == "JobHeldUser"


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "two words",
        "jobstats:\"x\" 'y' back\\slash a=b; [slurm_ext;lease=1;begin=0]",
        "line one\nline two\n   NumNodes=9",
        "\x01\x02 \x1b[31m é ✓",
        "x" * 60_000,
    ],
    ids=["plain", "blank", "quotes", "lines", "control", "60kB"],
)
def test_a_note_leaves_the_admin_comment_as_it_is(
    port: SlurmPort, driver: Driver, text: str
) -> None:
    job_id = driver.submit("-H")
    driver.run("scontrol", "update", f"JobId={job_id}", f"AdminComment={text}")
    one = job(port, job_id)
    assert one.admin_comment == text
    noted = with_note(text, UndoNote(lease_until_s=1_900_000_000))
    assert port.patch([change(one, admin_comment=noted, site_factor=1)])[0].ok
    assert job(port, job_id).admin_comment == noted
    assert port.patch([change(one, admin_comment=text)])[0].ok
    assert job(port, job_id).admin_comment == text


def test_outcomes_stand_in_the_order_of_the_patches(port: SlurmPort, driver: Driver) -> None:
    waits = [job(port, driver.submit("-H")) for _ in range(3)]
    runs = running(port, driver, "-N1")
    gone = JobPatch(NOBODY, str(NOBODY.job_id), Lever.RANK, site_factor=1)
    patches = [
        change(waits[0], site_factor=1),
        gone,
        change(runs, begin_s=int(time.time()) + 100),
        change(waits[1], admin_comment="needs an argument"),
        JobPatch(waits[1].key, "1; scancel 1", Lever.RANK, site_factor=1),
        change(waits[2], excluded_nodes=("nosuchnode",)),
        change(waits[2], site_factor=2),
    ]
    outcomes = port.patch(patches)
    assert [outcome.key for outcome in outcomes] == [patch.key for patch in patches]
    assert [(o.ok, o.benign) for o in outcomes] == [
        (True, False),
        (False, True),
        (False, True),
        (True, False),
        (False, False),
        (False, False),
        (True, False),
    ]
    assert port.patch([]) == ()


def test_several_hundred_patches(port: SlurmPort, driver: Driver) -> None:
    array = driver.submit("-H", "-a", "0-9")
    one = job(port, array)
    patches = [
        JobPatch(one.key, f"{array}_{i % 10}" if i % 7 else "987654", Lever.RANK, site_factor=i)
        for i in range(410)
    ]
    outcomes = port.patch(patches)
    assert [(o.ok, o.benign) for o in outcomes] == [
        (True, False) if i % 7 else (False, True) for i in range(410)
    ]


def test_requeue(port: SlurmPort, driver: Driver) -> None:
    one = running(port, driver, "-N1", "--requeue")
    waits = job(port, driver.submit("-H"))
    outcomes = port.requeue(
        [(one.key, one.address), (waits.key, waits.address), (NOBODY, "987654")]
    )
    assert [(o.ok, o.benign) for o in outcomes] == [(True, False), (False, True), (False, True)]
    seen = wait_job(port, one.job_id, lambda seen: seen.state.pending, "pending again")
    assert seen.restarts == 1
    assert seen.key != one.key
    assert seen.begin_s is not None


def test_requeue_of_one_task_leaves_the_others(port: SlurmPort, driver: Driver) -> None:
    array = driver.submit("-a", "0-3%2", "--requeue")

    def tasks() -> dict[str, Job]:
        return {one.address: one for one in port.observe().jobs if one.array_job_id == array}

    wait_until(tasks, lambda seen: sum(t.state.running for t in seen.values()) == 2, 30, "two run")
    other, task = (tasks()[f"{array}_{i}"] for i in (0, 1))
    assert port.requeue([(task.key, str(array))])[0].ok is False
    assert port.requeue([(task.key, task.address)])[0].ok
    wait_until(tasks, lambda seen: seen[task.address].state.pending, 30, "task 1 waits")
    assert tasks()[other.address].state.running
    assert tasks()[other.address].restarts == 0


def test_requeue_of_a_finished_job_does_not_run_it_again(port: SlurmPort, driver: Driver) -> None:
    one = job(port, driver.submit(script="true"))
    wait_job(port, one.job_id, lambda seen: seen.state.ended, "ended")
    (outcome,) = port.requeue([(one.key, one.address)])
    assert (outcome.ok, outcome.benign) == (False, True)
    assert job(port, one.job_id).state.base is BaseState.COMPLETED


def test_reservations(port: SlurmPort, driver: Driver) -> None:
    start = int(time.time()) + 600
    spec = ReservationSpec("slurm_ext_t", start, 300, ("n3", "n4"), ("root",))
    assert port.reserve(spec).ok
    (seen,) = port.observe().reservations
    assert (seen.name, seen.start_s, seen.end_s) == ("slurm_ext_t", start, start + 300)
    assert (seen.nodes, seen.users, seen.partial) == (("n3", "n4"), ("root",), False)
    assert any(flag.startswith("NO_HOLD_JOBS") for flag in seen.flags)
    assert not port.reserve(spec).ok
    assert not port.unreserve("gpures").ok
    assert port.unreserve("slurm_ext_t").ok
    assert port.unreserve("slurm_ext_t").benign
    assert port.observe().reservations == ()


def test_rpc_counts(port: SlurmPort, driver: Driver) -> None:
    driver.submit("-H")

    def reads() -> int:
        return sum(n for name, n in port.rpc_counts().items() if name.startswith("REQUEST_JOB"))

    before = reads()
    port.observe()
    assert reads() > before


SHAPES = [
    (("--gpus-per-node=4", "-N1", "-n1", "-c8"), Shape(1, 2, 1, 4, 20), (2, 4, 20)),
    (("--gpus-per-node=2", "-N1", "-n1", "--cpus-per-gpu=4"), Shape(1, 4, 1, 16), (4, 16, 10)),
    (("--gpus-per-node=2", "-N1", "-n1", "--cpus-per-gpu=4"), Shape(1, 2, 1, 20), (2, 20, 10)),
    (("--gpus=4", "-n1", "-c8"), Shape(1, 8, 1, 16), (8, 16, 10)),
    (("--gpus-per-task=1", "-N1", "-n4", "-c2"), Shape(1, 2, 2, 4), (2, 4, 10)),
]


def test_a_waiting_job_takes_another_shape(port: SlurmPort, driver: Driver) -> None:
    ids = [driver.submit("--begin=now+1hour", *options) for options, _, _ in SHAPES]
    jobs = [job(port, job_id) for job_id in ids]
    shaped = [
        change(one, shape=shape, begin_s=0) for one, (_, shape, _) in zip(jobs, SHAPES, strict=True)
    ]
    assert all(outcome.ok for outcome in port.patch(shaped))
    for job_id, (_, _, held) in zip(ids, SHAPES, strict=True):
        (share,) = wait_job(port, job_id, lambda one: one.state.running, "running").alloc
        assert (share.gpus, share.cpus, share.mem_mib) == held
    late = change(jobs[0], shape=Shape(1, 1, 1, 1))
    (outcome,) = port.patch([late])
    assert (outcome.ok, outcome.benign) == (False, True)


def test_a_shape_is_taken_back(port: SlurmPort, driver: Driver) -> None:
    one = job(port, driver.submit("--begin=now+1hour", "--gpus-per-node=4", "-N1", "-n1", "-c8"))
    before = shape_of(one.request)
    for shape in (Shape(1, 8, 1, 16, 30), before):
        (outcome,) = port.patch([change(one, shape=shape)])
        assert outcome.ok
        assert shape_of(job(port, one.job_id).request) == shape
    per_gpu = driver.submit("--begin=now+1hour", "--gpus-per-node=8", "-n1", "--cpus-per-gpu=2")
    one = job(port, per_gpu)
    before = shape_of(one.request)
    for shape in (Shape(1, 2, 1, 4), before):
        (outcome,) = port.patch([change(one, shape=shape, begin_s=0 if shape == before else None)])
        assert outcome.ok
    (share,) = wait_job(port, per_gpu, lambda one: one.state.running, "running").alloc
    assert (share.gpus, share.cpus) == (8, 16)
    fixed = job(port, driver.submit("-H", "--gpus-per-node=4", "-N1", "--ntasks-per-node=4"))
    (outcome,) = port.patch([change(fixed, shape=Shape(1, 2, 2, 2))])
    assert "--ntasks-per-node" in outcome.detail
