"""What all tests share: the launcher can be imported, and property tests are not timed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docker"))

LIVE = {"chaos", "contract", "integration"}
"""Directories of the tests on a real Slurm: to import all the others five times takes a while."""

# A busy machine is slow: that says nothing about the property. The same cases each time, so that
# a red run can be repeated; `--hypothesis-profile=search` looks for new ones.
SLOW = [HealthCheck.too_slow]
settings.register_profile("search", deadline=None, suppress_health_check=SLOW)
settings.register_profile("same", deadline=None, suppress_health_check=SLOW, derandomize=True)
settings.load_profile("same")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For ``--dist loadgroup``: the tests of a file share a process, unless they name a group."""
    names = ", ".join(sorted(LIVE))
    for item in items:
        if item.get_closest_marker("slurm") and not LIVE & set(item.path.parts):
            raise pytest.UsageError(f"{item.nodeid}: ./dev test finds slurm tests in {names} only")
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}_{item.path.stem}"))
