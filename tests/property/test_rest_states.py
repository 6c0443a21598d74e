"""A queue read states first is the same as one read whole, whatever happens in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.slurm.json import parse_jobs
from slurm_ext.slurm.rest_states import FULL_EVERY, StatesFirst

NOW = 5_000
STATES = (
    ["PENDING"], ["RUNNING"], ["RUNNING", "CONFIGURING"], ["RUNNING", "COMPLETING"],
    ["SUSPENDED"], ["COMPLETED"], ["PENDING", "REQUEUED"],
)  # fmt: skip


@dataclass
class Entry:
    """A job as slurmctld has it; ``priority`` is what a state does not show."""

    job_id: int
    state: list[str]
    priority: int = 7
    eligible_s: int = 0
    array: int = 0
    task: int | None = None

    @property
    def name(self) -> str:
        return f"{self.array}_{self.task}" if self.array else str(self.job_id)

    def record(self) -> dict[str, Any]:
        return {
            "job_id": self.job_id, "job_state": self.state, "priority": self.priority,
            "eligible_time": self.eligible_s, "submit_time": 1,
            "array_job_id": self.array,
            "array_task_id": {"set": self.task is not None, "infinite": False, "number": self.task},
        }  # fmt: skip


class Queue:
    """Jobs that come, change and go, and the two answers of slurmrestd about them."""

    def __init__(self) -> None:
        self.jobs: dict[int, Entry] = {}
        self.read = 0

    def states(self) -> dict[str, Any]:
        rows = [
            {"job_id": f"{e.job_id}_{e.task}" if e.array else str(e.job_id), "state": e.state}
            for e in self.jobs.values()
        ]
        return {"jobs": rows}

    def record(self, job_id: int) -> dict[str, Any]:
        """As slurmctld answers: an array's own id gives all its tasks."""
        self.read += 1
        return {
            "jobs": [
                e.record() for e in self.jobs.values() if e.job_id == job_id or e.array == job_id
            ]
        }

    def change(self, step: tuple[str, int, int]) -> None:
        kind, job_id, value = step
        if kind == "end":
            self.jobs.pop(job_id, None)
        elif kind == "state":
            state = STATES[value % len(STATES)]
            array = 20 if job_id > 20 else 0
            task = job_id - 20 if array else None
            self.jobs[job_id] = Entry(job_id, state, value, value * 2_000, array, task)
        elif job_id in self.jobs:
            self.jobs[job_id].priority = value

    def look(self, states: StatesFirst, between: list[tuple[str, int, int]]) -> None:
        """As the reader does it, with changes after the states were read."""
        states.begin(self.states())
        for step in between:
            self.change(step)
        for wanted in (states.changed, states.aged):
            for job_id in wanted():
                if not states.current(job_id):
                    states.put(job_id, self.record(job_id))


IDS = st.integers(1, 24)
VISIBLE = st.tuples(st.sampled_from(["state", "end"]), IDS, st.integers(0, 6))
ANY = st.tuples(st.sampled_from(["state", "end", "priority"]), IDS, st.integers(0, 6))


def whole(queue: Queue) -> set[Any]:
    jobs, _ = parse_jobs({"jobs": [e.record() for e in queue.jobs.values()]}, NOW)
    return {repr(job) for job in jobs}


def merged(states: StatesFirst) -> set[Any]:
    jobs, _ = states.jobs(NOW)
    assert len({job.job_id for job in jobs}) == len(jobs)
    return {repr(job) for job in jobs}


@given(st.lists(st.tuples(st.lists(ANY, max_size=6), st.lists(ANY, max_size=3)), max_size=8))
def test_once_all_is_quiet_it_is_the_whole_queue_after_a_round(
    history: list[tuple[list[tuple[str, int, int]], list[tuple[str, int, int]]]],
) -> None:
    queue, states = Queue(), StatesFirst()
    for before, between in history:
        for step in before:
            queue.change(step)
        queue.look(states, between)
    for _ in range(FULL_EVERY + 1):
        queue.look(states, [])
    records = [e.record() for e in queue.jobs.values() if e.state != ["COMPLETED"]]
    live = {repr(job) for job in parse_jobs({"jobs": records}, NOW)[0]}
    assert live <= merged(states)
    assert len(merged(states)) == len(queue.jobs)


@given(st.lists(st.lists(VISIBLE, max_size=6), max_size=8))
def test_what_the_state_shows_is_seen_at_once(history: list[list[tuple[str, int, int]]]) -> None:
    """Each look between changes is the whole queue, as far as states tell."""
    queue, states = Queue(), StatesFirst()
    for steps in history:
        for kind, job_id, value in steps:
            if (
                kind == "state"
                and job_id in queue.jobs
                and (queue.jobs[job_id].state == STATES[value % len(STATES)])
            ):
                continue  # the same state with other details: not to be seen at once
            queue.change((kind, job_id, value))
        queue.look(states, [])
        in_slurm = parse_jobs({"jobs": [e.record() for e in queue.jobs.values()]}, NOW)[0]
        shown = {(j.job_id, j.state) for j in states.jobs(NOW)[0]}
        assert shown == {(j.job_id, j.state) for j in in_slurm}


@given(st.integers(1, 300))
def test_a_quiet_queue_is_read_in_shares(count: int) -> None:
    queue, states = Queue(), StatesFirst()
    for job_id in range(100, 100 + count):
        queue.jobs[job_id] = Entry(job_id, ["PENDING"])
    queue.look(states, [])
    assert queue.read == count
    assert merged(states) == whole(queue)
    for _ in range(FULL_EVERY):
        before = queue.read
        queue.look(states, [])
        assert queue.read - before == -(-count // FULL_EVERY)


def test_what_we_change_is_read_again() -> None:
    queue, states = Queue(), StatesFirst()
    for job_id in range(1, 90):
        queue.jobs[job_id] = Entry(job_id, ["PENDING"])
    queue.look(states, [])
    queue.jobs[77].priority = 0
    states.forget([77, 12345])
    queue.look(states, [])
    assert merged(states) == whole(queue)
