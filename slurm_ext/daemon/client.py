"""Asking a running daemon through its sockets."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_ext import __version__
from slurm_ext.errors import SlurmExtError

from . import admin_socket, publish

_OLDER = f"it is older than this program ({__version__}); restart the daemon"


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
    return ask_if_new(run_dir, path, "", timeout_s=timeout_s)[1]


def ask_if_new(run_dir: Path, path: str, etag: str, *, timeout_s: float = 10.0) -> tuple[str, Any]:
    """As :func:`ask`, with the answer's ETag; None as the answer if it is still ``etag``'s."""
    where = run_dir / publish.SOCKET_NAME
    found, answer = _call(where, "GET", path, None, timeout_s, etag)
    if path.partition("?")[0] == "/v1/status" and answer is not None:
        _check_version(where, answer)
    return found, answer


def tell(
    run_dir: Path, verb: str, body: Mapping[str, object] | None = None, *, timeout_s: float = 10.0
) -> str:
    """Send ``pause``, ``resume``, ``reload`` or ``cycle`` to the admin socket; what was done.

    :raises SlurmExtError: as :func:`ask`, or what the daemon says against it.
    """
    where = run_dir / admin_socket.SOCKET_NAME
    answer = _call(where, "POST", f"/v1/{verb}", body or {}, timeout_s)[1]
    return str(answer["done"])


def listens(run_dir: Path) -> bool:
    """Whether a daemon answers at the admin socket (False also without the right to ask)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(str(run_dir / admin_socket.SOCKET_NAME))
        except OSError:
            return False
        return True


def _call(
    where: Path,
    method: str,
    path: str,
    body: Mapping[str, object] | None,
    timeout_s: float,
    etag: str = "",
) -> tuple[str, Any]:
    connection = _UnixConnection(str(where), timeout_s)
    try:
        headers = {"If-None-Match": etag} if etag else {}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        raw = response.read()
        answer: Any = json.loads(raw) if response.status != 304 else None
    except PermissionError as error:
        raise SlurmExtError(f"{where}: no permission; ask as the daemon's user or root") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SlurmExtError(
            f"{where}: no daemon answers ({error}); start one with 'slurm-ext serve', "
            "or name its directory with --set state.run_dir=DIR"
        ) from error
    finally:
        connection.close()
    if response.status == 404 and path.partition("?")[0] in publish.PATHS:
        raise SlurmExtError(f"{where}: the daemon knows no {path}: {_OLDER}")
    if 400 <= response.status < 500:
        raise SlurmExtError(str(answer.get("error", "not found")))
    return response.getheader("ETag") or "", answer


def _check_version(where: Path, answer: Mapping[str, Any]) -> None:
    """:raises SlurmExtError: an older daemon's answer, which lacks what is read here."""
    defined = json.loads(publish.schema())["$defs"]
    jobs = answer.get("jobs")
    if jobs is None:
        return  # no cycle yet
    missing = set(defined["status"]["dependentRequired"]["jobs"]) - answer.keys()
    for job in jobs[:1]:
        missing |= set(defined["job"]["required"]) - job.keys()
    if missing:
        raise SlurmExtError(f"{where}: the daemon does not tell {min(missing)}: {_OLDER}")
