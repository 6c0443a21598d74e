"""The admin socket: pause, resume, reload and "look now", for the daemon's own user and root."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_ext.errors import ConfigError, SlurmExtError

from .access import Viewer, viewer
from .httpd import Ask, Reply, UnixServer, as_json
from .journal import Journal

log = logging.getLogger(__name__)

SOCKET_NAME = "admin.sock"
YEAR_S = 366 * 86400


@dataclass(frozen=True, slots=True)
class Admin:
    """What the verbs reach. ``check``: reads the configuration anew and raises what is wrong.
    ``reload`` takes it between two cycles, ``wake`` starts a cycle now.
    """

    journal_path: Path
    check: Callable[[], object]
    reload: Callable[[], None]
    wake: Callable[[], None]

    def server(self, run_dir: Path) -> UnixServer:
        """The socket, mode 0600; serves while its context is open."""
        return UnixServer(run_dir / SOCKET_NAME, 0o600, self.answer)

    def answer(self, ask: Ask) -> Reply:
        """POST /v1/pause {hours?, why?}, /v1/resume, /v1/reload, /v1/cycle."""
        who = viewer(ask.connection, ())
        if not who.operator:  # the file mode says so already; a mode can be changed by mistake
            return as_json(403, {"error": "only root and the daemon's user"})
        if ask.method != "POST":
            return as_json(405, {"error": "verbs are sent with POST"})
        verbs: dict[str, Callable[[Viewer, dict[str, Any]], str]] = {
            "/v1/pause": self._pause,
            "/v1/resume": self._resume,
            "/v1/reload": self._reload,
            "/v1/cycle": self._cycle,
        }
        verb = verbs.get(ask.path)
        if verb is None:
            return as_json(404, {"error": f"verbs: {' '.join(verbs)}"})
        try:
            said = verb(who, _body(ask.body))
        except (SlurmExtError, ValueError) as error:
            code = 400 if isinstance(error, ConfigError | ValueError) else 500
            return as_json(code, {"error": str(error)})
        log.info("%s by uid %d: %s", ask.path.removeprefix("/v1/"), who.uid, said)
        return as_json(200, {"done": said})

    def _pause(self, who: Viewer, body: dict[str, Any]) -> str:
        now_s = int(time.time())
        until_s = None
        if (hours := body.get("hours")) is not None:
            if type(hours) not in (int, float) or not 0 < hours * 3600 <= YEAR_S:
                raise ValueError("hours: a number greater than 0, at most a year")
            until_s = now_s + max(1, round(hours * 3600))
        why = body.get("why", "")
        if not isinstance(why, str) or len(why) > 500:
            raise ValueError("why: a text of at most 500 characters")
        with Journal.open_beside(self.journal_path) as journal:
            journal.pause(who.name or str(who.uid), now_s, until_s, why)
        self.wake()
        return "paused" if until_s is None else f"paused until {until_s}"

    def _resume(self, who: Viewer, body: dict[str, Any]) -> str:
        with Journal.open_beside(self.journal_path) as journal:
            journal.resume(who.name or str(who.uid), int(time.time()))
        self.wake()
        return "resumed"

    def _reload(self, who: Viewer, body: dict[str, Any]) -> str:
        self.check()
        self.reload()
        return "the configuration is taken before the next cycle"

    def _cycle(self, who: Viewer, body: dict[str, Any]) -> str:
        self.wake()
        return "a cycle starts now"


def _body(raw: bytes) -> dict[str, Any]:
    if not raw:
        return {}
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("the body must be a JSON object")
    return value
