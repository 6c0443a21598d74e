"""Long queues through slurmrestd: states first, then records of what changed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from slurm_ext.errors import StillReadingError
from slurm_ext.model.decision import JobPatch, Lever
from slurm_ext.model.job import Job
from slurm_ext.slurm.cli import CliSlurm
from slurm_ext.slurm.deadline import Deadline
from slurm_ext.slurm.json import parse_jobs
from slurm_ext.slurm.rest import RestOptions, RestSlurm

from .recorded import text
from .restd import Request, Send, api, serving
from .test_fallback import Clock
from .test_rest import API, NOW, Commands, diag, tables

RECORDED = ("24.11", "26.05")
"""Recorded with arrays, tasks, a heterogeneous job and ended ones."""


class Long:
    """A recorded queue, taken for a long one, and what is asked of it."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.clock = Clock()
        self.deadline = Deadline(self.clock)
        self.takes_s = 0.0
        found: dict[str, Any] = json.loads(text(version, "slurmrestd-states.json"))
        self.records = {one["job_id"]: one for one in found["jobs"]["jobs"]}
        self.shown: dict[str, list[int]] = found["job"]
        self.states = found["states"]
        self.gone = found["gone"]
        self.asked: list[int] = []

    def answer(self, request: Request, send: Send, over: threading.Event) -> None:
        record = {
            f"job/{name}": {"jobs": [self.records[i] for i in ids if i in self.records]}
            for name, ids in self.shown.items()
        }
        gone = {f"job/{name}": self.gone for name in self.shown if int(name) not in self.records}
        last = request.path.rpartition("/")[2]
        if "/job/" in request.path:
            self.clock.now += self.takes_s
            self.asked.append(int(last))
        known = {**tables(self.version), "diag": diag(jobs=9), "jobs/state": self.states}
        api({**known, **record, **gone}, API[self.version])(request, send, over)

    def whole(self) -> dict[int, Job]:
        jobs, _ = parse_jobs({"jobs": list(self.records.values())}, NOW)
        return {job.job_id: job for job in jobs}


@pytest.fixture(params=RECORDED)
def long(request: pytest.FixtureRequest) -> Long:
    return Long(request.param)


@pytest.fixture
def slurm(long: Long) -> Iterator[RestSlurm]:
    with serving(long.answer) as restd:
        commands = Commands(long.version)
        cli = CliSlurm(runner=commands)
        yield RestSlurm(RestOptions(restd.url, max_jobs=5), None, commands, cli, long.deadline)
        assert not any(path.rstrip("/").endswith("/jobs") for path in restd.paths)


def seen(slurm: RestSlurm) -> dict[int, Job]:
    return {job.job_id: job for job in slurm.observe().jobs}


def test_it_is_what_a_whole_read_shows(long: Long, slurm: RestSlurm) -> None:
    assert len(long.records) == 9
    assert seen(slurm) == long.whole()


def test_records_are_read_once_and_then_in_turn(long: Long, slurm: RestSlurm) -> None:
    seen(slurm)
    assert set(long.asked) >= {1, 2, 3, 5, 6, 7}  # the others come with their array or part
    assert len(long.asked) <= 9
    long.asked.clear()
    assert seen(slurm) == long.whole()
    assert len(long.asked) == 1


def test_a_state_that_changes_is_read_again(long: Long, slurm: RestSlurm) -> None:
    seen(slurm)
    long.asked.clear()
    row = next(row for row in long.states["jobs"] if row["job_id"] == "2")
    row["state"] = long.records[2]["job_state"] = ["CANCELLED"]
    assert seen(slurm) == long.whole()
    assert 2 in long.asked


def test_a_job_that_is_gone_when_it_is_asked_for(long: Long, slurm: RestSlurm) -> None:
    del long.records[5]
    assert seen(slurm) == long.whole()


def test_what_we_change_is_read_again(long: Long, slurm: RestSlurm) -> None:
    one = seen(slurm)[2]
    long.records[2]["priority"] = {"set": True, "infinite": False, "number": 77}
    long.asked.clear()
    slurm._cli.patch = lambda patches: ()  # type: ignore[method-assign]
    slurm.patch([JobPatch(one.key, one.address, Lever.RANK, site_factor=1)])
    assert seen(slurm)[2].priority == 77


def test_what_was_read_stays_when_the_time_is_up(long: Long, slurm: RestSlurm) -> None:
    long.takes_s = 0.2
    for job_id in range(100, 120):
        long.records[job_id] = {**long.records[2], "job_id": job_id}
        long.shown[str(job_id)] = [job_id]
        long.states["jobs"].append({"job_id": str(job_id), "state": ["PENDING"]})
    with (
        long.deadline.within(4),
        pytest.raises(StillReadingError, match=r"jobs are still to be read"),
    ):
        slurm.observe()
    first = len(long.asked)
    assert 0 < first < len(long.shown)
    with long.deadline.within(20):
        assert seen(slurm) == long.whole()
    assert len(long.asked) < first + len(long.shown)
