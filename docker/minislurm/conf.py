# SPDX-License-Identifier: GPL-2.0-or-later
"""The text of slurm.conf, gres.conf, cgroup.conf, slurmdbd.conf and my.cnf."""

from __future__ import annotations

from .hosts import Hosts, short_hostname, together
from .layout import Layout
from .ports import Ports
from .programs import major
from .spec import NodeGroup, Partition, Spec

TUNED = (
    "bf_interval=2,bf_continue,bf_max_job_test=1000,bf_resolution=30,"
    "sched_interval=2,sched_min_interval=100000,batch_sched_delay=1,default_queue_depth=1000"
)
DATABASE = "slurm_acct_db"
APPEND_ALWAYS = ("AuthInfo",)
"""Our part of these is needed for the daemons to talk at all, so a --param only adds to it."""


def slurm_conf(layout: Layout, spec: Spec, ports: Ports, hosts: Hosts | None = None) -> str:
    hosts = hosts or together()
    settings = _basics(layout, spec, ports, hosts) | _scheduling(spec)
    settings |= _accounting(layout, spec, ports, hosts)
    for param in spec.params:
        key = next((name for name in settings if name.lower() == param.key.lower()), param.key)
        old = settings.get(key)
        adds = param.append or key in APPEND_ALWAYS
        settings[key] = f"{old},{param.value}" if adds and old else param.value
    lines = [f"{key}={value}" for key, value in settings.items()]
    first = ports.first_node
    for group in spec.groups:
        lines.append(_node_line(group, first, hosts))
        first += 0 if hosts.apart else group.count
    lines += [_partition_line(partition) for partition in spec.partitions]
    return "\n".join(lines) + "\n"


def _basics(layout: Layout, spec: Spec, ports: Ports, hosts: Hosts) -> dict[str, str]:
    basics = {
        "ClusterName": spec.name,
        "SlurmctldHost": hosts.controller,
        "SlurmctldPort": str(ports.slurmctld),
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket}",
        "CredType": "cred/munge",
        "StateSaveLocation": str(layout.state),
        "SlurmdSpoolDir": f"{layout.spool}/%n",
        "SlurmctldPidFile": f"{layout.run}/slurmctld.pid",
        "SlurmdPidFile": f"{layout.run}/slurmd-%n.pid",
        "SlurmctldLogFile": f"{layout.log}/slurmctld.log",
        "SlurmdLogFile": f"{layout.log}/slurmd-%n.log",
        "SlurmdParameters": "config_overrides",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "MpiDefault": "none",
        "MailProg": "/bin/true",
        "ReturnToService": "2",
        "MaxJobCount": str(spec.max_jobs),
    }
    if spec.gpu_types or any(group.gpu_count for group in spec.groups):
        basics["GresTypes"] = "gpu"
    if spec.rest:
        basics["AuthAltTypes"] = "auth/jwt"
        basics["AuthAltParameters"] = f"jwt_key={layout.jwt_key}"
    if spec.job_submit_lua:
        basics["JobSubmitPlugins"] = "lua"
    return basics


def _scheduling(spec: Spec) -> dict[str, str]:
    settings = {
        "SchedulerType": "sched/backfill",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        # Else a job that names no memory takes all of its node's, and no two share one.
        "DefMemPerCPU": str(max(1, min(group.mem // group.cpus for group in spec.groups))),
        "PriorityType": f"priority/{spec.priority}",
    }
    if spec.sched == "tuned":
        settings["SchedulerParameters"] = TUNED
    if spec.priority == "multifactor":
        settings |= {
            "PriorityFlags": "ACCRUE_ALWAYS",
            "PriorityWeightJobSize": "1000",
            "PriorityWeightPartition": "10000",
            "PriorityWeightQOS": "10000",
        }
        if spec.accounting:  # Slurm ignores both of these weights without its database
            settings |= {
                "PriorityMaxAge": "7-0",
                "PriorityWeightAge": "10000",
                "PriorityWeightFairshare": "100000",
                "PriorityDecayHalfLife": "7-0",
            }
    return settings


def _accounting(layout: Layout, spec: Spec, ports: Ports, hosts: Hosts) -> dict[str, str]:
    if not spec.accounting:
        return {"AccountingStorageType": "accounting_storage/none"}
    tres = ["gres/gpu", *(f"gres/gpu:{kind}" for kind in spec.gpu_types)]
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": hosts.database_address,
        "AccountingStoragePort": str(ports.slurmdbd),
        "AccountingStoragePass": str(layout.munge_socket),
        "AccountingStorageTRES": ",".join(tres),
        "JobAcctGatherType": "jobacct_gather/linux",
    }


def _node_line(group: NodeGroup, first_port: int, hosts: Hosts) -> str:
    last = first_port + group.count - 1
    ports = str(first_port) if group.count == 1 or hosts.apart else f"[{first_port}-{last}]"
    words = [f"NodeName={group.hostlist}", f"Port={ports}"]
    if not hosts.apart:
        words += [f"NodeHostname={short_hostname()}", "NodeAddr=127.0.0.1"]
    words += [
        f"Sockets={group.sockets}",
        f"CoresPerSocket={group.cpus // group.sockets}",
        "ThreadsPerCore=1",
        f"RealMemory={group.mem}",
    ]
    if group.gpus:
        gres = (f"gpu:{kind}:{count}" if kind else f"gpu:{count}" for kind, count in group.gpus)
        words.append("Gres=" + ",".join(gres))
    if group.features:
        words.append(f"Feature={group.features}")
    words += [f"{key}={value}" for key, value in group.extra]
    return " ".join(words)


def _partition_line(partition: Partition) -> str:
    words = [
        f"PartitionName={partition.name}",
        f"Nodes={partition.nodes}",
        f"MaxTime={partition.max_time}",
        f"Default={'YES' if partition.default else 'NO'}",
    ]
    return " ".join(words + [f"{key}={value}" for key, value in partition.extra])


def gres_conf(layout: Layout, spec: Spec) -> str:
    """Every run of GPUs of one type on one socket is a line, so that (S:0-1) appears."""
    lines = ["AutoDetect=off"]
    for group in spec.groups:
        for kind, socket_number, first, last in _gpu_runs(group):
            cores = group.cpus // group.sockets
            files = str(first) if first == last else f"[{first}-{last}]"
            kind_word = f" Type={kind}" if kind else ""
            lines.append(
                f"NodeName={group.hostlist} Name=gpu{kind_word} File={layout.dev}/gpu{files} "
                f"Cores={socket_number * cores}-{(socket_number + 1) * cores - 1}"
                + _links(group, first)
            )
    return "\n".join(lines) + "\n"


def _links(group: NodeGroup, gpu: int) -> str:
    if not group.links:
        return ""
    pairs = {frozenset(pair) for pair in group.links}
    counts = (
        -1 if other == gpu else int(frozenset((gpu, other)) in pairs)
        for other in range(group.gpu_count)
    )
    return " Links=" + ",".join(map(str, counts))


def _gpu_runs(group: NodeGroup) -> list[tuple[str, int, int, int]]:
    """(type, socket, first GPU, last GPU); GPUs are spread evenly over the sockets."""
    kinds = [kind for kind, count in group.gpus for _ in range(count)]
    runs: list[tuple[str, int, int, int]] = []
    for index, kind in enumerate(kinds):
        place = index * group.sockets // len(kinds)
        if runs and runs[-1][:2] == (kind, place) and not group.links:
            runs[-1] = (kind, place, runs[-1][2], index)
        else:
            runs.append((kind, place, index, index))
    return runs


def cgroup_conf(version: str) -> str:
    """From 23.11 on slurmd wants a usable cgroup file system unless told not to; we use none."""
    return "CgroupPlugin=disabled\n" if major(version) >= (23, 11) else ""


def slurmdbd_conf(
    layout: Layout, ports: Ports, hosts: Hosts | None = None, *, rest: bool = False
) -> str:
    hosts = hosts or together()
    settings = {
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket}",
        "DbdHost": hosts.database,
        "DbdAddr": hosts.database_address,
        "DbdPort": str(ports.slurmdbd),
        "SlurmUser": "root",
        "LogFile": f"{layout.log}/slurmdbd.log",
        "PidFile": f"{layout.run}/slurmdbd.pid",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",  # by this name the client library takes MYSQL_UNIX_PORT
        "StorageUser": "root",
        "StorageLoc": DATABASE,
    }
    if rest:  # slurmrestd of 25.11 asks slurmdbd for partitions, with the token of who asks
        settings["AuthAltTypes"] = "auth/jwt"
        settings["AuthAltParameters"] = f"jwt_key={layout.jwt_key}"
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def my_cnf(layout: Layout) -> str:
    """Nothing here must survive a power cut: flushing is off, which makes the start quick."""
    return f"""[mariadbd]
user=root
datadir={layout.database}
socket={layout.database_socket}
pid-file={layout.run}/mariadb.pid
init-file={layout.init_sql}
tmpdir={layout.run}
skip-networking
skip-name-resolve
skip-log-bin
innodb-buffer-pool-size=128M
innodb-log-file-size=64M
innodb-lock-wait-timeout=900
innodb-flush-log-at-trx-commit=0
innodb-doublewrite=0
loose-innodb-flush-method=nosync
loose-innodb-snapshot-isolation=OFF
loose-innodb-buffer-pool-dump-at-shutdown=OFF
loose-innodb-buffer-pool-load-at-startup=OFF
"""


def init_sql() -> str:
    """slurmdbd could make it, but dies of that with libmariadb 11.8.9 (error 5027)."""
    return f"CREATE DATABASE IF NOT EXISTS {DATABASE};\n"
