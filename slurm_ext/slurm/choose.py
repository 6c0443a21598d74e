"""Which ways to Slurm a configuration means, and in which order."""

from __future__ import annotations

import getpass
import logging
import os
import shlex
from dataclasses import dataclass

from slurm_ext.errors import SlurmUnavailableError

from .cli import CliOptions, CliSlurm
from .fallback import Adapter, Choice, Fallback
from .rest import RestOptions, RestSlurm
from .rest_token import Token, from_command, from_file
from .run import Runner

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RestSettings:
    """slurmrestd as configured; ``url`` empty: there is none. ``user`` empty: ours."""

    url: str = ""
    user: str = ""
    token_file: str = ""
    token_command: str = ""
    ca_file: str = ""
    max_jobs: int = 3000


def open_port(
    *,
    backend: str,
    bin_dir: str,
    slurm_conf: str,
    format: str,
    call_timeout_s: float,
    observe_timeout_s: float,
    rest: RestSettings,
) -> Fallback:
    """The ways to Slurm for these settings.

    ``backend``: ``auto`` the commands, then slurmrestd; ``rest`` the other way round; ``cli`` the
    commands alone.

    :raises SlurmUnavailableError: ``rest`` without a usable address.
    """
    commands, observer = (
        open_runner(bin_dir=bin_dir, slurm_conf=slurm_conf, call_timeout_s=limit_s)
        for limit_s in (call_timeout_s, observe_timeout_s)
    )
    options = CliOptions(format="json" if format == "json" else "text", timeout_s=call_timeout_s)
    cli = CliSlurm(options, commands, observer)
    ways: list[tuple[str, Adapter]] = [("cli", cli)]
    unused: list[Choice] = []
    if backend == "cli":
        unused.append(Choice("rest", None, 'not used: slurm.backend = "cli"'))
    elif not rest.url:
        if backend == "rest":
            raise SlurmUnavailableError('slurm.backend = "rest" needs slurm.rest_url')
        unused.append(Choice("rest", None, "not used: slurm.rest_url is not set"))
    else:
        way = ("rest", open_rest(rest, observer, cli, observe_timeout_s))
        ways = [way, *ways] if backend == "rest" else [*ways, way]
    return Fallback(ways, budget_s=observe_timeout_s, unused=unused, say=log.warning)


def open_rest(rest: RestSettings, commands: Runner, cli: CliSlurm, limit_s: float) -> RestSlurm:
    """slurmrestd as configured.

    :raises SlurmUnavailableError: the address cannot be used.
    """
    token = None
    user = rest.user or getpass.getuser()
    if rest.token_file:
        token = Token(from_file(rest.token_file), user)
    elif rest.token_command:
        token = Token(from_command(commands, shlex.split(rest.token_command)), user)
    options = RestOptions(rest.url, rest.ca_file, limit_s, rest.max_jobs)
    try:
        return RestSlurm(options, token, commands, cli)
    except ValueError as error:
        raise SlurmUnavailableError(f"slurm.rest_url = {error}") from None


def open_runner(*, bin_dir: str, slurm_conf: str, call_timeout_s: float) -> Runner:
    """What starts Slurm's commands from ``bin_dir`` (or PATH) for the cluster of ``slurm_conf``."""
    environ = dict(os.environ)
    if bin_dir and not os.access(os.path.join(bin_dir, "scontrol"), os.X_OK):
        raise SlurmUnavailableError(
            f"slurm.bin_dir = {bin_dir}: no scontrol there; name the directory of Slurm's "
            "commands, or leave it empty for PATH"
        )
    if bin_dir:
        environ["PATH"] = f"{bin_dir}:{environ.get('PATH', '/usr/bin:/bin')}"
    if slurm_conf:
        environ["SLURM_CONF"] = slurm_conf
    return Runner(timeout_s=call_timeout_s, environ=environ)
