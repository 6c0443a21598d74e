"""Which ways to Slurm a configuration means, and in which order."""

from __future__ import annotations

import getpass
import importlib.util
import logging
import os
import shlex
import sys
from dataclasses import dataclass

from slurm_ext.errors import SlurmUnavailableError

from .cli import CliOptions, CliSlurm
from .deadline import Deadline
from .fallback import Adapter, Choice, Fallback
from .native import NativeSlurm
from .native_process import MEMORY_MIB, ChildOptions
from .rest import RestOptions, RestSlurm
from .rest_token import Token, from_command, from_file
from .run import Runner

log = logging.getLogger(__name__)

ORDER = {
    "auto": ("native", "cli", "rest"),
    "native": ("native", "cli", "rest"),
    "rest": ("rest", "native", "cli"),
    "cli": ("cli",),
}
"""The ways of each ``slurm.backend``, the first one first."""


@dataclass(frozen=True, slots=True)
class RestSettings:
    """slurmrestd as configured; ``url`` empty: there is none. ``user`` empty: ours."""

    url: str = ""
    user: str = ""
    token_file: str = ""
    token_command: str = ""
    ca_file: str = ""
    max_jobs: int = 3000


@dataclass(frozen=True, slots=True)
class NativeSettings:
    """pyslurm as configured; ``python`` empty: ours, if it has pyslurm."""

    python: str = ""
    memory_mib: int = MEMORY_MIB


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all ways use. ``observer``: for the reads of a look, which end at ``deadline``."""

    commands: Runner
    observer: Runner
    cli: CliSlurm
    deadline: Deadline
    observe_s: float


def open_port(
    *,
    backend: str,
    bin_dir: str,
    slurm_conf: str,
    format: str,
    call_timeout_s: float,
    observe_timeout_s: float,
    rest: RestSettings,
    native: NativeSettings,
) -> Fallback:
    """The ways to Slurm for these settings, in the order of ``ORDER``.

    :raises SlurmUnavailableError: the way that ``backend`` names is not there.
    """
    deadline = Deadline()
    commands = open_runner(bin_dir=bin_dir, slurm_conf=slurm_conf, call_timeout_s=call_timeout_s)
    observer = open_runner(
        bin_dir=bin_dir, slurm_conf=slurm_conf, call_timeout_s=observe_timeout_s, deadline=deadline
    )
    options = CliOptions(format="json" if format == "json" else "text", timeout_s=call_timeout_s)
    cli = CliSlurm(options, commands, observer)
    shared = _Shared(commands, observer, cli, deadline, observe_timeout_s)
    ways: list[tuple[str, Adapter]] = []
    unused: list[Choice] = []
    missing = {"rest": _rest_missing(rest), "native": _native_missing(native)}
    if missing.get(backend):
        raise SlurmUnavailableError(f'slurm.backend = "{backend}": {missing[backend]}')
    for name in ORDER[backend]:
        if missing.get(name):
            unused.append(Choice(name, None, f"not used: {missing[name]}"))
        elif name == "cli":
            ways.append((name, cli))
        elif name == "rest":
            ways.append((name, open_rest(rest, shared)))
        else:
            ways.append((name, open_native(native, slurm_conf, shared)))
    unused += [
        Choice(name, None, f'not used: slurm.backend = "{backend}"')
        for name in ORDER["auto"]
        if name not in ORDER[backend]
    ]
    return Fallback(
        ways, budget_s=observe_timeout_s, deadline=deadline, unused=unused, say=log.warning
    )


def _rest_missing(rest: RestSettings) -> str:
    return "" if rest.url else "slurm.rest_url is not set"


def _native_missing(native: NativeSettings) -> str:
    if native.python or importlib.util.find_spec("pyslurm") is not None:
        return ""
    return f"{sys.executable} has no pyslurm; slurm.native_python may name a Python that has it"


def open_native(native: NativeSettings, slurm_conf: str, shared: _Shared) -> NativeSlurm:
    """pyslurm in a process of its own."""
    options = ChildOptions(
        native.python or sys.executable, slurm_conf, shared.observe_s, native.memory_mib
    )
    return NativeSlurm(
        options, shared.commands, shared.cli, shared.observer, deadline=shared.deadline
    )


def open_rest(rest: RestSettings, shared: _Shared) -> RestSlurm:
    """slurmrestd as configured.

    :raises SlurmUnavailableError: the address cannot be used.
    """
    token = None
    user = rest.user or getpass.getuser()
    if rest.token_file:
        token = Token(from_file(rest.token_file), user)
    elif rest.token_command:
        token = Token(from_command(shared.observer, shlex.split(rest.token_command)), user)
    options = RestOptions(rest.url, rest.ca_file, shared.observe_s, rest.max_jobs)
    try:
        return RestSlurm(options, token, shared.observer, shared.cli, shared.deadline)
    except ValueError as error:
        raise SlurmUnavailableError(f"slurm.rest_url = {error}") from None


def open_runner(
    *,
    bin_dir: str,
    slurm_conf: str,
    call_timeout_s: float,
    deadline: Deadline | None = None,
) -> Runner:
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
    return Runner(timeout_s=call_timeout_s, environ=environ, deadline=deadline)
