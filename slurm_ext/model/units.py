"""Names for the numbers that are passed around."""

from __future__ import annotations

from typing import TypeAlias

EpochS: TypeAlias = int
"""Seconds since the epoch."""

GpuMask: TypeAlias = int
"""Bit i set: the GPU with Slurm GRES index i on its node."""

Fact: TypeAlias = str | int | float | bool | tuple[str, ...] | None
"""What a reason may carry."""

FOREVER_S = 1 << 40
"""Later than any clock; used where Slurm says UNLIMITED."""


def mask_of(indices: tuple[int, ...] | list[int] | range) -> GpuMask:
    """Bit mask of GPU indices."""
    mask = 0
    for i in indices:
        mask |= 1 << i
    return mask


def indices_of(mask: GpuMask) -> tuple[int, ...]:
    """GPU indices of a bit mask, ascending."""
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)
