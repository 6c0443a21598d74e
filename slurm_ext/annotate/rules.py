"""What single values cannot show: keys that contradict each other or do nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_ext.model.annotation import gpu_counts

from .problem import Problem


def contradictions(values: Mapping[str, Any]) -> list[Problem]:
    """Problems between keys; the values are single ones that passed."""
    return [*_scaling(values), *_checkpoint(values), *_speed(values)]


def _scaling(values: Mapping[str, Any]) -> list[Problem]:
    kind = values.get("scaling", "fixed")
    if kind == "fixed":
        return [
            Problem("pointless", f"{key} says nothing with scaling=fixed",
                    "add scaling=elastic or scaling=moldable", key, error=key == "gpus")
            for key in ("gpus", "sizes", "logical_workers") if key in values
        ]  # fmt: skip
    if "gpus" not in values:
        return [Problem("missing", f"scaling={kind} needs the GPU counts",
                        "add gpus=MIN..MAX, for example gpus=1..8", "scaling")]  # fmt: skip
    low, high = values["gpus"]
    if low > high:
        return [Problem("range", f"gpus: {low} is more than {high}", f"write gpus={high}..{low}",
                        "gpus")]  # fmt: skip
    powers = values.get("sizes", "powers_of_two") == "powers_of_two"
    workers = values.get("logical_workers", 0)
    if not gpu_counts(low, high, powers_of_two=powers, logical_workers=workers):
        return [Problem("no_count", f"no GPU count from {low} to {high} is allowed by "
                                "sizes and logical_workers", "widen gpus, or add sizes=any",
                                "gpus")]  # fmt: skip
    return []


def _checkpoint(values: Mapping[str, Any]) -> list[Problem]:
    problems = []
    saves = "signal" in values or values.get("checkpoint_every", 0) > 0
    if values.get("scaling") == "elastic" and not saves:
        problems.append(Problem("missing", "scaling=elastic without a checkpoint would lose work "
                                "at each change", "add signal=USR1 (and a trap in the script) or "
                                "checkpoint_every=10m", "scaling"))  # fmt: skip
    if values.get("preemptible") and not saves:
        problems.append(Problem("from_start", "preemptible without a checkpoint: the job starts "
                                "from the beginning", "add signal=USR1 or checkpoint_every=10m",
                                "preemptible", error=False))  # fmt: skip
    if "signal" not in values:
        problems += [
            Problem("pointless", f"{key} says nothing without signal", "add signal=USR1", key,
                    error=False)
            for key in ("signal_to", "grace") if key in values
        ]  # fmt: skip
    return problems


def _speed(values: Mapping[str, Any]) -> list[Problem]:
    if "speed" in values and "theta" in values:
        return [Problem("contradiction", "speed and theta both give a curve", "keep one of them",
                        "theta")]  # fmt: skip
    return []
