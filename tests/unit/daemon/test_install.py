"""Putting the daemon on a host and taking it off again, below a directory."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from slurm_ext.cli.main import main
from slurm_ext.daemon.config import load
from slurm_ext.daemon.install import Layout, units

PROGRAM = "/opt/slurm-ext/bin/slurm-ext"


def setup(root: Path, *words: str) -> int:
    return main(["setup", "--root", str(root), "--program", PROGRAM, *words])


def tree(root: Path) -> dict[str, str]:
    return {str(p.relative_to(root)): p.read_text() for p in root.rglob("*") if p.is_file()}


def test_everything_is_put_in_place_and_loads(tmp_path: Path) -> None:
    assert setup(tmp_path) == 0
    assert load(tmp_path / "etc/slurm_ext/slurm_ext.toml").mode == "observe"
    unit = (tmp_path / "etc/systemd/system/slurm-ext.service").read_text()
    assert f"ExecStart={PROGRAM} serve --config /etc/slurm_ext/slurm_ext.toml" in unit
    assert "@PROGRAM@" not in unit


def test_a_dry_run_touches_nothing(tmp_path: Path) -> None:
    assert setup(tmp_path, "--dry-run") == 0
    assert tree(tmp_path) == {}


def test_undo_leaves_nothing(tmp_path: Path) -> None:
    setup(tmp_path)
    assert setup(tmp_path, "--undo") == 0
    assert tree(tmp_path) == {}


def test_a_second_setup_changes_nothing(tmp_path: Path) -> None:
    setup(tmp_path)
    before = tree(tmp_path)
    assert setup(tmp_path) == 0
    assert tree(tmp_path) == before


def test_what_stood_there_before_is_kept_and_not_removed(tmp_path: Path) -> None:
    config = tmp_path / "etc/slurm_ext/slurm_ext.toml"
    config.parent.mkdir(parents=True)
    config.write_text('mode = "order"\n')
    setup(tmp_path)
    assert setup(tmp_path, "--undo") == 0
    assert tree(tmp_path) == {"etc/slurm_ext/slurm_ext.toml": 'mode = "order"\n'}


def test_what_was_changed_since_is_left_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setup(tmp_path)
    config = tmp_path / "etc/slurm_ext/slurm_ext.toml"
    config.write_text('mode = "enforce"\n')
    assert setup(tmp_path, "--undo") == 1
    assert "slurm_ext.toml: changed since, left" in capsys.readouterr().out
    assert config.read_text() == 'mode = "enforce"\n'
    left = json.loads((config.parent / "setup.json").read_text())
    assert list(left) == ["file:/etc/slurm_ext/slurm_ext.toml"]


def test_an_upgrade_renews_units_that_nobody_changed(tmp_path: Path) -> None:
    setup(tmp_path)
    main(["setup", "--root", str(tmp_path), "--program", "/usr/bin/slurm-ext"])
    unit = (tmp_path / "etc/systemd/system/slurm-ext.service").read_text()
    assert "ExecStart=/usr/bin/slurm-ext serve" in unit


def test_a_broken_manifest_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "etc/slurm_ext/setup.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{")
    assert setup(tmp_path) == 1
    assert "setup.json" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_no_fault_in_the_units(tmp_path: Path) -> None:
    for name, text in units(Layout(Path("/"), "root", shutil.which("true") or "")).items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_history_is_read_before_it_is_learnt_from(tmp_path: Path) -> None:
    setup(tmp_path)
    unit = (tmp_path / "etc/systemd/system/slurm-ext-history.service").read_text()
    starts = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    config = "--config /etc/slurm_ext/slurm_ext.toml"
    assert starts == [
        f"ExecStart={PROGRAM} history sync {config}",
        f"ExecStart={PROGRAM} history fit {config}",
    ]


def test_an_empty_root_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["setup", "--dry-run", "--root", ""])
    assert "name a directory" in capsys.readouterr().err
