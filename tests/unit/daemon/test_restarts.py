"""Restarts through whole cycles, beside an in-memory Slurm."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slurm_ext.daemon.config import load
from slurm_ext.daemon.journal import Journal
from slurm_ext.daemon.metrics import Metrics
from slurm_ext.daemon.runner import CycleResult, Runner
from slurm_ext.daemon.snapshot import snapshot
from slurm_ext.errors import SlurmUnavailableError
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.restart import JobSignal
from tests.builders import job, node, observation
from tests.fake import FakeSlurm

SETTINGS: dict[str, object] = {
    "mode": "enforce", "policy.name": "fifo", "preemption.enabled": True,
    "guard.min_runtime_before_requeue_s": 0, "cycle.stale_s": 3600, "progress.interval_s": 0,
    "restart.max_per_job_hour": 1,
}  # fmt: skip
COMMENT = "slurm_ext:preemptible=true,signal=USR1,grace=60s"


@dataclass
class Rig:
    """One node: a preemptible job on it, and one that waits for it."""

    journal: Journal
    slurm: FakeSlurm
    directory: Path
    now_s: int
    settings: dict[str, object]

    def look(self, *jobs: Job, after_s: int = 0) -> None:
        used = range(8) if any(j.alloc for j in jobs) else ()
        self.slurm.obs = observation(
            [node("n1", used=used)], [*jobs, job(9, gpus=8)], now=self.now_s + after_s
        )

    def runs(self, **fields: object) -> Job:
        return job(1, on={"n1": 8}, gpus=8, requeueable=True, comment=COMMENT, uid=os.geteuid(),
                   start_s=self.now_s - 100, end=self.now_s + 9000, **fields)  # fmt: skip

    def tell(self, event: str, at_s: float) -> None:
        folder = self.directory / ".slurm_ext"
        folder.mkdir(exist_ok=True)
        line = {"v": 1, "t": at_s, "run": 0, "event": event, "step": 5}
        with (folder / "1.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def cycle(self) -> CycleResult:
        """By a daemon that has just been started."""
        config = load(Path("/dev/null"), self.settings)
        return Runner(config, self.slurm, self.journal).run()

    def stages(self) -> list[str]:
        return [r.outcome or str(r.stage) for r in self.journal.restarts(0)]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Journal(tmp_path / "journal.db") as journal:
        slurm = FakeSlurm(observation([], []), directory=str(tmp_path))
        one = Rig(journal, slurm, tmp_path, int(time.time()), dict(SETTINGS))
        one.look(one.runs())
        yield one


def test_from_the_signal_to_the_end(rig: Rig) -> None:
    rig.tell("progress", rig.now_s - 1)
    assert rig.cycle().wake_at_s == rig.now_s + 2
    assert rig.slurm.signalled == [JobSignal(rig.runs().key, "1", "USR1", "batch")]
    assert rig.stages() == ["saving"]
    rig.tell("checkpoint", rig.now_s)
    rig.cycle()
    assert (rig.slurm.requeued, rig.stages()) == ([rig.runs().key], ["ending"])
    back = job(1, gpus=8, restarts=1, comment=COMMENT, submit=rig.now_s, begin=rig.now_s + 120)
    rig.look(back)
    rig.cycle()
    assert rig.stages() == ["queued"]
    rig.look(replace(rig.runs(restarts=1), key=JobKey(1, rig.now_s)))
    done = rig.cycle()
    assert rig.stages() == ["done"]
    metrics = Metrics()
    metrics.cycle(done)
    text = metrics.text().decode()
    assert 'slurm_ext_restarts_total{kind="preempt",outcome="done"} 1.0' in text
    assert 'slurm_ext_restart_requeues_total{kind="preempt"} 1.0' in text
    levers = [a.lever for a in rig.journal.actions(rig.runs().key)]
    assert levers == ["signal", "requeue"]


@pytest.mark.parametrize("lost", ["signal", "requeue"])
def test_what_was_not_sent_is_sent_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    if lost == "requeue":
        rig.cycle()
        rig.tell("checkpoint", rig.now_s)

    def fail(*_: object, **__: object) -> None:
        raise SlurmUnavailableError("no answer")

    with monkeypatch.context() as broken:
        broken.setattr(FakeSlurm, lost, fail)
        with pytest.raises(SlurmUnavailableError):
            rig.cycle()
    assert rig.stages() == [lost]
    rig.cycle()
    sent = rig.slurm.signalled if lost == "signal" else rig.slurm.requeued
    assert len(sent) == 1
    assert rig.stages() == [{"signal": "saving", "requeue": "ending"}[lost]]


def test_a_pause_begins_nothing_and_drops_what_has_not_been_stopped(rig: Rig) -> None:
    rig.journal.pause("root", rig.now_s)
    rig.cycle()
    assert rig.stages() == []
    rig.journal.resume("root", rig.now_s)
    rig.cycle()
    rig.journal.pause("root", rig.now_s)
    rig.tell("checkpoint", rig.now_s)
    rig.cycle()
    assert (rig.stages(), rig.slurm.requeued) == (["dropped"], [])


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"mode": "order"}, id="order"),
        pytest.param({"mode": "observe"}, id="observe"),
        pytest.param({"restart.enabled": False}, id="switched-off"),
        pytest.param({"guard.max_requeues_per_hour": 0}, id="no-requeues"),
    ],
)
def test_otherwise_it_is_only_proposed(rig: Rig, settings: dict[str, object]) -> None:
    rig.settings |= settings
    assert rig.cycle().plan.preempt[0].worth
    assert (rig.stages(), rig.slurm.signalled) == ([], [])


def test_a_refused_signal_ends_it_for_a_while(rig: Rig) -> None:
    rig.slurm.refuse = {1}
    rig.cycle()
    rig.cycle()
    assert rig.stages() == ["refused"]


def test_status_shows_it(rig: Rig) -> None:
    result = rig.cycle()
    (shown,) = snapshot(result, load(Path("/dev/null"), rig.settings))["restarts"]
    assert (shown["id"], shown["stage"], shown["gainer"]) == ("1", "saving", 9)
    assert "grace" in shown["text"]
