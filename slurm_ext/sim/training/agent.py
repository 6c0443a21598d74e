"""What a job's training library learns of its own speed while it runs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slurm_ext.engine.parts import steptime
from slurm_ext.model.goodput import StepTime
from slurm_ext.sim.errors import TraceError

from .tables import Step

Seen = Mapping[tuple[int, int, int], Step]
"""Nodes, GPUs, samples a GPU -> what a step took."""


def fit(seen: Seen) -> StepTime:
    """The model through all that was seen, at least one row.

    :raises TraceError: scipy is missing.
    """
    rows = np.array([[*k, v.step_s - v.sync_s, v.step_s] for k, v in seen.items()], dtype=float)
    try:
        return steptime.fit(rows)
    except ImportError as error:
        raise TraceError(
            "fitting step times needs scipy: pip install 'slurm-ext[learn]'"
        ) from error
