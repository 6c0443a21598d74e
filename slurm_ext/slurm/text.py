"""Parsers for ``scontrol show node|partition|reservation|config`` and ``sdiag``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurm_ext.model.node import Node
from slurm_ext.model.observation import Controller, Partition, Problem, Reservation
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.gres import misnumbered, node_gpus, shared_gpus, used_gpus
from slurm_ext.slurm.hosts import expand, names
from slurm_ext.slurm.states import node_states_of_text
from slurm_ext.slurm.times import Special, duration_s, known, moment_s
from slurm_ext.slurm.tres import parse_tres

_NOTHING = frozenset({"", "(null)", "N/A", "n/a", "NONE", "none"})
_FREE_TEXT = ("OS=", "Reason=", "Comment=", "Extra=")
_RPC = re.compile(r"^\s*([A-Z][A-Z0-9_]+)\s+\(\s*\d+\)\s+count:(\d+)", re.MULTILINE | re.ASCII)
_CLOCK = re.compile(r"^Configuration data as of (\S+)", re.MULTILINE)


def blocks(output: str, key: str) -> Iterator[dict[str, str]]:
    """Key-value blocks that begin with ``key=`` at a line start (administrators' text only)."""
    for piece in re.split(rf"^(?={key}=)", output, flags=re.MULTILINE):
        if piece.startswith(f"{key}="):
            yield _pairs(piece)


def _pairs(block: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in block.split("\n"):
        stripped = line.strip()
        if stripped.startswith(_FREE_TEXT):
            name, _, value = stripped.partition("=")
            found.setdefault(name, value)
            continue
        for token in stripped.split():
            name, equals, value = token.partition("=")
            if equals:
                found.setdefault(name, value)
    return found


def _text(value: str | None) -> str:
    return "" if value is None or value in _NOTHING else value


def _list(value: str | None) -> tuple[str, ...]:
    return tuple(part for part in _text(value).split(",") if part)


def _int(value: str | None, default: int = 0) -> int:
    text = value or ""
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 16 else default


def parse_nodes(output: str) -> tuple[list[Node], list[Problem]]:
    """Nodes of ``scontrol -d show node``, each name once."""
    nodes: dict[str, Node] = {}
    problems: list[Problem] = []
    for pairs in blocks(output, "NodeName"):
        node = _node(pairs, problems)
        if node.name:
            nodes.setdefault(node.name, node)
    return list(nodes.values()), problems


def _node(pairs: dict[str, str], problems: list[Problem]) -> Node:
    name = pairs["NodeName"]
    groups, other, bad = node_gpus(pairs.get("Gres", ""))
    mask, count, other_used, bad_used = used_gpus(pairs.get("GresUsed", ""))
    problems.extend(
        Problem("node", name, f"GPU indices of type {kind} are not in the order of Gres")
        for kind in misnumbered(groups, pairs.get("GresUsed", ""))
    )
    problems.extend(
        Problem("node", name, f"gres not readable: {part[:200]!r}") for part in (*bad, *bad_used)
    )
    if not count:
        # Without -d (or for a node that never registered) only the allocated TRES tell.
        count = parse_tres(pairs.get("AllocTRES", "")).gpus
    used = dict(other_used)
    return Node(
        name=name,
        states=node_states_of_text(pairs.get("State", "UNKNOWN")),
        cpus=_int(pairs.get("CPUEfctv"), _int(pairs.get("CPUTot"))),
        cpus_alloc=_int(pairs.get("CPUAlloc")),
        mem_mib=_int(pairs.get("RealMemory")),
        mem_alloc_mib=_int(pairs.get("AllocMem")),
        gpus=groups,
        gpu_used=mask,
        gpu_used_count=max(count, mask.bit_count()),
        gpu_shared=shared_gpus(pairs.get("GresUsed", "")),
        sockets=_int(pairs.get("Sockets"), 1),
        cores_per_socket=_int(pairs.get("CoresPerSocket"), 1),
        threads_per_core=_int(pairs.get("ThreadsPerCore"), 1),
        features=frozenset(_list(pairs.get("ActiveFeatures"))),
        partitions=_list(pairs.get("Partitions")),
        reservation=_text(pairs.get("ReservationName")),
        other_gres=tuple((kind, total, used.get(kind, 0)) for kind, total in other),
        weight=_int(pairs.get("Weight"), 1),
        reason=_text(pairs.get("Reason")),
    )


def _limit(value: str | None) -> int | None:
    return known(duration_s(value or ""))


def parse_partitions(output: str) -> tuple[list[Partition], list[Problem]]:
    """Partitions of ``scontrol -a show partition``."""
    found: list[Partition] = []
    problems: list[Problem] = []
    for pairs in blocks(output, "PartitionName"):
        name = pairs["PartitionName"]
        nodes = expand(pairs.get("Nodes", ""))
        if nodes is None or duration_s(pairs.get("MaxTime", "")) is Special.UNREADABLE:
            problems.append(Problem("partition", name, "nodes or MaxTime not readable"))
        found.append(
            Partition(
                name=name,
                nodes=nodes or (),
                up=pairs.get("State", "UP") == "UP",
                max_time_s=_limit(pairs.get("MaxTime")),
                default_time_s=_limit(pairs.get("DefaultTime")),
                max_nodes=_int(pairs["MaxNodes"])
                if _text(pairs.get("MaxNodes")).isdecimal()
                else None,
                min_nodes=_int(pairs.get("MinNodes")),
                priority_tier=_int(pairs.get("PriorityTier"), 1),
                exclusive_user=pairs.get("ExclusiveUser") == "YES"
                or pairs.get("Exclusive") == "USER",
                oversubscribe=pairs.get("OverSubscribe", "NO"),
                is_default=pairs.get("Default") == "YES",
                hidden=pairs.get("Hidden") == "YES",
            )
        )
    return found, problems


def parse_reservations(output: str) -> tuple[list[Reservation], list[Problem]]:
    """Reservations of ``scontrol show reservation``."""
    found: list[Reservation] = []
    problems: list[Problem] = []
    for pairs in blocks(output, "ReservationName"):
        name = pairs["ReservationName"]
        start, end = moment_s(pairs.get("StartTime", "")), moment_s(pairs.get("EndTime", ""))
        if not isinstance(start, int) or not isinstance(end, int):
            problems.append(Problem("reservation", name, "times not readable"))
        gpus = parse_tres(pairs.get("TRES", "")).gpus
        partial = "CoreIDs" in pairs or gpus > 0
        found.append(
            Reservation(
                name=name,
                start_s=known(start) or 0,
                end_s=known(end) or 0,
                nodes=names(pairs.get("Nodes", "")),
                flags=frozenset(_list(pairs.get("Flags"))),
                users=_list(pairs.get("Users")),
                accounts=_list(pairs.get("Accounts")),
                partition=_text(pairs.get("PartitionName")),
                cores=_int(pairs.get("CoreCnt")),
                gpus=gpus,
                partial=partial,
                active=pairs.get("State") == "ACTIVE",
            )
        )
    return found, problems


def parse_config(output: str) -> tuple[Controller, EpochS | None]:
    """``scontrol show config``: the controller's facts and its clock when it answered."""
    config: dict[str, str] = {}
    for line in output.split("\n"):
        name, equals, value = line.partition("=")
        key = name.strip().lower()
        if equals and key and " " not in key:
            config.setdefault(key, value.strip())
    version = tuple(int(part) for part in re.findall(r"\d+", config.get("slurm_version", ""))[:3])
    clock = _CLOCK.search(output)
    now = known(moment_s(clock[1])) if clock else None
    return Controller(version, config.get("clustername", ""), config), now


def parse_rpc_counts(output: str) -> dict[str, int]:
    """Messages by type from ``sdiag``."""
    return {name: int(count) for name, count in _RPC.findall(output)}
