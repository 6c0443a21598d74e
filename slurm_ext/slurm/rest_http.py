"""HTTP to slurmrestd over a UNIX socket or TCP, as to a stranger: every call has an end.

One connection a call, no redirects, no proxies. A call ends at its deadline whatever the other
side does (it may send a byte a second for ever), an answer at its size limit.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from slurm_ext.errors import SlurmUnavailableError
from slurm_ext.slurm.deadline import Deadline
from slurm_ext.slurm.run import escape
from slurm_ext.slurm.tally import TALLY

MAX_ANSWER = 96 << 20
"""Bytes of one answer: 3,000 jobs of v0.0.44 are 25 MB."""
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Address:
    """``unix:/path``, ``http://host:port`` or ``https://host:port``, in parts."""

    scheme: str
    host: str
    port: int
    path: str

    @staticmethod
    def parse(url: str) -> Address:
        """:raises ValueError: with what is wrong with the address."""
        if url.startswith("unix:/"):
            return Address("unix", "localhost", 0, url.removeprefix("unix:"))
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r}: expected unix:/path, http://host:port or https://host:port")
        if parts.username or parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError(f"{url!r}: no user, path or query here")
        return Address(parts.scheme, parts.hostname, parts.port or 6820, "")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _TlsConnection(http.client.HTTPConnection):
    def __init__(self, at: Address, timeout: float, context: ssl.SSLContext) -> None:
        super().__init__(at.host, at.port, timeout=timeout)
        self._context = context

    def connect(self) -> None:
        super().connect()
        # Shake hands on the socket that the watchdog knows.
        self.sock = self._context.wrap_socket(
            self.sock, server_hostname=self.host, do_handshake_on_connect=False
        )
        self.sock.do_handshake()


class RestClient:
    """Sends GET requests. ``headers`` is asked for each call, so that a token may be renewed.

    ``ca_file``: certificates to trust in place of the system's. ``limit_s``: time for one call,
    from the first packet to the last byte.
    """

    def __init__(
        self,
        url: str,
        headers: Callable[[], Mapping[str, str]],
        *,
        limit_s: float = 10.0,
        ca_file: str = "",
        max_answer: int = MAX_ANSWER,
        deadline: Deadline | None = None,
    ) -> None:
        """:raises ValueError: the address cannot be used."""
        self.url = url
        self.limit_s = limit_s
        self._address = Address.parse(url)
        self._headers = headers
        self._ca_file = ca_file
        self._max = max_answer
        self._deadline = deadline or Deadline()

    def left_s(self) -> float:
        """The time a call has got that begins now.

        :raises SlurmUnavailableError: none.
        """
        return self._deadline.left(self.limit_s)

    def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON document (None for an empty answer) of one request.

        :raises SlurmUnavailableError: no answer in time, or none that can be used.
        """
        limit = self.left_s()
        begun, outcome = time.monotonic(), "unavailable"
        connection = self._connection(limit)
        late = threading.Event()

        held: list[socket.socket] = []

        def end() -> None:
            late.set()
            _shut(connection.sock or next(iter(held), None))

        watchdog = threading.Timer(limit, end)
        watchdog.daemon = True
        watchdog.start()
        try:
            connection.connect()
            held.append(connection.sock)  # which forgets it once it has sent a last request
            if late.is_set():
                raise TimeoutError
            headers = {"Accept": "application/json", **self._headers()}
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            try:
                body = self._body(path, response)
                outcome = "ok" if response.status < 400 else "refused"
            finally:
                response.close()
        except (OSError, http.client.HTTPException) as error:
            spent = time.monotonic() - begun
            if late.is_set() or isinstance(error, TimeoutError) or spent >= limit:
                raise SlurmUnavailableError(
                    f"{self._named(path)}: no answer within {limit:.3g} s; is slurmrestd "
                    "overloaded, or slurmctld stopped? `scontrol ping`, `sdiag`"
                ) from None
            raise SlurmUnavailableError(
                f"{self._named(path)}: {escape(_said(error), 200)}; {_remedy(error)}"
            ) from None
        finally:
            watchdog.cancel()
            connection.close()
            TALLY.note("slurmrestd", outcome, time.monotonic() - begun)
        if late.is_set():
            raise SlurmUnavailableError(f"{self._named(path)}: cut off after {limit:.3g} s")
        return response.status, self._document(path, response, body)

    def _connection(self, limit_s: float) -> http.client.HTTPConnection:
        at = self._address
        if at.scheme == "unix":
            return _UnixConnection(at.path, limit_s)
        if at.scheme == "http":
            return http.client.HTTPConnection(at.host, at.port, timeout=limit_s)
        try:
            context = ssl.create_default_context(cafile=self._ca_file or None)
        except OSError as error:
            raise SlurmUnavailableError(
                f"{self._ca_file}: no certificates to trust: {_said(error)}; set slurm.rest_ca_file"
            ) from None
        return _TlsConnection(at, limit_s, context)

    def _body(self, path: str, response: http.client.HTTPResponse) -> bytes:
        length = response.length
        if length is not None and length > self._max:
            raise self._too_long(path)
        pieces: list[bytes] = []
        size = 0
        while piece := response.read(_PIECE):
            size += len(piece)
            if size > self._max:
                raise self._too_long(path)
            pieces.append(piece)
        if length is not None and size < length:
            raise SlurmUnavailableError(
                f"{self._named(path)}: the answer ends after {size} of {length} bytes"
            )
        return b"".join(pieces)

    def _document(self, path: str, response: http.client.HTTPResponse, body: bytes) -> Any:
        if not body.strip():
            return None
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            if response.status != 200:
                return None  # a sentence in plain text beside the status
            shown = escape(body[:80].decode("utf-8", "replace"))
            raise SlurmUnavailableError(
                f"{self._named(path)}: truncated or no JSON: {shown}"
            ) from None

    def _too_long(self, path: str) -> SlurmUnavailableError:
        return SlurmUnavailableError(
            f"{self._named(path)}: more than {self._max >> 20} MiB of answer; "
            'use slurm.backend = "cli" for long queues'
        )

    def _named(self, path: str) -> str:
        return f"slurmrestd {self.url} {path.partition('?')[0]}"


def _shut(sock: socket.socket | None) -> None:
    try:
        if sock is not None:
            # Ends a read in another thread, which close() would not (nor TLS's own shutdown).
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:
        pass


def _said(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or repr(error)


def _remedy(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "name the right host, or the certificate's issuer in slurm.rest_ca_file"
    if isinstance(error, ssl.SSLError):
        return "does slurmrestd (or the proxy before it) speak TLS on this port?"
    if isinstance(error, PermissionError):
        return "may this account use the socket?"
    if isinstance(error, http.client.HTTPException | ConnectionResetError):
        return "is this slurmrestd, and http and https not confused?"
    return "is slurmrestd running there? set slurm.rest_url"
