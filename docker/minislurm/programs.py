# SPDX-License-Identifier: GPL-2.0-or-later
"""Finding the programs, naming the packages of those that are missing, reading the version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from .errors import MiniSlurmError, MissingProgramsError

PACKAGES = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "scontrol": "slurm-client",
    "scancel": "slurm-client",
    "sinfo": "slurm-client",
    "squeue": "slurm-client",
    "sacctmgr": "slurm-client",
    "slurmdbd": "slurmdbd",
    "slurmrestd": "slurmrestd",
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
    "useradd": "passwd",
}
BASIC = ("munged", "slurmctld", "slurmd", "scontrol", "scancel", "sinfo", "squeue")
ACCOUNTING = ("sacctmgr", "slurmdbd", "mariadbd", "mariadb-install-db")


def search_path() -> str:
    """PATH first (own builds), then where root's programs are; MINISLURM_PATH replaces both."""
    override = os.environ.get("MINISLURM_PATH")
    if override is not None:
        return override
    return os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"


def find(program: str) -> str:
    path = shutil.which(program, path=search_path())
    if path is None:
        raise MissingProgramsError(_install_command([program]))
    return path


def require(accounting: bool, users: bool, rest: bool = False) -> None:
    """All missing programs at once: one command to install them."""
    wanted = BASIC + (ACCOUNTING if accounting else ()) + (("useradd",) if users else ())
    wanted += ("slurmrestd",) if rest else ()
    missing = [name for name in wanted if shutil.which(name, path=search_path()) is None]
    if missing:
        raise MissingProgramsError(_install_command(missing))


def _install_command(programs: list[str]) -> str:
    packages = sorted({PACKAGES.get(name, name) for name in programs})
    return "apt-get install --no-install-recommends -y " + " ".join(packages)


PLUGINS = {
    "job_submit_lua": "slurm-wlm-basic-plugins",
    "auth_jwt": "slurm-wlm-jwt-plugin",
}


def require_plugin(name: str) -> None:
    """Plugins lie beside the libraries of slurmctld."""
    for root in (Path("/usr/lib"), Path(find("slurmctld")).resolve().parents[1] / "lib"):
        for pattern in (f"*/slurm*/{name}.so", f"slurm*/{name}.so"):
            if next(root.glob(pattern), None):
                return
    raise MissingProgramsError(f"apt-get install --no-install-recommends -y {PLUGINS[name]}")


def slurm_version() -> str:
    output = call("slurmctld", "-V").stdout
    match = re.search(r"\d+\.\d+\.\d+\S*", output)
    if match is None:
        raise MiniSlurmError(f"slurmctld -V said {output.strip()!r}: no version in it")
    return match.group()


def major(version: str) -> tuple[int, int]:
    year, month = version.split(".")[:2]
    return int(year), int(month)


def call(
    program: str, *args: str, env: dict[str, str] | None = None, timeout: float = 30.0
) -> subprocess.CompletedProcess[str]:
    """Runs a client with a deadline (a hanging munged blocks clients for ever)."""
    argv = [find(program), *args]
    try:
        return subprocess.run(
            argv,
            env=env,
            timeout=timeout,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        text = f"{program}: no answer in {timeout:.0f} s"
        return subprocess.CompletedProcess(argv, 124, "", text)
