"""What gets installed, and what the tree promises."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from slurm_ext.engine import explain

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree: building in the checkout leaves directories behind."""
    build = tmp_path_factory.mktemp("source") / "src"
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, tracked.split("\0")):
        source, target = ROOT / name, build / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(source.readlink())
        elif source.is_file():
            target.write_bytes(source.read_bytes())
    return build


def build_wheel(source: Path, out: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation",
         "-w", str(out), str(source)],
        check=True, capture_output=True,
    )  # fmt: skip
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel_path(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def wheel(wheel_path: Path) -> list[str]:
    with zipfile.ZipFile(wheel_path) as archive:
        return archive.namelist()


def test_the_wheel_has_one_top_level_name(wheel: list[str]) -> None:
    tops = {name.split("/")[0] for name in wheel}
    assert {t for t in tops if not t.endswith((".dist-info", ".data"))} == {"slurm_ext"}


def test_the_wheel_has_man_pages_and_what_monitoring_needs(wheel: list[str]) -> None:
    pages = {name.partition(".data/data/")[2] for name in wheel if ".data/" in name}
    assert pages == {
        "share/man/man1/slurm-ext.1", "share/man/man5/slurm_ext.toml.5",
        "share/slurm-ext/alerts.yml", "share/slurm-ext/dashboard.json",
    }  # fmt: skip


def test_a_source_archive_gives_the_same_wheel(
    source: Path, wheel: list[str], tmp_path: Path
) -> None:
    code = "from setuptools import build_meta; print(build_meta.build_sdist({!r}))"
    subprocess.run(
        [sys.executable, "-c", code.format(str(tmp_path))], cwd=source, check=True,
        capture_output=True,
    )  # fmt: skip
    (archive,) = tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(build_wheel(archive, tmp_path)) as built:
        assert set(built.namelist()) == set(wheel)


@pytest.mark.slow
def test_it_installs_and_runs_in_a_clean_environment(wheel_path: Path, tmp_path: Path) -> None:
    def run(*argv: object) -> str:
        done = subprocess.run(
            list(map(str, argv)), cwd=tmp_path, check=False, capture_output=True, text=True,
            env={"PATH": os.defpath, "HOME": os.environ.get("HOME", "/")}, timeout=280,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(sys.executable, "-m", "venv", tmp_path / "v")
    run(tmp_path / "v" / "bin" / "pip", "install", "-q", f"{wheel_path}[metrics]")
    program = tmp_path / "v" / "bin" / "slurm-ext"
    assert "slurm-ext" in run(program, "--version")
    assert "tiresias" in run(program, "policy", "list")
    assert "mode = " in run(program, "config", "show")
    words = ("--trace", "demo", "--head", 20, "--cluster", "4x8", "--policies", "fifo")
    assert "fifo" in run(program, "sim", "compare", *words)
    assert (tmp_path / "v" / "share" / "man" / "man1" / "slurm-ext.1").exists()


@pytest.mark.parametrize(
    "name",
    [
        "slurm_ext/py.typed",
        "slurm_ext/policies/fifo.py",
        "slurm_ext/accounting/__init__.py",
        "slurm_ext/sbatch_templates/__init__.py",
        "slurm_ext/daemon/config_schema.json",
        "slurm_ext/slurm/lua/job_submit.lua",
        "slurm_ext/annotate/schema.json",
        "slurm_ext/sbatch_templates/trainer.py",
        "slurm_ext/sbatch_templates/jax.sbatch",
    ],
)
def test_the_wheel_holds(wheel: list[str], name: str) -> None:
    assert name in wheel


@pytest.mark.parametrize("name", ["policies", "accounting", "sbatch_templates"])
def test_the_mapped_packages_are_links(name: str) -> None:
    link = ROOT / "slurm_ext" / name
    assert link.is_symlink()
    assert link.resolve() == ROOT / name


def used_codes() -> set[str]:
    """First arguments of every reason(...) call in the engine."""
    codes = set()
    for path in (ROOT / "slurm_ext" / "engine").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                continue
            if call.func.id in ("reason", "_reason") and call.args:
                first = call.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    codes.add(first.value)
    return codes


def test_every_code_has_a_sentence() -> None:
    assert used_codes() <= set(explain.SENTENCES)


def test_the_search_for_codes_finds_them() -> None:
    assert {"fits", "gpus_busy", "let_go", "opted_out"} <= used_codes()
