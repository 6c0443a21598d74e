"""The daemon or slurmctld dies while a job is stopped for another one: it comes back once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.rig import Frail, choice
from tests.integration.harness import Slurm, wait_for
from tests.integration.training import ON, SHORT, URGENT, Trainer, restarts
from tests.live import crowd

pytestmark = pytest.mark.slurm

Make = Callable[..., Frail]
POINTS = (
    "save_restarts:after:1",  # noted, nothing sent
    "requeue:after:1",  # requeued, not noted
    "signal:before:1", "signal:after:1", "save_restarts:before:2", "save_restarts:before:3",
    "requeue:before:1", "commit_intents:before:why='preempt'", "save_restarts:after:4",
    "save_restarts:before:5", "patch:after:required_nodes=('",
)  # fmt: skip


class Pressed:
    """A preemptible job on the only node it can be stopped on, and an urgent one that waits."""

    def __init__(self, slurm: Slurm, directory: Path, more: str = "") -> None:
        self.slurm, self.trainer = slurm, Trainer(slurm, directory)
        self.gate = directory / "gate"
        slurm.submit("--nodes=3", "--gpus-per-node=8", "--time=60", until=self.gate)
        # Eight seconds of a quiet machine: it must not end before it is stopped.
        self.victim = self.trainer.submit(annotation=SHORT, work=60 * crowd(), more=more)
        self.trainer.wait_working(self.victim)
        self.urgent = slurm.submit("--gpus-per-node=8", *URGENT, run_s=2)

    def assert_goes_on(self) -> None:
        """Both end well; the victim was requeued once and went on from what it had saved."""
        self.slurm.wait_completed([self.urgent, self.victim], 60)
        assert self.slurm.show(self.victim, "Restarts") == {"Restarts": "1"}
        reports = self.trainer.progress(self.victim).reports
        saved = [r.step for r in reports if r.checkpoint and r.run == 0]
        assert min(r.step for r in reports if r.run == 1) >= saved[-1]


@pytest.fixture
def pressed(slurm: Slurm, tmp_path: Path) -> Pressed:
    return Pressed(slurm, tmp_path / "jobs")


@pytest.mark.parametrize("point", choice(POINTS, 5))
def test_the_daemon_dies(pressed: Pressed, frail: Make, point: str) -> None:
    beside = frail(**ON)
    beside.launch(point)
    assert wait_for(lambda: beside.wait_dead(0), 30, f"{point} strikes", beside.log) == 9
    beside.start()
    pressed.assert_goes_on()
    wait_for(lambda: all(r["outcome"] for r in restarts(beside)), 20, "over", beside.log)
    assert [r["outcome"] for r in restarts(beside)][-1] == "done"


@pytest.mark.parametrize("stage", ["saving", "queued"])
@pytest.mark.usefixtures("whole")
def test_slurmctld_dies(slurm: Slurm, frail: Make, tmp_path: Path, stage: str) -> None:
    pressed = Pressed(slurm, tmp_path / "jobs", more="--checkpoint-takes 2")
    beside = frail(**ON, cycle__backoff_max_s=2).start()
    wait_for(lambda: stage in [r["stage"] for r in restarts(beside)], 30, stage, beside.log)
    slurm.cluster.restart("slurmctld")
    pressed.assert_goes_on()
