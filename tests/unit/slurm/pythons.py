"""Interpreters for pyslurm's process: with a pyslurm that does as it is told, or without."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slurm_ext.slurm.native_process import Child, ChildOptions

FAKE = Path(__file__).with_name("fake_pyslurm")


def program(place: Path, body: str) -> str:
    """An executable to use as ``slurm.native_python``; gets -I, the child's file and its MiB."""
    path = place / "python"
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(0o755)
    return str(path)


def with_fake(place: Path) -> str:
    """A Python whose pyslurm is the fake one."""
    body = f"import runpy, sys\nsys.path.insert(0, {str(FAKE)!r})\ndel sys.argv[:2]\n"
    return program(place, f"{body}runpy.run_path(sys.argv[0], run_name='__main__')\n")


def without(place: Path) -> str:
    """A Python that has no pyslurm, whatever this machine has."""
    body = "import runpy, sys\nsys.modules['pyslurm'] = None\ndel sys.argv[:2]\n"
    return program(place, f"{body}runpy.run_path(sys.argv[0], run_name='__main__')\n")


def world(place: Path, **facts: Any) -> Path:
    """What the fake pyslurm takes for slurm.conf; may be written anew (then call again)."""
    path = place / "slurm.conf"
    path.write_text(json.dumps({"jobs": [], "log": str(place / "log"), **facts}))
    return path


def child(
    place: Path,
    python: str | None = None,
    *,
    limit_s: float = 20,
    memory_mib: int = 4096,
    clock: Callable[[], float] | None = None,
    **facts: Any,
) -> Child:
    """A child on the fake pyslurm in the world of these facts."""
    options = ChildOptions(
        python or with_fake(place), str(world(place, **facts)), limit_s, memory_mib
    )
    return Child(options, {}) if clock is None else Child(options, {}, clock=clock)
