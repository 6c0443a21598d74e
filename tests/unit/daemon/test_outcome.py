"""Starts: one record for each managed job that is seen started for the first time."""

from __future__ import annotations

import pytest

from slurm_ext.daemon.outcome import starts
from slurm_ext.engine.cycle import decide
from tests.builders import NOW, context, job, node, observation

NODES = [node("n1")]
LAST = decide(observation(NODES, [job(1, gpus=8)]), context()).plan
(PLANNED,) = LAST.decisions.values()


def test_a_job_that_started_when_its_begin_came_was_started_by_slurm() -> None:
    last = decide(observation(NODES, [job(1, gpus=8, begin=NOW + 500)]), context()).plan
    seen = observation(NODES, [job(1, gpus=8, on={"n1": 8})], now=NOW + 5)
    assert [(one.same_nodes, one.why) for one in starts(seen, last, {}, set())] == [
        (False, "slurm_started_first")
    ]


@pytest.mark.parametrize(
    ("fields", "planned", "why"),
    [
        pytest.param({"on": {"n1": 8}}, True, "", id="runs-as-planned"),
        pytest.param({"state": "COMPLETED", "ran_on": ("n1",)}, True, "", id="has-ended-already"),
        pytest.param(
            {"state": "COMPLETED", "ran_on": ("n2",)}, False, "slurm_chose_other_nodes",
            id="has-ended-elsewhere",
        ),
        pytest.param({"state": "CANCELLED"}, None, "", id="never-ran"),
        pytest.param({"state": "PENDING"}, None, "", id="waits"),
    ],
)  # fmt: skip
def test_a_start_is_recorded_even_of_a_job_that_ended_between_two_looks(
    fields: dict[str, object], planned: bool | None, why: str
) -> None:
    seen = observation(NODES, [job(1, gpus=8, start_s=NOW + 1, **fields)], now=NOW + 5)
    assert PLANNED.placement is not None
    found = [(one.same_nodes, one.why) for one in starts(seen, LAST, {}, set())]
    assert found == ([] if planned is None else [(planned, why)])
    assert starts(seen, LAST, {}, {PLANNED.key}) == []
    assert starts(seen, None, {}, set()) == []
