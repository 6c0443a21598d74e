"""The JSON Web Token for slurmrestd: from a file or a command, renewed at half its life.

The token is a key to the whole cluster: it stands in no message, no log and no command line.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable, Mapping, Sequence

from slurm_ext.errors import SlurmUnavailableError
from slurm_ext.files import read_up_to
from slurm_ext.slurm.run import Runner

MAX_TOKEN = 16 << 10
UNDATED_S = 300.0
"""A token that does not say when it ends is read again after this time."""


def expiry_s(token: str) -> float | None:
    """When the token says it ends (``exp``, RFC 7519), in epoch seconds; None: it does not say."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    padded = parts[1] + "=" * (-len(parts[1]) % 4)
    try:
        claims = json.loads(base64.urlsafe_b64decode(padded))
    except (ValueError, binascii.Error, RecursionError):
        return None
    value = claims.get("exp") if isinstance(claims, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 1e15:
        return None
    return float(value)


class Token:
    """Where the token comes from, and the one in use."""

    def __init__(
        self, source: Callable[[], str], user: str, clock: Callable[[], float] = time.time
    ) -> None:
        """``source``: gives a token or raises SlurmUnavailableError."""
        self._source = source
        self._user = user
        self._clock = clock
        self._token = ""
        self._renew_at_s = 0.0

    def __repr__(self) -> str:
        return f"Token(user={self._user!r})"

    def headers(self) -> Mapping[str, str]:
        """The headers of a request, with a fresh token when the old one has lived half its life.

        :raises SlurmUnavailableError: there is no token to be had.
        """
        now = self._clock()
        if not self._token or now >= self._renew_at_s:
            self._token = checked(self._source())
            end = expiry_s(self._token)
            self._renew_at_s = now + (UNDATED_S if end is None else max(end - now, 0) / 2)
        return {"X-SLURM-USER-NAME": self._user, "X-SLURM-USER-TOKEN": self._token}

    def refused(self) -> None:
        """slurmrestd did not take the token: get another one for the next request."""
        self._token = ""


def checked(text: str) -> str:
    """The token in what a file holds or a command prints (``SLURM_JWT=…`` too).

    :raises SlurmUnavailableError: there is none. The text is not shown.
    """
    token = text.strip().removeprefix("SLURM_JWT=").strip()
    if not token or len(token) > MAX_TOKEN or not token.isascii() or not token.isprintable():
        raise SlurmUnavailableError(
            "slurm.rest_token_file or rest_token_command gives no token (one line of text); "
            "`scontrol token username=NAME lifespan=3600` makes one"
        )
    if " " in token:
        raise SlurmUnavailableError("the token for slurmrestd holds a blank; one word is expected")
    return token


def from_file(path: str) -> Callable[[], str]:
    """Reads the token from a file, anew each time."""

    def read() -> str:
        try:
            return read_up_to(path, MAX_TOKEN + 100).decode("utf-8", "replace")
        except OSError as error:
            raise SlurmUnavailableError(
                f"{path}: {error.strerror}; slurm.rest_token_file must be readable by this account"
            ) from None

    return read


def from_command(runner: Runner, argv: Sequence[str]) -> Callable[[], str]:
    """Runs a command that prints the token; what it prints is never shown."""

    def ask() -> str:
        answer = runner.run(list(argv), max_output=1 << 20)
        if answer.code != 0:
            raise SlurmUnavailableError(
                f"slurm.rest_token_command ({argv[0]}): exit status {answer.code}; "
                "run it by hand to see why"
            )
        return answer.stdout

    return ask
