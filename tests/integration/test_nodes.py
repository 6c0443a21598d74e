"""Drained and down nodes and the reservations of others, beside a daemon in enforce."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.live import soon

from .harness import Daemon, Row, Slurm, wait_for

pytestmark = pytest.mark.slurm

WHOLE = ("--gpus-per-node=8", "--cpus-per-task=1", "--mem=100", "--time=1")
KEPT = ("ReqNodeList", "AdminComment", "Priority")


@dataclass
class Run:
    """a1 is drained, a2 is down, b1 is reserved for nobody: b2 is left."""

    ours: list[int] = field(default_factory=list)
    on_drained: int = 0
    on_down: int = 0
    inside: int = 0
    inside_before: dict[str, str] = field(default_factory=dict)
    inside_after: dict[str, str] = field(default_factory=dict)
    nodes: dict[int, str] = field(default_factory=dict)
    verdicts: dict[int, tuple[str, str]] = field(default_factory=dict)
    states_while_out: dict[str, str] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    actions: list[Row] = field(default_factory=list)
    errors: list[Row] = field(default_factory=list)


def play(slurm: Slurm, daemon: Daemon) -> Run:
    run = Run()
    begin = soon(2)
    run.inside = slurm.submit(*WHOLE, "--reservation=theirs", soon(4), user="nobody")
    run.inside_before = slurm.show(run.inside, *KEPT)
    run.on_drained = slurm.submit(*WHOLE, begin, "--nodelist=a1")
    run.on_down = slurm.submit(*WHOLE, begin, "--nodelist=a2")
    run.ours = [slurm.submit(*WHOLE, begin) for _ in range(3)]
    daemon.wait_seen([*run.ours, run.on_drained, run.on_down, run.inside])
    slurm.wait_ended([*run.ours, run.inside], 60)
    daemon.wait_cycles(2)
    for one in daemon.decisions().values():
        run.verdicts[one["job_id"]] = (one["verdict"], one["reasons"][0]["code"])
    run.states_while_out = slurm.states([run.on_drained, run.on_down])
    run.inside_after = slurm.show(run.inside, *KEPT)
    for name in ("a1", "a2"):
        slurm.run("scontrol", "update", f"NodeName={name}", "State=RESUME")
    slurm.wait_ended([run.on_drained, run.on_down], 40)
    jobs = [*run.ours, run.inside, run.on_drained, run.on_down]
    queue = slurm.queue(jobs)
    run.nodes = {int(address): row["nodes"] for address, row in queue.items()}
    run.ended = slurm.states(jobs)
    run.actions, run.errors = daemon.actions(), daemon.errors()
    return run


@pytest.fixture(scope="module")
def run(shared_cluster: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    slurm = shared_cluster
    slurm.clean()
    try:
        slurm.run("scontrol", "update", "NodeName=a1", "State=DRAIN", "Reason=test")
        slurm.run("scontrol", "update", "NodeName=a2", "State=DOWN", "Reason=test")
        slurm.run(
            "scontrol", "create", "reservation", "ReservationName=theirs", "StartTime=now",
            "Duration=30", "Users=nobody", "Nodes=b1",
        )  # fmt: skip
        wait_for(lambda: "reserved" in slurm.node_states()["b1"], 10, "b1 is reserved")
        with Daemon(slurm, tmp_path_factory.mktemp("d"), policy__name="fifo") as daemon:
            yield play(slurm, daemon)
    finally:
        slurm.clean()


def test_every_job_completes(run: Run) -> None:
    assert set(run.ended.values()) == {"COMPLETED"}, run.ended
    assert run.errors == []


def test_ours_use_only_the_node_that_is_left(run: Run) -> None:
    assert {run.nodes[job] for job in run.ours} == {"b2"}


def test_no_pin_names_a_node_that_is_out(run: Run) -> None:
    early = [a for a in run.actions if a["job_id"] in run.ours]
    pins = {node for a in early for node in a["patch"].get("required_nodes") or ()}
    assert pins <= {"b2"}


def test_job_in_the_others_reservation_is_untouched(run: Run) -> None:
    assert run.nodes[run.inside] == "b1"
    assert run.inside_after == run.inside_before
    assert [a for a in run.actions if a["job_id"] == run.inside] == []


def test_jobs_for_nodes_that_are_out_wait_and_say_why(run: Run) -> None:
    assert set(run.states_while_out.values()) == {"PENDING"}
    assert run.verdicts[run.on_drained] == ("wait", "nodes_unavailable")
    assert run.verdicts[run.on_down] == ("wait", "nodes_unavailable")


def test_jobs_for_nodes_that_were_out_start_there_when_they_are_back(run: Run) -> None:
    assert run.nodes[run.on_drained] == "a1"
    assert run.nodes[run.on_down] == "a2"
