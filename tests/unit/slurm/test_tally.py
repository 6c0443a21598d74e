"""Counting calls to Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_ext.errors import SlurmUnavailableError
from slurm_ext.slurm.run import Runner
from slurm_ext.slurm.tally import TALLY, Calls, Tally, kind_of


@pytest.mark.parametrize(
    ("argv", "kind"),
    [
        (["squeue", "-h"], "squeue"),
        (["/opt/slurm/bin/scontrol", "-d", "show", "job", "7"], "scontrol show"),
        (["scontrol"], "scontrol batch"),
        (["sacctmgr", "-n", "-P", "show", "user"], "sacctmgr show"),
        (["scontrol", "jobid=7"], "scontrol jobid"),
    ],
)
def test_kinds(argv: list[str], kind: str) -> None:
    assert kind_of(argv) == kind


def test_calls_add_up() -> None:
    tally = Tally()
    tally.note("squeue", "ok", 0.5)
    tally.note("squeue", "ok", 0.25)
    tally.note("squeue", "refused", 1.0)
    assert tally.seen() == {("squeue", "ok"): Calls(2, 0.75), ("squeue", "refused"): Calls(1, 1.0)}


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("exit 0", "ok"),
        ("echo Invalid job id >&2; exit 1", "refused"),
        ("echo Connection refused >&2; exit 1", "unavailable"),
    ],
)
def test_every_command_is_counted_with_its_outcome(
    script: str, outcome: str, tmp_path: Path
) -> None:
    program = tmp_path / "squeue"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    before = TALLY.seen().get(("squeue", outcome), Calls())
    Runner(environ={"PATH": f"{tmp_path}:/usr/bin:/bin"}).run(["squeue", "-h"])
    after = TALLY.seen()["squeue", outcome]
    assert after.count == before.count + 1
    assert after.seconds > before.seconds


def test_a_program_that_is_not_there_counts_as_unavailable() -> None:
    before = TALLY.seen().get(("nowhere", "unavailable"), Calls())
    with pytest.raises(SlurmUnavailableError):
        Runner().run(["nowhere"])
    assert TALLY.seen()["nowhere", "unavailable"].count == before.count + 1
