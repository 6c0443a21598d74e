"""When a job could start once running jobs have reached their limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_ext.sim.settings import PROMPT
from slurm_ext.sim.willrun import WillRun
from slurm_ext.sim.workload import TraceJob, Workload
from tests.sim.helpers import ONE, simulation, until


@pytest.mark.parametrize(
    ("window_s", "gpus", "expected_s"),
    [
        (0, 2, 100),
        (0, 4, 125),
        (0, 8, 500),
        (30, 2, 125),  # up to 120 + 30 together
        (30, 4, 125),
        (30, 8, 500),
        (200, 2, 125),
        (200, 8, 500),
    ],
)
def test_start_after_the_batch_of_ends(window_s: int, gpus: int, expected_s: int) -> None:
    rows = [
        TraceJob(number, 0, limit_s, size, limit_s)
        for number, size, limit_s in ((1, 2, 100), (2, 2, 125), (3, 4, 500))
    ]
    rows.append(TraceJob(4, 0, 10, gpus, 10))
    sim = until(
        simulation(Workload.of("x", rows), settings=replace(PROMPT, end_window_s=window_s)), 1
    )
    found = WillRun(sim.core).first(
        sim.core.jobs[4], np.ones(len(ONE.groups), dtype=np.bool_), now_only=False
    )
    assert found is not None
    assert found[0] == expected_s


def test_later_batches_are_longer() -> None:
    """Each node has one job; the batches after 0 reach to 60, 90, 150 and 270 s."""
    limits_s = (10, 59, 61, 90, 91, 150, 151)
    rows = [TraceJob(i, 0, s, 1, s) for i, s in enumerate(limits_s, 1)]
    rows.append(TraceJob(8, 0, 999, 1, 999))
    waiting = [TraceJob(10 + n, 0, 10, n, 10) for n in range(1, 9)]
    settings = replace(PROMPT, end_window_s=30)
    sim = until(simulation(Workload.of("x", rows + waiting), settings=settings), 1)
    future = WillRun(sim.core)
    everywhere = np.ones(1, dtype=np.bool_)
    starts = []
    for job in waiting:
        found = future.first(sim.core.jobs[job.job_id], everywhere, now_only=False)
        assert found is not None
        starts.append(found[0])
    assert starts == [59, 59, 90, 90, 150, 150, 151, 999]


def test_jobs_on_other_nodes_do_not_count() -> None:
    two = replace(ONE, groups=(ONE.groups[0], replace(ONE.groups[0], prefix="m")))
    rows = [TraceJob(1, 0, 100, 8, 100), TraceJob(2, 0, 110, 8, 110), TraceJob(3, 0, 10, 8, 10)]
    sim = until(simulation(Workload.of("x", rows), two, replace(PROMPT, end_window_s=30)), 1)
    (first,) = sim.core.jobs[1].where
    only = np.array([name == first for name in sim.core.cluster.names])
    found = WillRun(sim.core).first(sim.core.jobs[3], only, now_only=False)
    assert found is not None
    assert found[0] == 100
