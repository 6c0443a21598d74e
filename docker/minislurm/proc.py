# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes, seen through /proc: who is alive, and who belongs to a cluster's directory."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

OWNER_VARIABLE = "MINISLURM_DAEMON_OF"
"""In the environment of every daemon that we start; slurmstepd inherits it."""

DAEMONS = {"munged", "mariadbd", "slurmctld", "slurmd", "slurmdbd", "slurmstepd", "slurmscriptd"}
CLIENTS = {
    "srun",
    "sbatch",
    "salloc",
    "sattach",
    "sbcast",
    "squeue",
    "sinfo",
    "scontrol",
    "scancel",
    "sacct",
    "sacctmgr",
    "sdiag",
    "sprio",
    "sreport",
    "sshare",
    "sstat",
    "strigger",
}


@dataclass(frozen=True)
class Process:
    """A process by pid and start time, so that a reused pid is not mistaken for it."""

    pid: int
    start: int

    @property
    def state(self) -> str:
        """One letter as in ps; "" if gone, or if somebody else has the pid now."""
        fields = _stat(self.pid)
        if not fields or int(fields[19]) != self.start:
            return ""
        if fields[0] == "Z":
            with suppress(ChildProcessError, OSError):  # our own child: take it away
                os.waitpid(self.pid, os.WNOHANG)
            return ""
        return fields[0]

    @property
    def alive(self) -> bool:
        return self.state not in ("", "X")

    def send(self, signum: int) -> None:
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signum)


@dataclass(frozen=True)
class Details:
    process: Process
    parent: int
    session: int
    has_terminal: bool
    program: str
    argv: tuple[str, ...]
    environ: dict[str, str]
    cwd: str


def identify(pid: int) -> Process | None:
    fields = _stat(pid)
    return Process(pid, int(fields[19])) if fields else None


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on (the name before it may hold blanks)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def _details(pid: int) -> Details | None:
    fields = _stat(pid)
    if not fields or fields[0] in "ZX":
        return None
    try:
        base = f"/proc/{pid}"
        argv = tuple(Path(f"{base}/cmdline").read_text(errors="replace").rstrip("\0").split("\0"))
        raw = Path(f"{base}/environ").read_text(errors="replace").split("\0")
        program = Path(f"{base}/comm").read_text(errors="replace").strip()
        program = program.removesuffix("-wlm")  # Debian's alternatives
        cwd = str(Path(f"{base}/cwd").readlink()).removesuffix(" (deleted)")
    except OSError:
        return None
    environ = dict(entry.split("=", 1) for entry in raw if "=" in entry)
    return Details(
        Process(pid, int(fields[19])),
        int(fields[1]),
        int(fields[3]),
        fields[4] != "0",
        program,
        argv,
        environ,
        cwd,
    )


def snapshot() -> list[Details]:
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [details for details in map(_details, pids) if details]


def belonging_to(root: Path) -> list[Details]:
    """Everything that `down` has to end: daemons, steps, jobs, clients, and their descendants."""
    everyone = snapshot()
    spared = _ourselves(everyone)
    owned = {one.process.pid for one in everyone if _is_owned(one, root)} - spared
    children: dict[int, list[int]] = {}
    for one in everyone:
        children.setdefault(one.parent, []).append(one.process.pid)
    waiting = list(owned)
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child not in owned and child not in spared:
                owned.add(child)
                waiting.append(child)
    return [one for one in everyone if one.process.pid in owned]


def jobs_of(root: Path) -> list[Process]:
    """Steps, jobs and clients: all that belongs to the directory except the daemons."""
    daemons = DAEMONS - {"slurmstepd"}
    return [one.process for one in belonging_to(root) if one.program not in daemons]


def onlookers(root: Path) -> list[Details]:
    """Programs that were started with this cluster's SLURM_CONF but are not part of it."""
    owned = {one.process.pid for one in belonging_to(root)}
    everyone = snapshot()
    spared = _ourselves(everyone) | owned
    conf = str(root / "etc" / "slurm.conf")
    return [
        one
        for one in everyone
        if one.environ.get("SLURM_CONF") == conf and one.process.pid not in spared
    ]


def _is_owned(one: Details, root: Path) -> bool:
    inside = f"{root}/"
    if one.environ.get(OWNER_VARIABLE) == str(root):
        return True
    # A shell, editor or test runner may carry SLURM_CONF too: only jobs and clients are ours.
    if one.environ.get("SLURM_CONF") == f"{root}/etc/slurm.conf" and (
        "SLURM_JOB_ID" in one.environ or one.program in CLIENTS
    ):
        return True
    if one.program in DAEMONS and any(_names(word, inside) for word in one.argv):
        return True
    if one.has_terminal:
        return False
    runs_script = any(word.startswith(f"{root}/spool/") for word in one.argv)
    return runs_script or f"{one.cwd}/".startswith(inside)


def _names(word: str, inside: str) -> bool:
    return word.startswith(inside) or f"={inside}" in word


def _ourselves(everyone: list[Details]) -> set[int]:
    """This process, its ancestors, and what shares their session without being a daemon."""
    parents = {one.process.pid: one.parent for one in everyone}
    chain = set()
    pid = os.getpid()
    while pid > 0 and pid not in chain:
        chain.add(pid)
        pid = parents.get(pid, 0)
    session = os.getsid(0)
    fellows = {
        one.process.pid
        for one in everyone
        if one.session == session
        and OWNER_VARIABLE not in one.environ
        and "SLURM_JOB_ID" not in one.environ
        and one.program not in CLIENTS
    }
    return chain | fellows


def signal_all(processes: Iterable[Process], signum: int) -> None:
    for process in processes:
        process.send(signum)


def wait_gone(processes: Iterable[Process], timeout: float) -> list[Process]:
    """Waits until they have ended; gives back those that have not."""
    left = [process for process in processes if process.alive]
    deadline = time.monotonic() + timeout
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = [process for process in left if process.alive]
    return left


def stop(processes: Iterable[Process], timeout: float) -> list[Process]:
    """TERM, then KILL after the time-out; a stopped process is woken so that TERM reaches it."""
    everyone = list(processes)
    signal_all(everyone, signal.SIGTERM)
    signal_all(everyone, signal.SIGCONT)
    left = wait_gone(everyone, timeout)
    signal_all(left, signal.SIGKILL)
    return wait_gone(left, 10.0)
