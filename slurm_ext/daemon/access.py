"""Who asks at a socket, and how much of other users' jobs they may see."""

from __future__ import annotations

import os
import pwd
import socket
import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

Plain = dict[str, Any]

_BLANK: Plain = {
    "name": "", "user": "", "account": "", "terms": {}, "placement": None, "alternatives": [],
}  # fmt: skip
"""Put over another user's job for who may not see it; squeue(1) shows none of it then."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """The peer of a connection. ``operator``: sees and may do everything."""

    uid: int
    name: str
    operator: bool


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end (unix(7), SO_PEERCRED).

    :raises OSError: the peer has gone.
    """
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", raw)[1])


def viewer(connection: socket.socket, operators: Collection[str]) -> Viewer:
    """The peer by its credentials: root, we ourselves and the named
    operators see everything.

    :raises OSError: the peer has gone.
    """
    uid = peer_uid(connection)
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = ""
    return Viewer(uid, name, uid in (0, os.geteuid()) or (name != "" and name in operators))


def hides_others(setting: str, private_data: str) -> bool:
    """Whether users see other users' jobs blanked.

    ``setting``: ``show``, ``hide``, or ``slurm`` for what slurm.conf(5) PrivateData says.
    """
    if setting == "slurm":
        return "jobs" in {word.strip().lower() for word in private_data.split(",")}
    return setting == "hide"


def seen_by(snapshot: Plain, who: Viewer, *, hide: bool) -> Plain:
    """The snapshot as this viewer may see it; operators get it as it is."""
    if who.operator or not hide:
        return snapshot
    jobs = [
        job if who.name and job["user"] == who.name else {**job, **_BLANK}
        for job in snapshot.get("jobs", [])
    ]
    empty: Plain = {key: [] for key in ("problems", "errors", "preempt", "restarts")}
    return {**snapshot, "jobs": jobs, **empty}
