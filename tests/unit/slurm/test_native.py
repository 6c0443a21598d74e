"""The native way: a recorded conversation, what fills its gaps, and where changes go."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.errors import SlurmUnavailableError
from slurm_ext.model.decision import JobPatch, Lever
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.ledger import UndoNote, with_note
from slurm_ext.slurm.actions import Command
from slurm_ext.slurm.native_process import Child
from slurm_ext.slurm.native_reader import NativeReader, read_partitions
from slurm_ext.slurm.native_rows import COLUMNS, Gaps, Line, build, read_lasting
from slurm_ext.slurm.native_writer import NativeWriter, change_of
from slurm_ext.slurm.reader import TextReader
from tests import builders

from . import pythons, replay
from .test_writer import Listener


class Site:
    """A reader on the recorded moment."""

    def __init__(self, child: Child) -> None:
        self.commands = replay.Commands()
        self.child = child
        self.reader = NativeReader(child, self.commands, TextReader(self.commands))

    def jobs(self) -> dict[str, Job]:
        return {job.address: job for job in self.reader.observe().jobs}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    child = replay.child(tmp_path)
    yield Site(child)
    child.close()


def test_a_recorded_look_is_the_one_that_the_commands_give(site: Site) -> None:
    seen = site.reader.observe()
    other = TextReader(replay.Commands()).observe()
    assert len(seen.jobs) == 27
    shown = {job.key: job for job in other.jobs}
    assert {job.key: job for job in seen.jobs if job.key in shown} == shown
    # squeue folds this task into its array; its answer to -r was not recorded.
    assert [job.address for job in seen.jobs if job.key not in shown] == ["9_7"]
    assert replace(seen, jobs=(), problems=()) == replace(other, jobs=(), problems=())


def test_what_pyslurm_loses_is_there(site: Site) -> None:
    jobs = site.jobs()
    by_name = {job.name: job for job in jobs.values()}
    assert by_name["None"].comment == "None"
    assert [jobs[a].array_task_id for a in jobs if a.endswith("_0")] == [0, 0]
    assert sorted(j.het_offset for j in jobs.values() if j.het_offset is not None) == [0, 1]
    assert {job.request.gpus for job in jobs.values()} >= {12, 6, 8}
    assert any(job.dependency.startswith("afterok:") for job in jobs.values())
    assert any(job.request.mem_whole_node for job in jobs.values())
    assert by_name["filler"].admin_comment == "a b=c"
    assert [(share.gpus, share.gpu_mask) for share in by_name["filler"].alloc] == [(2, 3), (2, 3)]


def test_the_commands_are_asked_once_for_what_does_not_change(site: Site) -> None:
    first = site.reader.observe()
    asked = [call.split()[0] for call in site.commands.asked]
    assert asked.count("squeue") >= 1
    site.commands.asked.clear()
    assert site.reader.observe() == first
    (call,) = site.commands.asked
    assert call.endswith("show config show reservation show node")


def test_a_look_at_some_jobs(site: Site) -> None:
    jobs = site.jobs()
    single = next(job for job in jobs.values() if job.name == "filler")
    task = next(job for job in jobs.values() if job.array_task_id == 0)
    site.commands.asked.clear()
    found = site.reader.look([single.key, JobKey(single.job_id, 1), JobKey(99, 1)])
    assert found == {single.key: single}
    assert all("squeue" in call or "show job" in call for call in site.commands.asked)
    assert site.reader.look([task.key]) == {task.key: task}  # an array: by the commands
    assert site.reader.rpc_counts()["REQUEST_JOB_INFO"] > 0


def test_a_newer_pyslurm_is_not_used(site: Site) -> None:
    config = (replay.PLACE / "scontrol-config.txt").read_text()
    site.commands.edit["config"] = config.replace("25.11.7", "24.11.5")
    with pytest.raises(SlurmUnavailableError, match=r"25\.11\.2 is newer than slurmctld 24\.11\.5"):
        site.reader.observe()
    site.commands.edit["config"] = config.replace("25.11.7", "26.05.1")
    assert site.reader.observe().jobs


def row(**values: Any) -> tuple[Line, Any]:
    known = {**dict.fromkeys(COLUMNS), "state": "PENDING", "unreadable": [], "layout": [], **values}
    line = Line(7, "[]", json.dumps(list(known.values())))
    found = read_lasting(line)
    assert found is not None
    return line, found


@pytest.mark.parametrize(
    "values",
    [
        {"layout": [["n1", "0-3", 10, "gpu:2(IDX:0-1)"]]},
        {"layout": None},
        {"layout": [["n1", "0-x", 10, "gpu:4"]]},
        {"layout": [[1, 2], "x"]},
        {"layout": [["n1", "0", 10, "gpu:4(IDX:0-3)"]]},  # a list of CPU ids that was cut
    ],
)
def test_an_allocation_that_does_not_add_up_is_carried_by_counts(values: dict[str, Any]) -> None:
    tres = "cpu=4,gres/gpu=4"
    line, one = row(state="RUNNING", allocated_nodes="n1", allocated=tres, cpus=4, **values)
    problems: list[Any] = []
    job = build(line, one, Gaps(), {}, problems)
    assert [(s.node, s.cpus, s.gpus, s.gpu_mask) for s in job.alloc] == [("n1", 4, 4, 0)]
    assert len(problems) == 1


def test_cores_count_for_their_threads() -> None:
    layout = [["n1", "0-1,4", 10, ""]]
    line, one = row(state="RUNNING", allocated_nodes="n1", layout=layout)
    (share,) = build(line, one, Gaps(), {"n1": 2}, []).alloc
    assert (share.cpus, share.cpu_ids) == (6, ((0, 3), (8, 9)))


@pytest.mark.parametrize("value", [None, -1, "x", [], {}, True, 3.5, "\\u0000", 10**30])
def test_values_of_any_type_are_survived(value: Any) -> None:
    line, one = row(**dict.fromkeys(COLUMNS, value))
    assert build(line, one, None, {}, []).job_id == 7


@pytest.mark.parametrize("text", ["", "1\t2", "x\t[]\t[]", "1\t[]\t[]\t[]", "-1\t[]\t[]"])
def test_lines_of_another_form(text: str) -> None:
    assert Line.cut(text) is None


@pytest.mark.parametrize("raw", ["", "[", "{}", "[1,2]", "3"])
def test_columns_of_another_form(raw: str) -> None:
    assert read_lasting(Line(1, "", raw)) is None


def test_partitions_with_limits_that_pyslurm_cannot_read() -> None:
    values = ["p", "n[1-2]", "UP", "UNLIMITED", 60, None, 0, 1, False, "NO", True, False, []]
    found, problems = read_partitions([json.dumps(values)])
    assert (found[0].nodes, found[0].max_time_s, found[0].default_time_s) == (
        ("n1", "n2"),
        None,
        3600,
    )
    assert problems == []
    assert read_partitions([json.dumps([*values[:-1], ["max_time"]])])[1]


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("hold 5", ("hold", {})),
        ("release 5", ("release", {})),
        ("update JobId=5 SiteFactor=-3", ("update", {"site_factor": -3})),
        ("update JobId=5 StartTime=now", ("update", {"begin_time": 1000})),
        ("update JobId=5 StartTime=now+30", ("update", {"begin_time": 1030})),
        ("update JobId=5 StartTime=2027-01-15T08:00:00", ("update", {"begin_time": 1800000000})),
        (
            "update JobId=5 Partition=gpu, ReqNodeList=n[1-2]",
            ("update", {"partitions": "gpu,", "required_nodes": "n[1-2]"}),
        ),
        # pyslurm drops zeros, empty values and the text None without a word.
        ("update JobId=5 SiteFactor=0", None),
        ("update JobId=5 ReqNodeList=", None),
        ("update JobId=5 StartTime=now ExcNodeList=", None),
        ("update JobId=5 AdminComment=None", None),
        # It can name neither tasks nor components, and runs a cancelled job again.
        ("update JobId=5_2 SiteFactor=1", None),
        ("hold 5+1", None),
        ("requeue Incomplete 5", None),
        ("update JobId=5 NumNodes=2-2", None),
    ],
)
def test_which_changes_pyslurm_can_make(words: str, change: Any) -> None:
    found = change_of(Command(tuple(words.split(" "))), 1000.5)
    assert found == (change and {"job": 5, "do": change[0], "values": change[1]})


class Changes:
    """A writer on the fake pyslurm that knows the jobs ``known``; ``log`` are its changes."""

    def __init__(self, place: Path, known: Sequence[int], **facts: Any) -> None:
        self.place = place
        self.child = pythons.child(place, jobs=[{"id": i} for i in known], **facts)
        self.runner = Listener()
        jobs = {job.key: job for job in map(builders.job, known)}
        self.writer = NativeWriter(
            self.child, self.runner, lambda _: jobs, lambda _: [], lambda i: i in (*known, 99)
        )

    @property
    def log(self) -> list[Any]:
        path = self.place / "log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def change(job_id: int, **values: Any) -> JobPatch:
    one = builders.job(job_id)
    return JobPatch(one.key, one.address, Lever.RANK, **values)


def test_changes_go_by_pyslurm_or_by_scontrol_in_the_order_of_each_job(tmp_path: Path) -> None:
    site = Changes(tmp_path, [1, 2, 3])
    note = with_note("", UndoNote(lease_until_s=1_900_000_000))
    patches = [
        change(1, site_factor=5),
        change(2, site_factor=5),
        change(2, site_factor=0),
        change(99, site_factor=1),
        change(50, site_factor=1),
        change(3, hold=True),
        change(1, admin_comment=note),
    ]
    outcomes = site.writer.patch(patches)
    site.child.close()
    assert [(o.ok, o.benign) for o in outcomes] == [
        (False, True) if patch.key.job_id == 99 else (True, False) for patch in patches
    ]
    assert [one[:2] for one in site.log] == [[1, "modify"], [3, "hold"], [1, "modify"]]
    assert site.log[-1][2] == {"admin_comment": note}
    assert site.runner.sent == [
        "update JobId=2 SiteFactor=5",
        "update JobId=2 SiteFactor=0",
        "update JobId=50 SiteFactor=1",
    ]


@pytest.mark.parametrize("fault", ["refused", "segfault"])
def test_changes_are_not_sent_twice(tmp_path: Path, fault: str) -> None:
    site = Changes(tmp_path, [1], update=fault)
    with pytest.raises(SlurmUnavailableError, match=r"pyslurm update: "):
        site.writer.patch([change(1, site_factor=5)])
    site.child.close()
    assert (site.log, site.runner.sent) == ([], [])


def test_a_job_at_which_pyslurm_raises_is_read_by_the_commands(tmp_path: Path) -> None:
    jobs = [{"id": 1, "state": "RUNNING", "user_id": 0, "name": "raises", "array_id": None}]
    child = pythons.child(tmp_path, jobs=jobs)
    site = Site(child)
    seen = site.reader.observe()
    child.close()
    assert [job for job in seen.jobs if job.job_id == 1] == [
        job for job in TextReader(replay.Commands()).observe().jobs if job.job_id == 1
    ]
