# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemons: how each is called, started, and found to be ready or dead."""

from __future__ import annotations

import os
import re
import resource
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .errors import MiniSlurmError, PortTakenError
from .layout import Layout
from .proc import OWNER_VARIABLE, Process, identify
from .programs import call, find, search_path
from .record import NODE, Record, load

CORE = ("munged", "mariadb", "slurmdbd", "slurmctld", "slurmrestd")
REST_USER = ("-u", "65534", "-g", "65534")
"""nobody, whom newer releases do not take by name: slurmrestd refuses root and SlurmUser.

Whoever asks it shows a token of his own.
"""
FILES_LIMIT = 65_536
TAIL_LINES = 15


@dataclass(frozen=True)
class Daemon:
    """One process to start. They all stay in the foreground, so that the pid is known."""

    name: str
    argv: tuple[str, ...]
    logs: tuple[Path, ...]
    extra_env: dict[str, str] = field(default_factory=dict)


def describe(layout: Layout, name: str) -> Daemon:
    err = layout.log / f"{name.removeprefix(NODE)}.err"
    log = layout.log / f"{name}.log"
    if name == "munged":
        return Daemon(
            name,
            (
                find("munged"),
                "--foreground",
                "--force",
                "--num-threads=4",
                f"--socket={layout.munge_socket}",
                f"--key-file={layout.munge_key}",
                f"--pid-file={layout.run}/munged.pid",
                f"--seed-file={layout.run}/munged.seed",
            ),
            (err,),
        )
    if name == "mariadb":
        return Daemon(name, (find("mariadbd"), f"--defaults-file={layout.my_cnf}"), (err,))
    if name == "slurmdbd":
        return Daemon(
            name,
            (find("slurmdbd"), "-D"),
            (log, err),
            {"MYSQL_UNIX_PORT": str(layout.database_socket)},
        )
    if name == "slurmrestd":
        recorded = load(layout)
        listen = f"127.0.0.1:{recorded.ports.slurmrestd if recorded else 0}"
        plugins = ",".join(rest_plugins(layout))
        return Daemon(
            name,
            (
                find(name),
                *REST_USER,
                # rest_auth/local would take root on the socket for its own and skip the token.
                "-a",
                "rest_auth/jwt",
                "-s",
                plugins,
                f"unix:{layout.rest_socket}",
                listen,
            ),
            (err,),
            {"SLURM_JWT": "daemon"},
        )
    if name == "slurmctld":
        return Daemon(name, (find("slurmctld"), "-D", "-f", str(layout.conf)), (log, err))
    node = name.removeprefix(NODE)
    return Daemon(
        name,
        (find("slurmd"), "-D", "-N", node, "-f", str(layout.conf)),
        (layout.log / f"slurmd-{node}.log", err),
    )


def rest_plugins(layout: Layout) -> list[str]:
    """Those that need no slurmdbd: without one the others end slurmrestd."""
    said = call("slurmrestd", *REST_USER, "-s", "list", env=environment(layout))
    found = re.findall(r"\bopenapi/\S+", said.stdout + said.stderr)
    return sorted(name for name in found if not re.match(r"openapi/(slurm)?db", name))


def environment(layout: Layout) -> dict[str, str]:
    """Little is passed on: a daemon must not depend on the shell that started it."""
    keep = ("HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
    env = {name: os.environ[name] for name in keep if name in os.environ}
    return {"PATH": search_path(), **env, "SLURM_CONF": str(layout.conf)}


def marked(layout: Layout) -> dict[str, str]:
    """For what `down` must find again even if its pid was never noted."""
    return {**environment(layout), OWNER_VARIABLE: str(layout.root)}


def raise_limits() -> None:
    """Hundreds of slurmds talk to one controller; but not so many that closing all takes long."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_LIMIT if hard == resource.RLIM_INFINITY else max(hard, FILES_LIMIT)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_LIMIT, wanted))
    except (OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, FILES_LIMIT)), hard))


def start(layout: Layout, daemon: Daemon) -> Process:
    env = {**marked(layout), **daemon.extra_env}
    with daemon.logs[-1].open("ab") as err:
        child = subprocess.Popen(
            daemon.argv,
            env=env,
            cwd=layout.log,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=err,
            stderr=err,
        )
    process = identify(child.pid)
    # Its end is seen in /proc; subprocess itself must not warn that it still runs.
    child.returncode = 0
    return process or Process(child.pid, 0)


def launch(layout: Layout, record: Record, names: list[str]) -> None:
    """Starts them and notes their pids; the note is written even if a later one fails."""
    try:
        for name in names:
            record.daemons[name] = start(layout, describe(layout, name))
    finally:
        record.save(layout)


def wait_until(
    layout: Layout, record: Record, ready: Callable[[], str], deadline: float, watch: list[str]
) -> None:
    """Polls until `ready` answers "" (else: what is missing); fails as soon as a daemon ended."""
    pause = 0.02
    while missing := ready():
        check_alive(layout, record, watch)
        if time.monotonic() > deadline:
            raise MiniSlurmError(
                f"not ready in time: {missing}\n"
                + tails(layout, watch[:1])
                + "a longer --timeout may help"
            )
        time.sleep(pause)
        pause = min(pause * 1.5, 0.25)
    check_alive(layout, record, watch)


def check_alive(layout: Layout, record: Record, names: list[str]) -> None:
    dead = [name for name in names if not record.daemons[name].alive]
    if not dead:
        return
    text = tails(layout, dead[:1])
    kind = PortTakenError if re.search(r"Address already in use", text) else MiniSlurmError
    raise kind(f"{dead[0]} ended by itself ({len(dead)} daemon(s) dead); its last words:\n{text}")


def tails(layout: Layout, names: list[str]) -> str:
    """The end of each log, for an error message."""
    text = ""
    for name in names:
        for path in describe(layout, name).logs:
            if path.exists() and path.stat().st_size:
                lines = path.read_text(errors="replace").splitlines()[-TAIL_LINES:]
                text += f"--- {path}\n" + "\n".join(lines) + "\n"
                break
    return text


def accepts_tcp(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2.0):
            return True
    except OSError:
        return False


def accepts_unix(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(2.0)
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True
