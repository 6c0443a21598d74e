"""Small workloads, and what every run must obey."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from slurm_ext.model.decision import JobPatch, Lever
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.outcome import JobOutcome, SimResult
from slurm_ext.sim.settings import PROMPT, SlurmSettings
from slurm_ext.sim.simulate import Simulation
from slurm_ext.sim.workload import TraceJob, Workload

ONE = ClusterSpec.uniform(1)
TWO = ClusterSpec.uniform(2)
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def data(name: str) -> Path:
    """A file of the data folder beside the checkout; skips the test where it is absent."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"needs {name}, looked for in {DATA}")
    return path


def jobs(*rows: tuple[int, int, int] | tuple[int, int, int, int]) -> Workload:
    """A workload of (submit, run, gpus[, limit]); ids from 1; limit = run time by default."""
    return Workload.of(
        "test",
        [
            TraceJob(i, row[0], row[1], row[2], limit_s=row[3] if len(row) > 3 else row[1])
            for i, row in enumerate(rows, 1)
        ],
    )


def starts(result: SimResult) -> list[int]:
    """First start of each job, by id."""
    return [o.first_start_s for o in result.jobs]


def check_conserved(result: SimResult, workload: Workload, total_gpus: int) -> None:
    """Each job ends once, after its run time; never more GPUs in use than there are."""
    assert [o.spec.job_id for o in result.jobs] == sorted(j.job_id for j in workload.jobs)
    for o in result.jobs:
        assert o.first_start_s >= o.spec.submit_s
        if o.state == "COMPLETED":
            assert o.jct_s >= o.spec.run_s
    assert peak_gpus(result.jobs) <= total_gpus


def peak_gpus(outcomes: Sequence[JobOutcome]) -> int:
    """Most GPUs in use at any moment, over the last attempts of all jobs."""
    edges: list[tuple[int, int]] = []
    for o in outcomes:
        edges.append((o.start_s, o.spec.gpus))
        edges.append((o.end_s, -o.spec.gpus))
    used = peak = 0
    for _, change in sorted(edges):  # at one moment ends (negative) come first
        used += change
        peak = max(peak, used)
    return peak


def simulation(
    workload: Workload, spec: ClusterSpec = ONE, settings: SlurmSettings = PROMPT
) -> Simulation:
    return Simulation(workload, spec, settings)


def until(sim: Simulation, at_s: int) -> Simulation:
    """Run all events up to and including this second; the clock stands there."""
    while (next_s := sim.events.next_s()) is not None and next_s <= at_s:
        sim.step()
    sim.events.now_s = at_s
    return sim


def patch(sim: Simulation, job_id: int, lever: Lever = Lever.LEASE, **values: object) -> bool:
    key = sim.core.jobs[job_id].key
    found = JobPatch(key, str(job_id), lever, **values)  # type: ignore[arg-type]
    return sim.port.patch([found])[0].ok
