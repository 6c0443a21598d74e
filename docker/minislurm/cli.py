# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from . import foreground, proc, role, spec
from .cluster import Cluster
from .errors import ConflictError, MiniSlurmError

SIGNALS = ("KILL", "TERM", "STOP", "CONT", "HUP", "INT", "USR1", "USR2", "ABRT")


def run_cli(
    *args: str, timeout: float = 300.0, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command line as a child process, for tests."""
    argv = [sys.executable, str(Path(__file__).parent), *args]
    return subprocess.run(
        argv,
        text=True,
        timeout=timeout,
        env=env,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )


def main(argv: list[str] | None = None) -> int:
    options = build_parser().parse_args(argv)
    try:
        run: int = options.run(options)
    except MiniSlurmError as error:
        print(error, file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # … | head -1: the work is done, only nobody reads about it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return run


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="minislurm",
        description="A real Slurm cluster in one directory, without containers.",
        epilog="Exit status: 0 done, 1 failed, 2 conflict or wrong usage, 3 a program is missing "
        "(the message is the command that installs it), 128+N ended by signal N.",
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    _add_up(_verb(verbs, "up", run_up, "start the cluster and wait until all nodes are idle"))
    part = _verb(verbs, "role", run_role, "one part of a cluster on hosts of their own")
    _add_up(part)
    part.add_argument("role", choices=role.ROLES)
    part.add_argument("--shared", type=Path, required=True, help="a directory all hosts see")
    part.add_argument("--check", action="store_true", help="is it ready? (health check)")
    part.add_argument("command", nargs="*", help="after --: runs beside it; its end is ours")
    down = _verb(verbs, "down", run_down, "stop everything (fine if nothing runs)")
    down.add_argument("--purge", action="store_true", help="delete DIR as well")
    down.add_argument(
        "--grace",
        type=float,
        default=10.0,
        metavar="S",
        help="seconds for cancelled jobs to end by themselves (default 10)",
    )
    status = _verb(verbs, "status", run_status, "daemons, nodes, version, ports")
    status.add_argument("--json", action="store_true")
    _verb(verbs, "env", run_env, 'shell lines for: eval "$(… env --dir DIR)"')
    restart = _verb(verbs, "restart", run_restart, "stop and start one daemon; wait for it")
    restart.add_argument(
        "target",
        nargs="+",
        metavar="DAEMON | node NAME",
        help="slurmctld, slurmdbd, slurmrestd, munged, mariadb, or node NAME",
    )
    restart.add_argument("--timeout", type=float, default=60.0, metavar="S")
    kill = _verb(verbs, "kill", run_kill, "send one daemon a signal")
    kill.add_argument("target", nargs="+", metavar="DAEMON | node NAME")
    kill.add_argument("--signal", default="KILL", choices=SIGNALS)
    return parser


def _verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, run: object, text: str
) -> argparse.ArgumentParser:
    verb = verbs.add_parser(name, help=text, description=text)
    verb.set_defaults(run=run)
    verb.add_argument("--dir", required=True, type=Path, help="where everything of it lies")
    return verb


def _add_up(up: argparse.ArgumentParser) -> None:
    _add_up_shape(up)
    _add_up_options(up)
    up.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="S",
        help="give up when the nodes are not idle by then (default 120)",
    )
    up.add_argument("--foreground", action="store_true", help="stay, and stop it all on SIGTERM")


def _add_up_shape(up: argparse.ArgumentParser) -> None:
    up.add_argument("--name", default="mini", help="cluster name")
    up.add_argument("--nodes", type=int, metavar="N", help="N equal nodes n1 … (default 4)")
    up.add_argument("--gpus", type=int, default=8, metavar="N", help="GPUs a node (default 8)")
    up.add_argument("--type", default="a100", help="GPU type; none for GPUs without a type")
    up.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="KEY=VALUE,…",
        help="another kind of node: name=a,count=2,gpus=8,type=a100,sockets=2,cpus=64,"
        "mem=500000,features=nvlink; type=a100:4+v100:4 mixes; Key=value with a "
        "capital goes to the node line as it is",
    )
    up.add_argument(
        "--partition",
        action="append",
        default=[],
        metavar="KEY=VALUE,…",
        help="name=debug,nodes=a[1-2],max_time=60,default=yes; Key=value as above "
        "(default: one partition gpu of all nodes)",
    )


def _add_up_options(up: argparse.ArgumentParser) -> None:
    up.add_argument("--accounting", action="store_true", help="with MariaDB and slurmdbd")
    up.add_argument(
        "--rest",
        action="store_true",
        help="with slurmrestd on a socket and a port (see status), and auth/jwt",
    )
    up.add_argument("--sched", choices=("default", "tuned"), default="default")
    up.add_argument("--priority", choices=("multifactor", "basic"), default="multifactor")
    up.add_argument("--max-jobs", type=int, default=50_000, metavar="N")
    up.add_argument(
        "--users",
        default="",
        metavar="NAME[:ACCOUNT],…",
        help=f"Unix users, made if missing (account: {spec.ACCOUNT})",
    )
    up.add_argument(
        "--operator",
        default="",
        metavar="NAME",
        help="a user who may manage jobs (AdminLevel=Operator)",
    )
    up.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a slurm.conf setting; KEY+=VALUE extends a comma list",
    )
    up.add_argument("--job-submit-lua", type=Path, metavar="FILE")


def spec_of(options: argparse.Namespace) -> spec.Spec:
    groups = [spec.parse_group(text) for text in options.group]
    if options.nodes is not None or not groups:
        count = 4 if options.nodes is None else options.nodes
        gpus = spec.parse_gpus(options.type, options.gpus)
        groups.insert(0, spec.NodeGroup(count=count, gpus=gpus))
    partitions = [spec.parse_partition(text) for text in options.partition]
    if options.operator and not options.accounting:
        raise ConflictError("--operator needs --accounting: admin levels live in the database")
    return spec.Spec(
        name=options.name,
        groups=tuple(groups),
        partitions=spec.with_default(partitions),
        accounting=options.accounting,
        rest=options.rest,
        sched=options.sched,
        priority=options.priority,
        max_jobs=options.max_jobs,
        users=spec.parse_users(options.users),
        operator=options.operator,
        params=tuple(spec.parse_param(text) for text in options.param),
        job_submit_lua=_read(options.job_submit_lua),
    )


def _read(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text()
    except OSError as error:
        raise ConflictError(f"--job-submit-lua: {error}") from None


def _say(text: str) -> None:
    print(f"minislurm: {text}", file=sys.stderr, flush=True)


def run_up(options: argparse.Namespace) -> int:
    cluster = Cluster(options.dir, spec_of(options), _say)
    if options.foreground:
        foreground.run(cluster, options.timeout, lambda started: _announce(cluster, started))
    else:
        _announce(cluster, cluster.up(options.timeout))
    return 0


def run_role(options: argparse.Namespace) -> int:
    if options.check:
        return 0 if role.ready(options.dir, options.role) else 1
    wish = spec_of(options)
    return role.run(
        options.dir, options.role, options.shared, wish, options.timeout, _say, options.command
    )


def _announce(cluster: Cluster, started: bool) -> None:
    root = cluster.layout.root
    if started:
        status = cluster.status()
        seconds, version = status["seconds_to_start"], status["version"]
        nodes = len(status["nodes"])
        text = f"{root} is up: Slurm {version}, {nodes} nodes idle after {seconds} s"
    else:
        text = f"{root} is up already, with this configuration"
    print(f"{text}\n{env_lines(cluster)}", flush=True)


def run_down(options: argparse.Namespace) -> int:
    cluster = Cluster(options.dir)
    cluster.down(options.purge, options.grace)
    left = proc.onlookers(cluster.layout.root)
    if left:
        _say(
            "still running with this SLURM_CONF, not ours to end: "
            + ", ".join(f"{one.program} ({one.process.pid})" for one in left[:10])
        )
    return 0


def run_status(options: argparse.Namespace) -> int:
    status = Cluster(options.dir).status()
    if options.json:
        print(json.dumps(status, indent=1))
        return 0
    print(
        f"{status['dir']}: {status['phase']}, Slurm {status['version']}, "
        f"cluster {status['name']}, ports {json.dumps(status['ports'])}"
    )
    for daemon in status["daemons"]:
        word = "stopped" if daemon["stopped"] else "alive" if daemon["alive"] else "DEAD"
        print(f"  {daemon['name']:<16} {daemon['pid']:>8} {word}")
    counts: dict[str, int] = {}
    for state in status["nodes"].values():
        counts[state] = counts.get(state, 0) + 1
    print("nodes:", ", ".join(f"{count} {state}" for state, count in counts.items()) or "unknown")
    return 0


def env_lines(cluster: Cluster) -> str:
    return "\n".join(f"export {key}={shlex.quote(value)}" for key, value in cluster.env.items())


def run_env(options: argparse.Namespace) -> int:
    cluster = Cluster(options.dir)
    if not cluster.layout.conf.exists():
        raise ConflictError(f"no cluster in {cluster.layout.root}: run `up` first")
    print(env_lines(cluster))
    return 0


def run_restart(options: argparse.Namespace) -> int:
    Cluster(options.dir).restart(_target(options.target), options.timeout)
    return 0


def run_kill(options: argparse.Namespace) -> int:
    Cluster(options.dir).kill(_target(options.target), options.signal)
    return 0


def _target(words: list[str]) -> str:
    if len(words) == 2 and words[0] == "node":
        return words[1]
    if len(words) == 1:
        return words[0]
    raise ConflictError(f"{' '.join(words)!r}: write a daemon's name, or: node NAME")
