"""What ``sprio`` says of waiting jobs, and what is made of it where it says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from slurm_ext.model.job import SlurmFactors
from slurm_ext.model.observation import Controller
from slurm_ext.slurm.priorities import NONE, Priorities, parse_priorities, read_priorities
from slurm_ext.slurm.run import Answer, Runner
from tests.builders import job

MULTIFACTOR = Controller((22, 5, 8), config={"prioritytype": "priority/multifactor"})
BASIC = Controller((22, 5, 8), config={"prioritytype": "priority/basic"})


class Says(Runner):
    """A sprio that prints this and ends so."""

    def __init__(self, code: int, stdout: str = "", stderr: str = "") -> None:
        super().__init__(environ={})
        self.answer = Answer(stdout, stderr, code, 0.0)

    def run(self, argv: Sequence[str], **_: Any) -> Answer:
        return self.answer


def test_columns() -> None:
    (found,) = parse_priorities("  7 -500 0.1 0.2000000 0.3 0.4 0.5 0.6\n").items()
    factors = SlurmFactors(
        age=0.1, fair_share=0.2, qos=0.3, partition=0.4, size=0.5, association=0.6
    )
    assert found == (7, (-500, factors))


def test_of_several_partitions_the_highest_counts() -> None:
    found = parse_priorities("3 0 0 0 0 0.5 0.2 0\n3 0 0 0 0 1.0 0.1 0\n")
    assert found[3].factors == SlurmFactors(partition=1.0, size=0.2)


@pytest.mark.parametrize(
    "line", ["", "x 0 0 0 0 0 0 0", "1 0 0 0 0", "1 0 0 0 0 0 0 0 0", "1 1e3 0 0 0 0 0 0"]
)
def test_other_lines_are_ignored(line: str) -> None:
    assert parse_priorities(line) == {}


@pytest.mark.parametrize(("text", "value"), [("nan", 0.0), ("-1", 0.0), ("inf", 0.0), ("7.5", 1.0)])
def test_a_factor_is_from_0_to_1(text: str, value: float) -> None:
    assert parse_priorities(f"1 5 0 {text} 0 0 0 0")[1] == (5, SlurmFactors(fair_share=value))


def test_jobs_that_it_does_not_name_stay_as_they_are() -> None:
    priorities = read_priorities(Says(0, "1 5 0 1 0 0 0 0\n"))
    first, second = priorities.joined([job(1), job(2)])
    assert (first.site_factor, first.factors) == (5, SlurmFactors(fair_share=1.0))
    assert (second.site_factor, second.factors) == (None, None)
    assert priorities.problems(MULTIFACTOR) == []


@pytest.mark.parametrize(
    "sprio",
    [
        pytest.param(Says(1, stderr="You are not running a supported priority plugin"), id="basic"),
        pytest.param(Runner(environ={"PATH": "/nonexistent"}), id="missing"),
        pytest.param(Says(0, "1 0 0 0\n"), id="other-columns"),
    ],
)
def test_a_failure_is_told_and_no_more(sprio: Runner) -> None:
    priorities = read_priorities(sprio)
    assert priorities.joined([job(1)]) == [job(1)]
    (problem,) = priorities.problems(MULTIFACTOR)
    assert problem.kind == "sprio"
    assert problem.detail.endswith("Slurm's factors count as 0")
    assert priorities.problems(BASIC) == []


def test_no_job_waits_or_nobody_asked() -> None:
    assert read_priorities(Says(0)) == NONE == Priorities({})
