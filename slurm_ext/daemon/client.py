"""Asking a running daemon through its status socket."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any

from slurm_ext.errors import SlurmExtError

from .publish import SOCKET_NAME


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(run_dir: Path, path: str, *, timeout_s: float = 10.0) -> Any:
    """The JSON at ``path`` of the daemon's status socket.

    :raises SlurmExtError: no daemon, no right to ask, or no such thing; says what to do.
    """
    where = run_dir / SOCKET_NAME
    connection = _UnixConnection(str(where), timeout_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = json.loads(response.read())
    except PermissionError as error:
        raise SlurmExtError(f"{where}: no permission; ask as the daemon's user or root") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SlurmExtError(
            f"{where}: no daemon answers ({error}); start one with 'slurm-ext serve', "
            "or name its directory with --run-dir"
        ) from error
    finally:
        connection.close()
    if response.status == 404:
        raise SlurmExtError(str(body.get("error", "not found")))
    return body
