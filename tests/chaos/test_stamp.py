"""job_submit.lua gives new jobs a short lease: nobody needs the daemon to get out of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import slurm_ext.slurm
from tests.chaos.conftest import SPEC
from tests.chaos.rig import NOTE, Frail, Queue, Wish, read
from tests.integration.harness import Slurm, running, wait_for

pytestmark = pytest.mark.slurm

SCRIPT = Path(slurm_ext.slurm.__file__).parent / "lua" / "job_submit.lua"


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def stamping(run_dir: Path) -> Iterator[Slurm]:
    text = SCRIPT.read_text()
    lua = text.replace("/run/slurm_ext/heartbeat", str(run_dir / "heartbeat"))
    assert lua != text
    with running(replace(SPEC, name="stamp", job_submit_lua=lua)) as slurm:
        yield slurm


@pytest.fixture
def beside(stamping: Slurm, run_dir: Path, tmp_path: Path) -> Iterator[Frail]:
    one = Frail(stamping, tmp_path / "d", state__run_dir=str(run_dir), levers__lease_s=10)
    one.run_dir = run_dir
    one.start()
    yield one
    if one.process is not None and one.process.poll() is None:
        one.kill()


def test_a_stamped_job_starts_after_the_death_of_the_daemon(stamping: Slurm, beside: Frail) -> None:
    queue = Queue(stamping)
    wait_for((beside.run_dir / "heartbeat").exists, 10, "a heartbeat")
    beside.kill()
    job = queue.add(Wish(), "--gpus-per-node=8")
    assert NOTE.search(read(stamping)[job].admin_comment), read(stamping)[job]
    stamping.wait_completed([job], 20)


def test_recover_takes_a_stamp_off(stamping: Slurm, beside: Frail) -> None:
    queue = Queue(stamping)
    wait_for((beside.run_dir / "heartbeat").exists, 10, "a heartbeat")
    beside.kill()
    for wish in (Wish(), Wish(nodes=2)):
        queue.add(wish, "--gpus-per-node=8")
    beside.command("recover", "--fail-open")
    assert queue.left_behind(read(stamping)) == []


def test_no_stamp_without_a_living_daemon(stamping: Slurm, beside: Frail) -> None:
    beside.stop()
    job = Queue(stamping).add(Wish(), "--gpus-per-node=8")
    assert read(stamping)[job].admin_comment == ""
