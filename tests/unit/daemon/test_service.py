"""The loop around the cycles: failures, pauses, the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slurm_ext.daemon.client import ask
from slurm_ext.daemon.config import Config, load
from slurm_ext.daemon.runner import CycleResult
from slurm_ext.daemon.service import Service
from slurm_ext.errors import ConfigError
from slurm_ext.model.observation import Observation
from tests.builders import job, node, observation
from tests.fake import FakeSlurm


def config(tmp_path: Path, **overrides: object) -> Config:
    base: dict[str, object] = {
        "mode": "enforce",
        "policy.name": "fifo",
        "cycle.interval_s": 1,
        "cycle.min_interval_s": 0.1,
        "levers.lease_s": 30,
        "state.dir": str(tmp_path / "state"),
        "state.run_dir": str(tmp_path / "run"),
    }
    return load(Path("/dev/null"), {**base, **overrides})


def crowded() -> Observation:
    """Job 2 would pass the fence of job 1, so it is deferred."""
    now = int(time.time())
    jobs = [
        replace(job(9, gpus=4, on={"n1": 4}), end_s=now + 600),
        job(1, gpus=8, submit=now - 60),
        job(2, gpus=2, limit=99_999, submit=now - 50),
    ]
    return observation([node("n1", used=range(4), cpus_used=4)], jobs, now=now)


@dataclass
class Faulty(FakeSlurm):
    """Answers ``good`` times, then fails in a way nobody foresaw."""

    good: int = 1
    looks: int = field(default=0)

    def observe(self, *, site_factors: bool = False) -> Observation:
        self.looks += 1
        if self.looks == self.good + 1:
            raise RuntimeError("nobody foresaw this")
        return super().observe(site_factors=site_factors)


def serve(
    service: Service, cycles: int, each: Callable[[], object] = lambda: None
) -> list[CycleResult]:
    """Run in a thread until so many good cycles have passed; ``each`` is called after each."""
    seen: list[CycleResult] = []
    enough = threading.Event()

    def count(result: CycleResult) -> None:
        seen.append(result)
        each()
        if len(seen) >= cycles:
            enough.set()

    service.on_cycle = count
    thread = threading.Thread(target=service.serve)
    thread.start()
    assert enough.wait(20)
    service.request_stop()
    thread.join(20)
    assert not thread.is_alive()
    return seen


@pytest.mark.parametrize("defer", ["lease", "hold"])
def test_an_unforeseen_error_ends_neither_the_daemon_nor_leaves_a_hold(
    tmp_path: Path, defer: str
) -> None:
    fake = Faulty(crowded())
    settings = config(tmp_path, **{"levers.defer": defer})
    service = Service(settings, fake, True, reload=lambda: settings)
    assert len(serve(service, 2)) == 2
    assert not any(j.held for j in fake.obs.jobs)


def test_leases_stay_at_an_ordinary_end(tmp_path: Path) -> None:
    fake = FakeSlurm(crowded())
    settings = config(tmp_path)
    serve(Service(settings, fake, True, reload=lambda: settings), 1)
    assert any(j.begin_s for j in fake.obs.jobs)


def test_a_stop_that_gives_back_leaves_nothing(tmp_path: Path) -> None:
    fake = FakeSlurm(crowded())
    settings = config(tmp_path)
    service = Service(settings, fake, True, reload=lambda: settings)
    service._give_back = True
    serve(service, 1)
    assert not any(j.begin_s for j in fake.obs.jobs)
    assert all(not j.admin_comment for j in fake.obs.jobs)


def test_holds_are_lifted_even_if_the_lever_was_changed_meanwhile(tmp_path: Path) -> None:
    fake = FakeSlurm(crowded())
    settings = config(tmp_path, **{"levers.defer": "hold"})
    service = Service(settings, fake, True, reload=lambda: settings)

    def change() -> None:
        service.config = config(tmp_path)

    serve(service, 1, change)
    assert not any(j.held for j in fake.obs.jobs)


def test_a_bad_reload_keeps_the_old_configuration(tmp_path: Path) -> None:
    def refuse() -> Config:
        raise ConfigError(["broken"])

    settings = config(tmp_path)
    service = Service(settings, FakeSlurm(crowded()), True, reload=refuse)
    service._reload_wanted = True
    serve(service, 1)
    assert service.config is settings


def test_a_reload_takes_effect(tmp_path: Path) -> None:
    fresh = config(tmp_path, mode="observe")
    fake = FakeSlurm(crowded())
    service = Service(config(tmp_path), fake, True, reload=lambda: fresh)
    service._reload_wanted = True
    serve(service, 1)
    assert fake.sent == []


@pytest.mark.parametrize(("failures", "pause"), [(1, 1.0), (3, 4.0), (12, 300.0)])
def test_pauses_grow_up_to_a_bound(tmp_path: Path, failures: int, pause: float) -> None:
    settings = config(tmp_path)
    service = Service(settings, FakeSlurm(crowded()), True, reload=lambda: settings)
    service._failures = failures
    assert service._pause_s(None, 0.0) == pause


def test_the_socket_answers_while_serving(tmp_path: Path) -> None:
    settings = config(tmp_path)
    service = Service(settings, FakeSlurm(crowded()), True, reload=lambda: settings)
    answers: list[int] = []
    serve(service, 2, lambda: answers.append(ask(tmp_path / "run", "/healthz")["cycle"]))
    assert answers[:2] == [1, 2]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"policy.name": "nope"}, id="unknown-policy"),
        pytest.param({"policy.parameters.speed": 3}, id="unknown-parameter"),
        pytest.param({"slurm.format": "json"}, id="fixed-at-the-start"),
        pytest.param({"state.dir": "/elsewhere"}, id="another-state"),
    ],
)
def test_a_reload_that_cannot_be_obeyed_is_refused(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    settings = config(tmp_path)
    fresh = config(tmp_path, **changes)
    service = Service(settings, FakeSlurm(crowded()), True, reload=lambda: fresh)
    service._reload_wanted = True
    serve(service, 1)
    assert service.config is settings
