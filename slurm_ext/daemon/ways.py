"""The ways to Slurm in a snapshot: as plain data, and as lines to read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from slurm_ext.slurm.fallback import Standing, Switch

Plain = dict[str, Any]


def ways_of(ways: Sequence[Standing], switch: Switch | None) -> Plain:
    """The keys ``ways`` and ``way_switched`` of a snapshot."""
    return {
        "ways": [asdict(way) for way in ways],
        "way_switched": None if switch is None else asdict(switch),
    }


def way_lines(data: Plain) -> list[str]:
    """Which way to Slurm is used, why the others are not, and the last change.

    ``data``: a snapshot, also of an older daemon. Texts are as Slurm or a server wrote them.
    """
    lines = [
        f"way to Slurm: {way['name']} {way['role']}, {way['text']}" for way in data.get("ways", ())
    ]
    switch = data.get("way_switched")
    if switch:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(switch["at_s"]))
        lines.append(
            f"way changed at {at}: {switch['before']} to {switch['after']}, {switch['why']}"
        )
    return lines
