# SPDX-License-Identifier: GPL-2.0-or-later
"""`up`: writes the configuration, then starts the daemons in the order of their needs."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from . import accounting, conf, daemons, nodes, proc, programs, teardown
from .errors import MiniSlurmError
from .hosts import Hosts
from .layout import Layout
from .record import NODE, Record

BATCH = 50
"""slurmds started between two looks at whether they live."""
CANCEL_SECONDS = 60.0

Say = Callable[[str], None]


def write_files(layout: Layout, record: Record, hosts: Hosts | None = None) -> None:
    spec, ports = record.spec, record.ports
    _write(layout.conf, conf.slurm_conf(layout, spec, ports, hosts))
    _write(layout.etc / "gres.conf", conf.gres_conf(layout, spec))
    cgroup = conf.cgroup_conf(record.version)
    if cgroup:
        _write(layout.etc / "cgroup.conf", cgroup)
    if spec.job_submit_lua:
        _write(layout.etc / "job_submit.lua", spec.job_submit_lua)
    if spec.accounting:
        _write(
            layout.etc / "slurmdbd.conf",
            conf.slurmdbd_conf(layout, ports, hosts, rest=spec.rest),
            0o600,
        )
        _write(layout.my_cnf, conf.my_cnf(layout))
        _write(layout.init_sql, conf.init_sql())
    make_key(layout)
    if spec.rest and not layout.jwt_key.exists():
        layout.jwt_key.touch(0o600)
        layout.jwt_key.write_bytes(secrets.token_bytes(32))
    make_gpu_files(layout, max(group.gpu_count for group in spec.groups))
    for node in spec.nodes:
        (layout.spool / node).mkdir(mode=0o755, exist_ok=True)


def make_key(layout: Layout) -> None:
    if not layout.munge_key.exists():
        layout.munge_key.touch(0o400)
        layout.munge_key.write_bytes(secrets.token_bytes(128))


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, mode)
    with os.fdopen(descriptor, "w") as handle:
        os.fchmod(descriptor, mode)
        handle.write(text)


def make_gpu_files(layout: Layout, count: int) -> None:
    """Slurm counts only GPUs that have a file. No driver: nothing answers behind these."""
    for number in range(count):
        path = layout.dev / f"gpu{number}"
        if path.exists():
            continue
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(195, number))
        except PermissionError:
            path.touch()  # containers without CAP_MKNOD; good enough without device cgroups


def start_all(layout: Layout, record: Record, deadline: float, say: Say) -> None:
    spec = record.spec
    start_munged(layout, record, deadline)
    if spec.users or spec.operator:
        accounting.create_unix_users(spec, deadline)
    if spec.accounting:
        say("starting mariadb and slurmdbd")
        start_mariadb(layout, record, deadline)
        start_slurmdbd(layout, record, deadline)
        accounting.register(layout, spec)
    say(f"starting slurmctld and {len(spec.nodes)} slurmd")
    has_history = (layout.state / "job_state").exists()
    start_slurmctld(layout, record, deadline)
    if has_history:
        # After a crash it believes in running jobs whose processes are gone: nodes never idle.
        teardown.cancel_all(daemons.environment(layout), 0, CANCEL_SECONDS)
    if spec.rest:
        start_slurmrestd(layout, record, deadline)
    start_nodes(layout, record, spec.nodes)
    wait_idle(layout, record, deadline)


def start_munged(layout: Layout, record: Record, deadline: float) -> None:
    layout.munge_socket.unlink(missing_ok=True)
    daemons.launch(layout, record, ["munged"])
    _wait(layout, record, "munged", deadline, lambda: daemons.accepts_unix(layout.munge_socket))


def start_mariadb(layout: Layout, record: Record, deadline: float) -> None:
    accounting.prepare_database(layout)
    layout.database_socket.unlink(missing_ok=True)
    daemons.launch(layout, record, ["mariadb"])
    _wait(layout, record, "mariadb", deadline, lambda: daemons.accepts_unix(layout.database_socket))


def start_slurmdbd(layout: Layout, record: Record, deadline: float) -> None:
    daemons.launch(layout, record, ["slurmdbd"])
    _wait(layout, record, "slurmdbd", deadline, lambda: daemons.accepts_tcp(record.ports.slurmdbd))


def start_slurmctld(layout: Layout, record: Record, deadline: float) -> None:
    daemons.launch(layout, record, ["slurmctld"])
    _wait(layout, record, "slurmctld", deadline, lambda: answers(layout, record))


def start_slurmrestd(layout: Layout, record: Record, deadline: float) -> None:
    layout.rest.mkdir(mode=0o755, exist_ok=True)
    os.chown(layout.rest, int(daemons.REST_USER[1]), int(daemons.REST_USER[3]))
    layout.rest_socket.unlink(missing_ok=True)
    daemons.launch(layout, record, ["slurmrestd"])
    port = record.ports.slurmrestd
    _wait(layout, record, "slurmrestd", deadline, lambda: daemons.accepts_tcp(port))


def answers(layout: Layout, record: Record) -> bool:
    """The port alone is not enough: it opens before the state is read."""
    if not daemons.accepts_tcp(record.ports.slurmctld):
        return False
    env = daemons.environment(layout)
    return programs.call("scontrol", "ping", env=env, timeout=5.0).returncode == 0


def start_nodes(layout: Layout, record: Record, wanted: list[str]) -> None:
    names = [NODE + node for node in wanted]
    for first in range(0, len(names), BATCH):
        daemons.launch(layout, record, names[first : first + BATCH])
        daemons.check_alive(layout, record, names[: first + BATCH])


def wait_idle(layout: Layout, record: Record, deadline: float) -> None:
    watch = list(record.daemons)
    slurmds = [name for name in watch if name.startswith(NODE)]
    first = slurmds[:1] + [name for name in watch if name not in slurmds[:1]]
    daemons.wait_until(layout, record, lambda: _not_idle(layout, record), deadline, first)


def _not_idle(layout: Layout, record: Record) -> str:
    states = nodes.states(daemons.environment(layout), record.spec.nodes)
    left = {
        node: states.get(node, "unknown")
        for node in record.spec.nodes
        if states.get(node) != "idle"
    }
    broken = [node for node, state in left.items() if ("inval" in state or "drain" in state)]
    if broken:
        reason = nodes.reason(daemons.environment(layout), broken[0])
        raise MiniSlurmError(
            f"node {broken[0]} is {left[broken[0]]}: {reason}\n"
            + daemons.tails(layout, [NODE + broken[0]])
        )
    some = ", ".join(f"{node} {state}" for node, state in list(left.items())[:3])
    return f"{len(left)} node(s) not idle ({some})" if left else ""


def _wait(
    layout: Layout, record: Record, name: str, deadline: float, ready: Callable[[], bool]
) -> None:
    daemons.wait_until(
        layout, record, lambda: "" if ready() else f"{name} does not answer", deadline, [name]
    )


def restart(layout: Layout, record: Record, name: str, deadline: float) -> None:
    proc.stop([record.daemons[name]], 15.0)
    starters = {
        "munged": start_munged,
        "mariadb": start_mariadb,
        "slurmdbd": start_slurmdbd,
        "slurmctld": start_slurmctld,
        "slurmrestd": start_slurmrestd,
    }
    if name in starters:
        starters[name](layout, record, deadline)
        if name == "slurmctld":
            wait_heard(layout, record, deadline)
        return
    node = name.removeprefix(NODE)
    start_nodes(layout, record, [node])
    daemons.wait_until(layout, record, lambda: _not_back(layout, node), deadline, [name])


def wait_heard(layout: Layout, record: Record, deadline: float) -> None:
    """A new controller calls the nodes; until they answer it gives them no job."""
    live = [
        name.removeprefix(NODE)
        for name, process in record.daemons.items()
        if name.startswith(NODE) and process.state not in ("", "T")
    ]

    def unheard() -> str:
        states = nodes.states(daemons.environment(layout), live)
        left = [node for node in live if states.get(node, "unk").startswith("unk")]
        return f"{len(left)} node(s) did not report ({left[0]})" if left else ""

    daemons.wait_until(layout, record, unheard, deadline, ["slurmctld"])


def _not_back(layout: Layout, node: str) -> str:
    """Idle or busy again; a star means that the controller has not heard from it."""
    state = nodes.states(daemons.environment(layout), [node]).get(node, "unknown")
    bad = state.endswith("*") or state.startswith(("down", "unk", "fail"))
    return f"node {node} is {state}" if bad else ""
