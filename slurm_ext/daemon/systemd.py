"""sd_notify(3) without a library: a datagram to the socket systemd names."""

from __future__ import annotations

import contextlib
import os
import socket


def notify(message: str) -> None:
    """Tell systemd; silently nothing when we were not started by it."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel,
    ):
        channel.connect(address)
        channel.send(message.encode())
