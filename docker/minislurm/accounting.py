# SPDX-License-Identifier: GPL-2.0-or-later
"""The database behind slurmdbd, and what is put into it: cluster, accounts, users."""

from __future__ import annotations

import os
import pwd
import subprocess
import time

from .daemons import marked
from .errors import MiniSlurmError
from .layout import Layout
from .programs import call, find
from .spec import Spec


def prepare_database(layout: Layout) -> None:
    """Makes the system tables; only root (through the socket) may log in."""
    if (layout.database / "mysql").is_dir():
        return
    layout.database.mkdir(mode=0o700, exist_ok=True)
    argv = [
        find("mariadb-install-db"),
        f"--defaults-file={layout.my_cnf}",
        "--skip-test-db",
        "--auth-root-authentication-method=socket",
        "--auth-root-socket-user=root",
        "--user=root",
    ]
    done = subprocess.run(
        argv,
        env=marked(layout),
        text=True,
        errors="replace",
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    (layout.log / "mariadb-install.log").write_text(done.stdout)
    if done.returncode:
        raise MiniSlurmError(
            f"mariadb-install-db failed ({layout.log}/mariadb-install.log):\n"
            + "\n".join(done.stdout.splitlines()[-15:])
        )


def create_unix_users(spec: Spec, deadline: float) -> None:
    names = [user.name for user in spec.users] + ([spec.operator] if spec.operator else [])
    for name in names:
        while not _exists(name):
            done = call(
                "useradd",
                "--system",
                "--no-create-home",
                "--home-dir",
                "/tmp",
                "--shell",
                "/bin/sh",
                name,
            )
            if done.returncode == 0 or _exists(name):
                break
            # Another instance may hold the lock on /etc/passwd.
            if "lock" not in done.stderr or time.monotonic() > deadline:
                raise MiniSlurmError(f"useradd {name} failed: {done.stderr.strip()}")
            time.sleep(0.1)


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def register(layout: Layout, spec: Spec) -> None:
    """Cluster, accounts, associations, operator. What is there already is left alone."""
    _sacctmgr(layout, "add", "cluster", spec.name)
    accounts: dict[str, list[str]] = {}
    for user in spec.users:
        accounts.setdefault(user.account, []).append(user.name)
    if spec.operator and spec.operator not in {user.name for user in spec.users}:
        accounts.setdefault("operators", []).append(spec.operator)
    for account, names in accounts.items():
        _sacctmgr(
            layout,
            "add",
            "account",
            account,
            f"cluster={spec.name}",
            f"description={account}",
            f"organization={account}",
        )
        _sacctmgr(
            layout,
            "add",
            "user",
            f"name={','.join(names)}",
            f"account={account}",
            f"cluster={spec.name}",
        )
    if spec.operator:
        _sacctmgr(layout, "modify", "user", spec.operator, "set", "adminlevel=Operator")


def _sacctmgr(layout: Layout, *words: str) -> None:
    env = {**os.environ, "SLURM_CONF": str(layout.conf)}
    done = call("sacctmgr", "-i", *words, env=env)
    text = (done.stdout + done.stderr).strip()
    # "Nothing new added" and "Nothing modified" come with exit status 1.
    if done.returncode and "Nothing" not in text and "already" not in text.lower():
        raise MiniSlurmError(f"sacctmgr {' '.join(words)} failed: {text}")
