"""Which adapter a configuration means."""

from __future__ import annotations

import os

from slurm_ext.errors import SlurmUnavailableError

from .cli import CliOptions, CliSlurm
from .run import Runner


def open_port(
    *,
    bin_dir: str,
    slurm_conf: str,
    format: str,
    call_timeout_s: float,
    observe_timeout_s: float,
) -> CliSlurm:
    """The adapter for these settings (the only one so far: Slurm's own commands)."""
    runners = [
        open_runner(bin_dir=bin_dir, slurm_conf=slurm_conf, call_timeout_s=limit_s)
        for limit_s in (call_timeout_s, observe_timeout_s)
    ]
    options = CliOptions(format="json" if format == "json" else "text", timeout_s=call_timeout_s)
    return CliSlurm(options, *runners)


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
