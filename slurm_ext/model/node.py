"""A node as Slurm shows it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from .units import GpuMask

_PART = re.compile(r"(\D*)(\d{0,18})")

UNUSABLE_STATES = frozenset(
    {
        "DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "FUTURE", "UNKNOWN", "ERROR",
        "NOT_RESPONDING", "NO_RESPOND", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP",
        "POWER_DOWN", "POWER_UP", "REBOOT", "REBOOT_ISSUED", "REBOOT_REQUESTED", "INVAL",
        "INVALID_REG", "MAINT", "MAINTENANCE", "BLOCKED", "DYNAMIC_FUTURE",
    }
)  # fmt: skip
"""States and flags under which Slurm starts nothing new on a node (sinfo(1), NODE STATE CODES)."""


@dataclass(frozen=True, slots=True)
class GpuGroup:
    """GPUs of one type on one node.

    ``mask`` holds their Slurm GRES indices. ``sockets`` as printed by ``(S:…)``, empty if
    unknown. ``type`` is empty for untyped GPUs.
    """

    type: str
    mask: GpuMask
    sockets: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        return self.mask.bit_count()


@dataclass(frozen=True, slots=True)
class Node:
    """One node: capacity, what is allocated, whether Slurm would start jobs there.

    ``gpu_used`` is the mask of allocated GPUs as far as Slurm shows indices;
    ``gpu_used_count`` the count it prints (the greater of the two is the truth).
    ``gpu_shared``: GPUs of which shards (``shard``, ``mps``) are in use; no whole-GPU job can
    have them.
    ``cpus`` are the CPUs jobs may use (CPUEfctv), CPUs not cores.
    ``other_gres``: (name, configured, used) of GRES other than gpu.
    """

    name: str
    states: frozenset[str]
    cpus: int
    cpus_alloc: int
    mem_mib: int
    mem_alloc_mib: int
    gpus: tuple[GpuGroup, ...] = ()
    gpu_used: GpuMask = 0
    gpu_used_count: int = 0
    gpu_shared: GpuMask = 0
    sockets: int = 1
    cores_per_socket: int = 1
    threads_per_core: int = 1
    features: frozenset[str] = frozenset()
    partitions: tuple[str, ...] = ()
    reservation: str = ""
    other_gres: tuple[tuple[str, int, int], ...] = ()
    weight: int = 1
    reason: str = ""

    @property
    def gpu_mask(self) -> GpuMask:
        mask = 0
        for group in self.gpus:
            mask |= group.mask
        return mask

    @property
    def gpu_count(self) -> int:
        return self.gpu_mask.bit_count()

    @property
    def usable(self) -> bool:
        """Whether Slurm may start something here now (apart from what is occupied)."""
        return not (self.states & UNUSABLE_STATES)

    @property
    def completing(self) -> bool:
        return "COMPLETING" in self.states


@lru_cache(maxsize=1 << 16)
def natural(name: str) -> tuple[tuple[str, int, str], ...]:
    """Sort key of a node name by which n2 comes before n10."""
    return tuple((text, int(digits or 0), digits) for text, digits in _PART.findall(name))
