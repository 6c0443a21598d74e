"""Arrays beside a daemon in enforce: whole, split, throttled. One run a way of deferring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.live import soon

from .harness import ENDED, Daemon, Row, Slurm, wait_for

pytestmark = pytest.mark.slurm

TASK = ("--gpus-per-node=1", "--cpus-per-task=1", "--mem=100", "--time=10")
SIZES = {"whole": 10, "split": 6, "split_later": 6, "throttled": 6}


@dataclass
class Run:
    """What became of the arrays; all of them fit early but would delay a whole-cluster job."""

    defer: str
    arrays: dict[str, int] = field(default_factory=dict)
    states: dict[str, dict[str, str]] = field(default_factory=dict)
    first_start: dict[str, str] = field(default_factory=dict)
    whole_cluster_start: str = ""
    most_at_once: int = 0
    actions: list[Row] = field(default_factory=list)
    errors: list[Row] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    marked: list[int] = field(default_factory=list)


def play(slurm: Slurm, daemon: Daemon, defer: str, gate: Path) -> Run:
    run = Run(defer)
    whole = ("--nodes=4", "--cpus-per-task=1", "--mem=100")
    filler = slurm.submit(*whole, "--gpus-per-node=6", "--time=4", until=gate)
    slurm.wait_state([filler], {"RUNNING"}, 20)
    begin = soon(2)
    promised = slurm.submit(*whole, "--gpus-per-node=8", begin)
    arrays = run.arrays
    arrays["whole"] = slurm.submit(*TASK, begin, "--array=0-9")
    arrays["split"] = slurm.submit(*TASK, begin, "--array=0-5")
    slurm.update(f"{arrays['split']}_[2-3]", TimeLimit=9)
    arrays["split_later"] = slurm.submit(*TASK, begin, "--array=0-5")
    arrays["throttled"] = slurm.submit(*TASK, begin, "--array=0-5%2")
    wait_for(lambda: daemon.actions(arrays["split_later"]), 15, "a mark on the array", daemon.log)
    slurm.update(f"{arrays['split_later']}_[2-3]", TimeLimit=9)
    daemon.wait_cycles(2)
    gate.touch()

    def ended() -> bool:
        states = slurm.states([promised, *arrays.values()])
        mine = [s for a, s in states.items() if a.startswith(f"{arrays['throttled']}_")]
        run.most_at_once = max(run.most_at_once, mine.count("RUNNING"))
        return set(states.values()) <= ENDED

    wait_for(ended, 90, "all arrays ended", lambda: slurm.describe(list(arrays.values())))
    daemon.wait_cycles(1)
    for name, array in arrays.items():
        queue = slurm.queue([array])
        run.states[name] = {address: row["state"] for address, row in queue.items()}
        run.first_start[name] = min(row["start"] for row in queue.values())
    run.whole_cluster_start = slurm.queue([promised])[str(promised)]["start"]
    run.actions, run.errors = daemon.actions(), daemon.errors()
    run.held, run.marked = slurm.held(), slurm.marked()
    return run


@pytest.fixture(scope="module", params=["lease", "hold"])
def run(
    request: pytest.FixtureRequest, shared_cluster: Slurm, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    shared_cluster.clean()
    settings = {"policy__name": "fifo", "levers__defer": request.param}
    directory = tmp_path_factory.mktemp("d")
    with Daemon(shared_cluster, directory, **settings) as daemon:
        found = play(shared_cluster, daemon, request.param, directory / "gate")
    for name, array in found.arrays.items():
        mine = {int(a.split("_")[0]) for a in found.states[name]} | {array}
        what = [(a["lever"], a["why"]) for a in found.actions if a["job_id"] in mine]
        print(f"\narray {name}, {request.param}: {what}", end="")
    print()
    return found


@pytest.mark.parametrize("name", SIZES)
def test_every_task_completes(run: Run, name: str) -> None:
    assert len(run.states[name]) == SIZES[name]
    assert set(run.states[name].values()) == {"COMPLETED"}


@pytest.mark.parametrize("name", SIZES)
def test_no_task_passes_the_promised_job(run: Run, name: str) -> None:
    assert run.first_start[name] >= run.whole_cluster_start


def test_throttle_is_kept(run: Run) -> None:
    assert 1 <= run.most_at_once <= 2


def test_nothing_is_left_held_or_marked(run: Run) -> None:
    assert (run.held, run.marked) == ([], [])


def test_no_write_is_refused(run: Run) -> None:
    assert run.errors == []


def test_arrays_were_deferred(run: Run) -> None:
    """Else the other tests of this run show nothing."""
    assert run.defer in {a["lever"] for a in run.actions if a["job_id"] == run.arrays["whole"]}


def test_array_on_an_empty_cluster_loses_no_time(
    slurm: Slurm, daemon: Callable[..., Daemon]
) -> None:
    beside = daemon(policy__name="fifo")
    array = slurm.submit(*TASK, soon(2), "--array=0-9")
    eligible = slurm.show(array, "EligibleTime")["EligibleTime"]
    slurm.wait_completed([array], 30)
    starts = sorted(row["start"] for row in slurm.queue([array]).values())
    print(f"\narray of ten: eligible {eligible}, started {starts[0]} to {starts[-1]}")
    assert starts[-1][:-3] == starts[0][:-3] or beside.errors() == []
    assert beside.errors() == []
