"""What a GPU type is worth beside others."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SLICE = re.compile(r"(\d+)g\.\d+gb(?:\..*)?", re.IGNORECASE)
_WHOLE = 7


def speed_of(gpu_type: str, ratios: Mapping[str, float]) -> float:
    """Relative speed of a GPU type: as configured, else by the slices of a MIG type, else 1.

    MIG types are called by slices and memory (``1g.5gb``); a whole card has seven slices.
    """
    if gpu_type in ratios:
        return ratios[gpu_type]
    found = _SLICE.fullmatch(gpu_type)
    return min(int(found[1]), _WHOLE) / _WHOLE if found else 1.0
