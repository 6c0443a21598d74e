"""Training jobs by measured tables, against the artifact of Pollux and in small."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.engine.parts.goodput import best, efficiency
from slurm_ext.engine.parts.steptime import loss
from slurm_ext.model.goodput import Goodput, StepTime
from slurm_ext.sim import traces
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.errors import TraceError
from slurm_ext.sim.metrics import Metrics, measure
from slurm_ext.sim.physics import StopCost
from slurm_ext.sim.scenario import Scenario, run
from slurm_ext.sim.training.agent import fit
from slurm_ext.sim.training.tables import Step, load
from slurm_ext.sim.workload import TraceJob, Workload
from tests.sim.helpers import data

pytest.importorskip("scipy")

SAVED = StopCost(restart_s=30, lossless=True)
STEP = StepTime(0.05, 0.001, 0.1, 0.01, 0.02, 0.005, 1.5)


def known(step: StepTime | None = STEP, grad_var: float = 10.0) -> Goodput:
    return Goodput(step, 1.0, grad_var, 100, 1600, 25, 200, 16)


def artifact(policy: str, **parameters: object) -> Metrics:
    folder, name = data("pollux/traces"), data("pollux/workloads/workload-6.csv")
    workload = traces.read(name, max_gpus=64, on_bad="stop", training=folder)
    scenario = Scenario(
        "ideal", policy, cost=SAVED, training=folder,
        parameters={f"allocation.{k.replace('__', '.')}": v for k, v in parameters.items()},
    )  # fmt: skip
    return measure(run(scenario, workload, ClusterSpec.parse("16x4")))


def test_optimus_with_an_oracle_is_the_artifacts_to_the_second() -> None:
    found = artifact("optimus", scatter=True)
    assert found.jct_mean_s == 5301.875
    assert found.jct_median_s == 2494
    assert found.makespan_s == 66246
    assert found.restarts == 870  # 5.44 a job


def test_tiresias_is_the_artifacts_within_a_tenth_of_a_per_cent() -> None:
    found = artifact("tiresias", scatter=True, rank__limits=[57600.0])
    assert found.jct_mean_s == pytest.approx(3469.69, rel=1e-3)
    assert found.jct_median_s == 1247.5
    assert found.makespan_s == 78556


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_goodput_is_polluxs_within_ten_per_cent() -> None:
    found = artifact("goodput")
    assert found.jct_mean_s == pytest.approx(2446.1, rel=0.1)
    assert found.jct_mean_s == pytest.approx(2487.9, rel=0.1)
    assert found.makespan_s == pytest.approx(58352, rel=0.1)


def test_a_noisy_gradient_makes_large_batches_worth_their_size() -> None:
    batch = np.array([100.0, 800.0])
    assert efficiency(known(grad_var=0.0), batch) == pytest.approx([1.0, 1 / 8])
    assert efficiency(known(grad_var=1e9), batch) == pytest.approx([1.0, 1.0])


@given(gpus=st.integers(1, 64), several=st.booleans())
def test_the_best_batch_is_one_that_fits(gpus: int, several: bool) -> None:
    job = known()
    found = best(job, several, np.array([gpus]))
    if gpus * job.local_min > job.max_batch:
        assert found.goodput[0] == 0
    else:
        assert found.goodput[0] > 0
        assert job.local_min <= found.local[0] <= job.local_max
        assert found.local[0] * (found.accumulate[0] + 1) * gpus >= job.batch


def test_what_was_never_timed_has_no_best_batch() -> None:
    with pytest.raises(ValueError, match="timed"):
        best(known(None), False, np.array([1]))


ROWS = np.array(
    [[1, 1, 32, 0.08, 0.081], [1, 4, 32, 0.08, 0.12], [2, 8, 64, 0.11, 0.3], [2, 4, 16, 0.07, 0.2]]
)


@given(st.lists(st.floats(0.01, 2.0), min_size=6, max_size=6), st.floats(1.01, 9.0))
def test_the_gradient_of_the_fit_is_that_of_its_loss(terms: list[float], gamma: float) -> None:
    at = np.array([*terms, gamma])
    _, slope = loss(at, ROWS)
    for i in range(7):
        step = np.zeros(7)
        step[i] = 1e-6
        numeric = (loss(at + step, ROWS)[0] - loss(at - step, ROWS)[0]) / 2e-6
        assert slope[i] == pytest.approx(numeric, rel=1e-3, abs=1e-5)


def test_before_it_was_tried_a_job_is_taken_to_scale() -> None:
    found = fit({(1, 1, 32): Step(0.1, 0.001)})
    assert found.beta_n == found.beta_r * 1.1 < 1e-6
    assert found.alpha_c + found.beta_c * 32 == pytest.approx(0.099, rel=0.05)


def application(folder: Path, seconds: float = 1.0) -> Path:
    """An application of two epochs of 10 steps each; a step takes a second on any GPUs."""
    app = folder / "small"
    app.mkdir(parents=True)
    rows = [f"{p},{b},{seconds},0.1" for p in (1, 2) for b in (8, 16)]
    (app / "placements.csv").write_text(
        "\n".join(["placement,local_bsz,step_time,sync_time", *rows])
    )
    rows = [f"{n},{n},{b},{seconds},0.1" for n in (2, 16) for b in (8, 16)]
    head = "num_nodes,num_replicas,local_bsz,step_time,sync_time"
    (app / "scalability.csv").write_text("\n".join([head, *rows]))
    for batch in (8, 32):
        (app / f"validation-{batch}.csv").write_text(
            "progress,iteration,metric,grad_sqr,grad_var\n10,10,1,1,0\n20,20,2,1,0\n"
        )
    return folder


def small(jobs: list[TraceJob], folder: Path, policy: str = "tiresias") -> Metrics:
    scenario = Scenario("ideal", policy, cost=SAVED, training=folder)
    return measure(run(scenario, Workload.of("x", jobs), ClusterSpec.parse("2x2")))


def test_alone_a_job_takes_its_steps_and_one_start(tmp_path: Path) -> None:
    found = small([TraceJob(1, 0, 20, 1, model="small", batch=8)], application(tmp_path))
    assert found.makespan_s == 20 + 30


def test_jobs_that_adapt_run_without_a_scheduler_that_does_not(tmp_path: Path) -> None:
    jobs = [TraceJob(i, 0, 20, 1, model="small", batch=8) for i in (1, 2)]
    assert small(jobs, application(tmp_path), "goodput").jobs == 2


@pytest.mark.parametrize(
    "job", [TraceJob(1, 0, 9, 1, model="small"), TraceJob(1, 0, 9, 1, batch=8)]
)
def test_a_job_without_tables_or_batch_is_named(tmp_path: Path, job: TraceJob) -> None:
    with pytest.raises(TraceError, match="job 1 has no batch size"):
        small([job], application(tmp_path))


def test_rows_that_were_not_measured_are_told_with_their_lines(tmp_path: Path) -> None:
    folder = application(tmp_path / "tables")
    rows = ["a,0,small,1,8", "b,0,big,1,8", "c,0,small,1,64", "d,0,small,0,8", "e,0,small,2,x"]
    path = tmp_path / "workload.csv"
    path.write_text("\n".join(["name,time,application,num_replicas,batch_size", *rows]))
    found = traces.read(path, training=folder)
    assert [(j.run_s, j.batch) for j in found.jobs] == [(20, 8)]
    assert [b.line for b in found.bad] == [3, 4, 5, 6]


def test_the_format_without_tables_is_refused_with_the_option(tmp_path: Path) -> None:
    path = tmp_path / "workload.csv"
    path.write_text("name,time,application,num_replicas,batch_size\n")
    with pytest.raises(TraceError, match="--training"):
        traces.read(path)


@pytest.mark.parametrize("text", ["", "placement,local_bsz\n1,2\n"])
def test_tables_that_cannot_be_read_are_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError, match="no folder of an application"):
        load(tmp_path / "none")
    folder = application(tmp_path / "broken")
    (folder / "small" / "placements.csv").write_text(text)
    with pytest.raises(TraceError, match="small: not tables"):
        load(folder)
