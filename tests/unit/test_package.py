"""What gets installed, and what the tree promises."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from slurm_ext.engine import explain

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    out = tmp_path_factory.mktemp("wheel")
    build = out / "src"
    # From a copy: building in the checkout leaves directories behind.
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
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation",
         "-w", str(out), str(build)],
        check=True, capture_output=True,
    )  # fmt: skip
    (path,) = out.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def test_the_wheel_has_one_top_level_name(wheel: list[str]) -> None:
    tops = {name.split("/")[0] for name in wheel}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"slurm_ext"}


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
