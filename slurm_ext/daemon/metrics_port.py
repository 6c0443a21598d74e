"""``/metrics`` on a TCP port, for Prometheus on another host or without rights to the socket."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from slurm_ext.errors import SlurmExtError

from .httpd import Ask, Handler, Reply, TcpServer, as_json
from .publish import metrics_reply


class TcpMetrics:
    """``/metrics`` and nothing else on a TCP port, for Prometheus, while the context is open."""

    def __init__(self, address: str, port: int, text: Callable[[], bytes | None]) -> None:
        self._where, self._text = (address, port), text

    @property
    def port(self) -> int:
        """The port in use, while the context is open."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        def answer(ask: Ask) -> Reply:
            if ask.method != "GET" or ask.path != "/metrics":
                return as_json(404, {"error": "only GET /metrics"})
            return metrics_reply(self._text())

        handler = type("Handler", (Handler,), {"answer": staticmethod(answer)})
        try:
            self._server = TcpServer(self._where, handler)
        except OSError as error:
            address, port = self._where
            raise SlurmExtError(
                f"metrics.port {port} on {address}: {error.strerror or error}; "
                "set another metrics.port, or 0 for none"
            ) from error
        threading.Thread(target=self._server.serve_forever, daemon=True, name="metrics").start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
