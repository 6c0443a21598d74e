"""Nodes, partitions and reservations from JSON.

``sinfo --json`` shows single nodes on 22.05 only; from 23.02 on ``scontrol show … --json`` does.
"""

from __future__ import annotations

from typing import Any

from slurm_ext.model.node import Node
from slurm_ext.model.observation import Partition, Problem, Reservation
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.gres import misnumbered, node_gpus, shared_gpus, used_gpus
from slurm_ext.slurm.hosts import expand
from slurm_ext.slurm.scalars import get, integer, moment, number, objects, text, words
from slurm_ext.slurm.states import node_states_of_json
from slurm_ext.slurm.tres import parse_tres


def parse_nodes(document: Any) -> tuple[list[Node], list[Problem]]:
    """Nodes of ``scontrol show node --json`` or of 22.05's ``sinfo --json``, each name once."""
    nodes: dict[str, Node] = {}
    problems: list[Problem] = []
    for record in objects(get(document, "nodes")):
        name = text(record.get("name"))
        if name:
            nodes.setdefault(name, _node(record, name, problems))
        else:
            problems.append(Problem("node", "?", f"no node name: {repr(record)[:200]}"))
    return list(nodes.values()), problems


def _node(record: dict[str, Any], name: str, problems: list[Problem]) -> Node:
    groups, other, bad = node_gpus(text(record.get("gres")))
    mask, count, other_used, bad_used = used_gpus(text(record.get("gres_used")))
    problems.extend(
        Problem("node", name, f"GPU indices of type {kind} are not in the order of Gres")
        for kind in misnumbered(groups, text(record.get("gres_used")))
    )
    problems.extend(
        Problem("node", name, f"gres not readable: {part[:200]!r}") for part in (*bad, *bad_used)
    )
    if not count:
        count = parse_tres(text(record.get("tres_used"))).gpus
    used = dict(other_used)
    return Node(
        name=name,
        states=node_states_of_json(record.get("state"), record.get("state_flags")),
        cpus=integer(record.get("effective_cpus")) or integer(record.get("cpus")),
        cpus_alloc=integer(record.get("alloc_cpus")),
        mem_mib=integer(record.get("real_memory")),
        mem_alloc_mib=integer(record.get("alloc_memory")),
        gpus=groups,
        gpu_used=mask,
        gpu_used_count=max(count, mask.bit_count()),
        gpu_shared=shared_gpus(text(record.get("gres_used"))),
        sockets=integer(record.get("sockets"), 1),
        cores_per_socket=integer(record.get("cores"), 1),
        threads_per_core=integer(record.get("threads"), 1),
        features=frozenset(words(record.get("active_features"))),
        partitions=words(record.get("partitions")),
        reservation=text(record.get("reservation")),
        other_gres=tuple((kind, total, used.get(kind, 0)) for kind, total in other),
        weight=integer(record.get("weight"), 1),
        reason=text(record.get("reason")),
    )


def _minutes(value: Any) -> int | None:
    found = number(value)
    return found * 60 if isinstance(found, int) else None


def parse_partitions(document: Any) -> tuple[list[Partition], list[Problem]]:
    """Partitions of ``scontrol show partition --json`` (nested from v0.0.39 on)."""
    found: list[Partition] = []
    problems: list[Problem] = []
    for record in objects(get(document, "partitions")):
        name = text(record.get("name"))
        nodes = expand(text(get(record, "nodes", "configured")))
        if nodes is None:
            problems.append(Problem("partition", name, "nodes not readable"))
        most = number(get(record, "maximums", "nodes"))
        flags = words(record.get("flags"))
        state = words(get(record, "partition", "state"))
        found.append(
            Partition(
                name=name,
                nodes=nodes or (),
                up=not state or "UP" in state,
                max_time_s=_minutes(get(record, "maximums", "time")),
                default_time_s=_minutes(get(record, "defaults", "time")),
                max_nodes=most if isinstance(most, int) else None,
                min_nodes=integer(get(record, "minimums", "nodes")),
                priority_tier=integer(get(record, "priority", "tier"), 1),
                exclusive_user="EXCLUSIVE_USER" in flags
                or text(get(record, "partition", "exclusive")) == "USER",
                oversubscribe=_oversubscribe(record),
                is_default="DEFAULT" in flags,
                hidden="HIDDEN" in flags,
            )
        )
    return found, problems


def _oversubscribe(record: dict[str, Any]) -> str:
    said = text(get(record, "partition", "oversubscribe"))
    if said:
        return said
    jobs = integer(get(record, "maximums", "oversubscribe", "jobs"), 1)
    if "force" in words(get(record, "maximums", "oversubscribe", "flags")):
        return f"FORCE:{jobs}"
    return {0: "EXCLUSIVE", 1: "NO"}.get(jobs, f"YES:{jobs}")


def parse_reservations(document: Any, now: EpochS) -> tuple[list[Reservation], list[Problem]]:
    """Reservations of ``scontrol show reservation --json``; active by ``now``."""
    found: list[Reservation] = []
    problems: list[Problem] = []
    for record in objects(get(document, "reservations")):
        name = text(record.get("name"))
        start, end = moment(record.get("start_time")), moment(record.get("end_time"))
        nodes = expand(text(record.get("node_list")))
        if start is None or end is None or nodes is None:
            problems.append(Problem("reservation", name, "times or nodes not readable"))
        gpus = parse_tres(text(record.get("tres"))).gpus
        found.append(
            Reservation(
                name=name,
                start_s=start or 0,
                end_s=end or 0,
                nodes=nodes or (),
                flags=frozenset(words(record.get("flags"))),
                users=words(record.get("users")),
                accounts=words(record.get("accounts")),
                partition=text(record.get("partition")),
                cores=integer(record.get("core_count")),
                gpus=gpus,
                partial=bool(record.get("core_specializations")) or gpus > 0,
                active=start is not None and end is not None and start <= now < end,
            )
        )
    return found, problems
