# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the daemons of a cluster run: all on this host, or each on a host of its own."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from .ports import Ports

CONTROLLER, DATABASE = "ctld", "db"
FIXED_PORTS = Ports(6817, 6819, 6818)
"""Slurm's own; on hosts of their own nothing is in the way."""


@dataclass(frozen=True)
class Hosts:
    """``apart``: nodes are hosts named after them, all with the same port."""

    controller: str
    database: str
    database_address: str
    apart: bool


def together() -> Hosts:
    return Hosts(f"{short_hostname()}(127.0.0.1)", "localhost", "127.0.0.1", apart=False)


def apart() -> Hosts:
    return Hosts(CONTROLLER, DATABASE, DATABASE, apart=True)


def short_hostname() -> str:
    return socket.gethostname().split(".")[0]
