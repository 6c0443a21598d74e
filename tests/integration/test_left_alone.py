"""What is not ours stays untouched, in a crowded queue beside a daemon in enforce.

One run for all tests: a job on most of each node, a whole-cluster job behind it, and many small
long-limit jobs that fit now but would delay the promised start, so that ours get deferred.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.live import soon

from .harness import Daemon, Row, Slurm, wait_for

pytestmark = pytest.mark.slurm

SMALL = ("--gpus-per-node=1", "--cpus-per-task=1", "--mem=100", "--time=10")
FOREIGN = (*SMALL[:3], "--time=1")
FIELDS = ("Priority", "EligibleTime", "ReqNodeList", "ExcNodeList", "AdminComment")
HET = """#!/bin/sh
#SBATCH --gpus-per-node=1 --mem=100 --time=1
#SBATCH hetjob
#SBATCH --gpus-per-node=1 --mem=100 --time=1
sleep 1
"""


@dataclass
class Run:
    """What was submitted and what was seen of it."""

    jobs: dict[str, int] = field(default_factory=dict)
    before: dict[str, dict[str, str]] = field(default_factory=dict)
    waiting: dict[str, dict[str, str]] = field(default_factory=dict)
    verdicts: dict[str, tuple[str, str]] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    started_s: dict[str, int] = field(default_factory=dict)
    ended_s: dict[str, int] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    released_s: int = 0
    interactive: dict[str, int] = field(default_factory=dict)
    actions: list[Row] = field(default_factory=list)
    starts: list[Row] = field(default_factory=list)
    errors: list[Row] = field(default_factory=list)
    held: list[str] = field(default_factory=list)

    def touched(self, name: str) -> list[Row]:
        return [a for a in self.actions if a["job_id"] == self.jobs[name]]


def epoch(slurm: Slurm, job: int, key: str) -> int:
    text = slurm.show(job, key)[key]
    return int(time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))


def submit_all(slurm: Slurm, run: Run) -> None:
    begin = soon(2)
    jobs = run.jobs
    filler, whole = jobs["filler"], ("--nodes=4", "--cpus-per-task=1", "--mem=100")
    jobs["whole"] = slurm.submit(*whole, "--gpus-per-node=8", "--time=2", begin)
    jobs["ordinary"] = slurm.submit(*SMALL, begin, run_s=3)
    jobs["dependent"] = slurm.submit(*FOREIGN, f"--dependency=afterok:{filler}")
    jobs["begin"] = slurm.submit(*SMALL, soon(14), run_s=3)
    jobs["user_held"] = slurm.submit(*FOREIGN, begin)
    slurm.run("scontrol", "uhold", str(jobs["user_held"]))
    jobs["admin_held"] = slurm.submit(*FOREIGN, begin)
    slurm.run("scontrol", "hold", str(jobs["admin_held"]))
    jobs["optout"] = slurm.submit(*FOREIGN, begin, "--comment=slurm_ext:off")
    jobs["switches"] = slurm.submit(*FOREIGN, begin, "--switches=1")
    jobs["het"] = slurm.submit(begin, script=HET)
    jobs["partitions"] = slurm.submit(*SMALL, begin, "--partition=gpu,late", run_s=3)
    jobs["exclusive"] = slurm.submit(*SMALL, begin, "--exclusive", run_s=3)
    jobs["constraint"] = slurm.submit(*SMALL, begin, "--constraint=ib", run_s=3)
    jobs["nodelist"] = slurm.submit(*SMALL, begin, "--nodelist=b1", run_s=3)
    jobs["exclude"] = slurm.submit(*SMALL, begin, "--exclude=a1,b[1-2]", run_s=3)
    run.before = {name: slurm.show(job, *FIELDS) for name, job in jobs.items()}


def play(slurm: Slurm, daemon: Daemon, gate: Path) -> Run:
    run = Run()
    run.jobs["filler"] = slurm.submit(
        "--nodes=4", "--gpus-per-node=6", "--cpus-per-task=1", "--mem=100", "--time=4", until=gate
    )
    slurm.wait_state([run.jobs["filler"]], {"RUNNING"}, 20)
    submit_all(slurm, run)
    commands = {
        "srun": ("srun", *FOREIGN, "sleep", "1"),
        "salloc": ("salloc", *FOREIGN, "sleep", "1"),
    }
    open_ones = {name: slurm.popen(*words) for name, words in commands.items()}
    daemon.wait_seen(list(run.jobs.values()))
    wait_for(lambda: daemon.actions(run.jobs["ordinary"]), 20, "a lease", daemon.log)
    daemon.wait_cycles(2)
    seen = daemon.decisions()
    for name, job in run.jobs.items():
        found = [d for d in seen.values() if d["job_id"] == job]
        if found:
            run.verdicts[name] = (found[0]["verdict"], found[0]["reasons"][0]["code"])
        run.waiting[name] = slurm.show(job, *FIELDS, "JobState")
    gate.touch()
    held = [run.jobs["user_held"], run.jobs["admin_held"]]
    others = [job for job in run.jobs.values() if job not in held]
    slurm.wait_ended(others, 90)
    daemon.wait_cycles(2)
    run.released_s = int(time.time())
    for job in held:
        slurm.run("scontrol", "release", str(job))
    slurm.wait_ended(held, 30)
    for name, process in open_ones.items():
        run.interactive[name] = process.wait(60)
    daemon.wait_cycles(2)
    queue = slurm.queue()
    for name, job in run.jobs.items():
        row = queue.get(str(job)) or queue[f"{job}+0"]
        run.ended[name], run.nodes[name] = row["state"], row["nodes"]
        run.started_s[name] = epoch(slurm, job, "StartTime")
        run.ended_s[name] = epoch(slurm, job, "EndTime")
        run.notes[name] = slurm.show(job, "AdminComment")["AdminComment"]
    run.actions, run.starts, run.errors = daemon.actions(), daemon.starts(), daemon.errors()
    run.held = slurm.held()
    return run


@pytest.fixture(scope="module")
def run(shared_cluster: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    shared_cluster.clean()
    directory = tmp_path_factory.mktemp("d")
    with Daemon(shared_cluster, directory, policy__name="fifo") as daemon:
        found = play(shared_cluster, daemon, directory / "gate")
        for name, job in found.jobs.items():
            what = [(a["lever"], a["why"]) for a in found.touched(name)]
            print(f"\n{name} {job}: {found.verdicts.get(name)} {found.nodes[name]} {what}", end="")
        print()
        yield found


def test_every_job_completes(run: Run) -> None:
    assert {name: state for name, state in run.ended.items() if state != "COMPLETED"} == {}


def test_nothing_stays_marked_or_refused(run: Run) -> None:
    assert (run.held, run.errors) == ([], [])


def test_an_ordinary_job_is_deferred_behind_the_promise(run: Run) -> None:
    """The queue is such that a job of ours has to be held back: else the tests show nothing."""
    assert run.verdicts["ordinary"] == ("wait", "behind_fence")
    assert "lease" in [a["lever"] for a in run.touched("ordinary")]
    assert run.started_s["ordinary"] >= run.started_s["whole"]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("optout", "opted_out"),
        ("switches", "unplannable"),
        ("het", "het_job"),
    ],
)
def test_what_is_not_ours_is_never_touched(run: Run, name: str, code: str) -> None:
    assert run.touched(name) == []
    if name in run.verdicts and run.verdicts[name][0] != "running":
        assert run.verdicts[name] == ("unmanaged", code)


@pytest.mark.parametrize("name", ["user_held", "admin_held"])
def test_held_job_stays_held_until_its_owner_releases_it(run: Run, name: str) -> None:
    assert run.verdicts[name] == ("unmanaged", "held")
    assert [a for a in run.touched(name) if a["at_s"] < run.released_s] == []
    assert {k: run.waiting[name][k] for k in FIELDS} == run.before[name]
    assert run.started_s[name] >= run.released_s


@pytest.mark.parametrize("name", ["srun", "salloc"])
def test_interactive_job_runs_and_is_not_touched(run: Run, name: str) -> None:
    assert run.interactive[name] == 0
    assert {a["job_id"] for a in run.actions} <= set(run.jobs.values())


def test_dependent_job_is_not_touched_before_its_dependency_ends(run: Run) -> None:
    assert run.verdicts["dependent"] == ("ineligible", "dependency")
    early = [a for a in run.touched("dependent") if a["at_s"] < run.ended_s["filler"]]
    assert early == []
    assert run.started_s["dependent"] >= run.ended_s["filler"]


def test_begin_time_of_the_user_is_kept(run: Run) -> None:
    assert run.verdicts["begin"] == ("ineligible", "begin_time")
    begin_s = time.mktime(time.strptime(run.before["begin"]["EligibleTime"], "%Y-%m-%dT%H:%M:%S"))
    assert [a for a in run.touched("begin") if a["at_s"] < begin_s - 3] == []
    assert run.started_s["begin"] >= begin_s


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("constraint", {"b1", "b2"}),
        ("nodelist", {"b1"}),
        ("exclude", {"a2"}),
        ("exclusive", {"a1", "a2", "b1", "b2"}),
        ("partitions", {"a1", "a2", "b1", "b2"}),
    ],
)
def test_job_runs_where_it_asked_to(run: Run, name: str, nodes: set[str]) -> None:
    assert run.nodes[name] in nodes


def test_exclusive_job_has_its_node_alone(run: Run) -> None:
    node = run.nodes["exclusive"]
    begun, ended = run.started_s["exclusive"], run.ended_s["exclusive"]
    beside = [
        name
        for name, where in run.nodes.items()
        if name != "exclusive" and where == node
        and run.started_s[name] < ended and run.ended_s[name] > begun
    ]  # fmt: skip
    assert beside == []


def test_no_undo_note_is_left_in_the_job(run: Run) -> None:
    assert {name: text for name, text in run.notes.items() if text not in ("", "(null)")} == {}


def test_every_start_of_ours_has_a_record(run: Run) -> None:
    ours = ["whole", "ordinary", "constraint", "nodelist", "exclude", "exclusive", "partitions"]
    records = {row["job_id"]: row for row in run.starts}
    missing = [name for name in ours if run.jobs[name] not in records]
    assert missing == []
    assert all(row["same_nodes"] or row["why"] for row in run.starts)
