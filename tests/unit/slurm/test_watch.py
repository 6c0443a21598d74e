"""Details are asked for again where something may have changed, and only there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from slurm_ext.errors import SlurmUnavailableError
from slurm_ext.model.job import Job
from slurm_ext.slurm.reader import TextReader
from slurm_ext.slurm.run import Answer, Runner
from slurm_ext.slurm.squeue import Framing, Record
from slurm_ext.slurm.watch import FULL_EVERY

from .recorded import raw_record, records, text
from .test_details import block

WAITS = records(block(1))[1]._replace(state="PENDING", nodelist="", tres="cpu=16,mem=4000M,node=2")
EVERY = "show job"


def details(job_id: int, **changed: str) -> str:
    """A waiting job's block; ``changed``: values of its keys."""
    shown = re.sub(r"^     Nodes=.*\n|^   JOB_GRES=.*\n", "", block(job_id), flags=re.MULTILINE)
    for key, value in changed.items():
        shown = re.sub(rf"\b{key}=\S*", f"{key}={value}", shown)
    return shown


@dataclass
class Held:
    """One job of the fake: what squeue and what scontrol says of it; hidden: not in squeue."""

    record: Record
    shown: str
    watched: dict[str, str] = field(default_factory=dict)
    hidden: bool = False


class Fake(Runner):
    """A queue that answers like squeue and scontrol; ``asked``: the details asked for."""

    def __init__(self, *job_ids: int) -> None:
        super().__init__(environ={})
        self.jobs = {i: Held(WAITS._replace(job_id=str(i)), details(i)) for i in job_ids}
        self.asked: list[str] = []
        self.gone = False
        self.reader = TextReader(self, single_share=0.5)

    def look(self) -> dict[int, Job]:
        self.asked.clear()
        return {job.job_id: job for job in self.reader.observe().jobs}

    def settled(self) -> Fake:
        """After as many looks as it takes to know every job."""
        self.look()
        self.look()
        assert self.asked == [EVERY]
        return self

    def run(self, argv: Sequence[str], *, stdin: str = "", **_: Any) -> Answer:
        if argv[0] == "squeue":
            return Answer(self._squeue(argv), "", 0, 0.0)
        output = ""
        for line in stdin.splitlines():
            if line.startswith("show hostnames "):
                output += line.removeprefix("show hostnames ") + "\n"
            else:
                output += self._scontrol(line) + "\n"
        error = "Unable to contact slurm controller (connect failure)" if self.gone else ""
        return Answer(output, error, 1 if self.gone else 0, 0.0)

    def _squeue(self, argv: Sequence[str]) -> str:
        framing: Framing = self.reader._framing
        wanted = argv[argv.index("-j") + 1].split(",") if "-j" in argv else []
        return "".join(
            raw_record(framing, held.record, **held.watched) + framing.record + "\n"
            for held in self.jobs.values()
            if (held.record.job_id in wanted if wanted else not held.hidden)
        )

    def _scontrol(self, command: str) -> str:
        if command.startswith("show job"):
            self.asked.append(command)
            job_id = command.removeprefix("show job").strip()
            shown = [h.shown for i, h in self.jobs.items() if not job_id or self._in(i, job_id)]
            return "" if self.gone else "".join(shown)
        return text("22.05", "scontrol-config.txt") if command == "show config" else ""

    def _in(self, job_id: int, asked: str) -> bool:
        return asked in (str(job_id), self.jobs[job_id].record.array_job)


def test_a_queue_that_does_not_change_is_asked_for_no_details() -> None:
    slurm = Fake(1, 2, 3).settled()
    seen = slurm.look()
    assert slurm.asked == []
    assert seen[2].request.excluded_nodes == ("n7", "n8")


def test_what_changes_by_itself_asks_for_nothing() -> None:
    slurm = Fake(1, 2, 3).settled()
    held = slurm.jobs[2]
    held.record = held.record._replace(
        priority="77", reason="Resources", start="2026-11-30T15:00:00", end="2026-11-30T16:00:00"
    )
    seen = slurm.look()
    assert slurm.asked == []
    assert (seen[2].priority, seen[2].reason) == (77, "Resources")


@pytest.mark.parametrize(
    "change",
    [
        {"submit": "2026-11-30T20:00:00"},  # the id was used again
        {"submit": "2026-11-30T20:00:00", "restarts": "1"},
        {"state": "RUNNING", "nodelist": "n[1-2]"},
        {"comment": "slurm_ext:off"},
        {"admin_comment": "[slurm_ext;lease=1]"},
        {"limit": "9:00"},
    ],
    ids=["reuse", "requeue", "start", "comment", "admin comment", "limit"],
)
def test_a_changed_record_is_asked_for_alone(change: dict[str, str]) -> None:
    slurm = Fake(1, 2, 3).settled()
    held = slurm.jobs[2]
    held.record = held.record._replace(**change)
    held.shown = details(2, ExcNodeList="n9")
    seen = slurm.look()
    assert slurm.asked == ["show job 2"]
    assert seen[2].request.excluded_nodes == ("n9",)
    slurm.look()
    assert slurm.asked == []


def test_a_new_job_is_asked_for_alone() -> None:
    slurm = Fake(1, 2, 3).settled()
    slurm.jobs |= Fake(4).jobs
    assert slurm.look()[4].request.unplannable == ()
    assert slurm.asked == ["show job 4"]


def test_a_pin_by_others_is_seen_at_once() -> None:
    slurm = Fake(1, 2, 3).settled()
    slurm.jobs[3].watched["reqnodes"] = "n5"
    slurm.jobs[3].shown = details(3, ReqNodeList="n5")
    assert slurm.look()[3].request.required_nodes == ("n5",)


def test_excluded_nodes_by_others_are_seen_by_the_next_full_look() -> None:
    slurm = Fake(1, 2, 3).settled()
    slurm.jobs[3].shown = details(3, ExcNodeList="n1")
    assert slurm.look()[3].request.excluded_nodes == ("n7", "n8")
    for _ in range(FULL_EVERY):
        seen = slurm.look()
    assert slurm.asked == [EVERY]
    assert seen[3].request.excluded_nodes == ("n1",)


def test_excluded_nodes_by_us_are_seen_at_once() -> None:
    slurm = Fake(1, 2, 3).settled()
    slurm.reader.forget([3])
    slurm.jobs[3].shown = details(3, ExcNodeList="n1")
    assert slurm.look()[3].request.excluded_nodes == ("n1",)
    slurm.look()
    assert slurm.asked == []


def test_an_edit_in_the_middle_of_a_full_look_is_not_missed() -> None:
    slurm = Fake(1, 2, 3)
    slurm.look()
    slurm.jobs[2].watched["reqnodes"] = "n5"  # squeue shows it, the details are older
    assert slurm.look()[2].request.required_nodes == ()
    slurm.jobs[2].shown = details(2, ReqNodeList="n5")
    assert slurm.look()[2].request.required_nodes == ("n5",)
    assert slurm.asked == ["show job 2"]


def test_a_waiting_array_is_asked_for_each_time_and_shows_its_folded_tasks() -> None:
    slurm = Fake(1, 2, 3, 4, 5)
    for job_id, tasks in ((4, "0-9"), (5, "7")):
        held = slurm.jobs[job_id]
        held.record = held.record._replace(array_job="4", array_tasks=tasks)
        held.shown = details(job_id).replace(" JobName", f" ArrayTaskId={tasks} JobName", 1)
    later = slurm.jobs.pop(5)
    slurm.settled().look()
    assert slurm.asked == ["show job 4"]
    later.hidden = True
    slurm.jobs[5] = later
    seen = slurm.look()
    assert (seen[5].array_task_id, seen[5].request.unplannable) == (7, ())
    assert slurm.asked == ["show job 4", "show job 5"]


def test_a_job_that_ends_is_asked_for_until_its_nodes_are_back() -> None:
    slurm = Fake(1, 2, 3).settled()
    slurm.jobs[1].record = WAITS._replace(state="COMPLETING", nodelist="n[1-2]")
    for _ in range(2):
        slurm.look()
        assert slurm.asked == ["show job 1"]


def test_many_changes_are_asked_for_at_once_the_next_time_too() -> None:
    slurm = Fake(1, 2, 3).settled()
    for submit in ("2026-11-30T20:00:00", "2026-11-30T20:00:01"):
        for job_id in (1, 2):
            held = slurm.jobs[job_id]
            held.record = held.record._replace(submit=submit)
        slurm.look()
        assert slurm.asked == [EVERY]
    slurm.look()
    slurm.look()
    assert slurm.asked == []


def test_a_controller_that_goes_away_in_between_is_an_error() -> None:
    slurm = Fake(1, 2, 3).settled()
    slurm.jobs[1].record = slurm.jobs[1].record._replace(comment="new")
    rest = slurm._scontrol

    def stop(command: str) -> str:
        slurm.gone = command.startswith("show job")
        return rest(command)

    slurm._scontrol = stop  # type: ignore[method-assign]
    with pytest.raises(SlurmUnavailableError):
        slurm.look()
