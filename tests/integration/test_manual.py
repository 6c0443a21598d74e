"""The commands of the manual on a real Slurm beside a real daemon; its answers as published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_ext.daemon.client import ask
from tests.manual import live_commands
from tests.status_schema import problems

from .harness import Daemon, Slurm

pytestmark = pytest.mark.slurm

SMALL = ("--gpus-per-node=1", "--cpus-per-task=1", "--mem=100")


def test_commands_of_the_manual_work(
    slurm: Slurm, daemon: Callable[..., Daemon], tmp_path: Path
) -> None:
    blocker = slurm.submit("-N4", "--gpus-per-node=8", "--exclusive", "--requeue", run_s=300)
    slurm.wait_state([blocker], {"RUNNING"}, 20)
    waiting = slurm.submit(*SMALL, "--comment=slurm_ext:gpus=1", run_s=1)
    beside = daemon(guard__min_runtime_before_requeue_s=0)
    beside.wait_seen([waiting])
    assert _answers(beside.run_dir, waiting) == []
    failed = {}
    for words in live_commands(waiting, blocker):
        if words[0] == "history":
            continue  # needs slurmdbd: see the containers
        full = [str(tmp_path / w) if w.endswith(".gz") else w for w in words]
        if words[0] == "replay":
            done = slurm.run(*beside.program, *full, check=False)
        else:
            done = beside.command(*full, check=False)
        if done.returncode:
            failed[" ".join(words)] = done.stdout + done.stderr
    assert failed == {}


def _answers(run_dir: Path, job: int) -> list[str]:
    paths = {"/v1/status": "status", "/v1/jobs": "jobs", f"/v1/jobs/{job}": "job",
             "/v1/nodes": "nodes", "/v1/cycles": "cycles", "/v1/policy": "policy",
             "/healthz": "health"}  # fmt: skip
    return [f"{p}: {said}" for p, name in paths.items() for said in problems(ask(run_dir, p), name)]
