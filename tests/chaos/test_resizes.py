"""The daemon dies while a job comes back in another shape, or is put back from one it failed in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.rig import Frail, choice
from tests.integration.harness import Slurm, wait_for
from tests.integration.training import ELASTIC, ON, PASSES_ON, Trainer, growing, outcome

pytestmark = pytest.mark.slurm

LARGER = (
    "cut:after:Gres=gpu:4",  # in its new shape, not released
    "cut:before:Gres=gpu:4",
    "save_restarts:after:1", "signal:after:1", "requeue:before:1", "requeue:after:1",
    "commit_intents:after:shape=Shape(", "patch:after:shape=Shape(",
    "save_restarts:before:RestartStage.TRIAL", "save_restarts:after:RestartStage.TRIAL",
)  # fmt: skip
PUT_BACK = (
    "requeue:after:2",  # put back, not noted
    "save_restarts:before:returned=True", "save_restarts:after:returned=True",
    "requeue:before:2", "cut:before:Gres=gpu:2", "cut:after:Gres=gpu:2",
)  # fmt: skip
FAILS_ON_4 = f"[ $SLURM_GPUS_ON_NODE = 4 ] && exit 9\n{PASSES_ON}"


@pytest.mark.parametrize("point", choice(LARGER, 10))
def test_it_comes_back_larger_once(slurm: Slurm, frail: Callable[..., Frail], tmp_path: Path,
                                   point: str) -> None:  # fmt: skip
    assert _shapes(slurm, frail, tmp_path, point, PASSES_ON, "done") == {(0, 2), (1, 4)}


@pytest.mark.parametrize("point", choice(PUT_BACK, 6))
def test_it_is_put_back_once(slurm: Slurm, frail: Callable[..., Frail], tmp_path: Path,
                             point: str) -> None:  # fmt: skip
    assert _shapes(slurm, frail, tmp_path, point, FAILS_ON_4, "old_shape") == {(0, 2), (2, 2)}


def _shapes(
    slurm: Slurm, frail: Callable[..., Frail], directory: Path, point: str, trap: str, ends: str
) -> set[tuple[int, int]]:
    """(Restarts, GPUs) it made progress with, after a death at this point and another daemon."""
    trainer = Trainer(slurm, directory / "jobs")
    job = trainer.submit(trap=trap, annotation=ELASTIC, gpus=2, work=300)
    trainer.wait_working(job)
    beside = frail(**ON)
    beside.resize_to, beside.program = 4, growing(4)
    beside.launch(point)
    assert wait_for(lambda: beside.wait_dead(0), 60, f"{point} strikes", beside.log) == 9
    beside.start()
    assert outcome(beside, job, 60) == ends
    slurm.wait_completed([job], 60)
    reports = trainer.progress(job).reports
    assert reports[-1].step == 300
    return {(r.run, r.gpus) for r in reports}
