# SPDX-License-Identifier: GPL-2.0-or-later
"""A block of free TCP ports for one cluster."""

from __future__ import annotations

import random
import socket
from dataclasses import dataclass
from pathlib import Path

from .errors import MiniSlurmError

LOWEST = 10_000
HIGHEST = 32_000


@dataclass(frozen=True)
class Ports:
    """slurmctld, slurmdbd, slurmrestd, then one a node: node lines can say Port=[a-b]."""

    slurmctld: int
    slurmdbd: int
    first_node: int
    slurmrestd: int = 0

    @classmethod
    def block(cls, start: int) -> Ports:
        return cls(start, start + 1, start + 3, start + 2)


def pick_ports(nodes: int) -> Ports:
    """A random place, so that clusters started at the same time rarely meet."""
    size = nodes + 3
    top = max(LOWEST + size + 1, min(HIGHEST, _first_ephemeral_port()))
    for _ in range(200):
        start = random.randrange(LOWEST, top - size)
        if all(is_free(port) for port in range(start, start + size)):
            return Ports.block(start)
    raise MiniSlurmError(
        f"no {size} free TCP ports in a row between {LOWEST} and {top}: stop other clusters"
    )


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Slurm itself does: ports in TIME_WAIT count as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


def _first_ephemeral_port() -> int:
    """Above it, any outgoing connection may take a port while its daemon is down."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return HIGHEST
