"""TRES strings: ``cpu=8,mem=32G,node=1,billing=8,gres/gpu=4,gres/gpu:a100=4``.

Typed and untyped entries name the *same* GPUs; either may be missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_SIZE = re.compile(r"(\d{1,18})(?:\.(\d{1,9}))?([KMGTP]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_MIB_PER = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1048576.0, "P": 1073741824.0}
_NOTHING = frozenset({"", "(null)", "N/A"})


@dataclass(frozen=True, slots=True)
class Tres:
    """Amounts of one TRES string; ``gpu_types`` as given, ``other`` the rest by name."""

    cpus: int = 0
    mem_mib: int = 0
    nodes: int = 0
    gpus: int = 0
    gpu_types: tuple[tuple[str, int], ...] = ()
    other: tuple[tuple[str, int], ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def gpu_type(self) -> str:
        """The type if all GPUs are of one known type, else empty."""
        if len(self.gpu_types) == 1 and self.gpu_types[0][1] == self.gpus:
            return self.gpu_types[0][0]
        return ""


def mem_mib(text: str) -> int | None:
    """MiB of a size (``500000M``, ``1.50G``, plain MiB), rounded up; None if unreadable."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    whole, fraction, unit = found.groups()
    exact = float(f"{whole}.{fraction or 0}") * _MIB_PER[unit.upper()]
    return int(whole) if unit.upper() in ("", "M") and not fraction else -int(-exact // 1)


def _count(text: str) -> int | None:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    scale = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
    return int(float(f"{found[1]}.{found[2] or 0}") * scale[found[3].upper()])


@lru_cache(maxsize=8192)
def parse_tres(text: str) -> Tres:
    """All entries of a TRES string; entries that cannot be read are named, never raised."""
    amounts = {"cpu": 0, "mem": 0, "node": 0}
    untyped: int | None = None
    types: dict[str, int] = {}
    other: list[tuple[str, int]] = []
    bad: list[str] = []
    for entry in text.split(",") if text not in _NOTHING else ():
        name, equals, value = entry.partition("=")
        number = mem_mib(value) if name == "mem" else _count(value)
        if not equals or number is None:
            bad.append(entry)
        elif name in amounts:
            amounts[name] = number
        elif name == "gres/gpu":
            untyped = number
        elif name.startswith("gres/gpu:"):
            types[name[9:]] = types.get(name[9:], 0) + number
        else:
            other.append((name, number))
    typed = sum(types.values())
    return Tres(
        cpus=amounts["cpu"],
        mem_mib=amounts["mem"],
        nodes=amounts["node"],
        gpus=typed if untyped is None else max(untyped, typed),
        gpu_types=tuple(types.items()),
        other=tuple(other),
        unreadable=tuple(bad),
    )
