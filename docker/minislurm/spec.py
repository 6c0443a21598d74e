# SPDX-License-Identifier: GPL-2.0-or-later
"""What a cluster shall look like: node groups, partitions, options; and how they are written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from .errors import ConflictError

Pairs = tuple[tuple[str, str], ...]

NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_-]*$")
ACCOUNT = "lab"


@dataclass(frozen=True)
class NodeGroup:
    """Nodes that are alike; they are called NAME1 … NAMEcount."""

    name: str = "n"
    count: int = 4
    gpus: tuple[tuple[str, int], ...] = (("a100", 8),)
    sockets: int = 2
    cpus: int = 64
    mem: int = 500_000
    features: str = ""
    extra: Pairs = ()
    links: tuple[tuple[int, int], ...] = ()
    "Pairs of GPUs joined by a link (`Links=` in gres.conf)."

    def __post_init__(self) -> None:
        if not NAME.match(self.name) or self.name[-1].isdigit():
            raise ConflictError(f"group name {self.name!r}: letters first, and no digit at the end")
        if self.count < 1 or self.sockets < 1 or self.mem < 1 or self.cpus < 1:
            raise ConflictError(f"group {self.name}: count, sockets, cpus, mem must be at least 1")
        if self.cpus % self.sockets:
            raise ConflictError(f"group {self.name}: cpus={self.cpus} is no multiple of sockets")

    @property
    def nodes(self) -> list[str]:
        return [f"{self.name}{number}" for number in range(1, self.count + 1)]

    @property
    def hostlist(self) -> str:
        return f"{self.name}1" if self.count == 1 else f"{self.name}[1-{self.count}]"

    @property
    def gpu_count(self) -> int:
        return sum(count for _, count in self.gpus)


@dataclass(frozen=True)
class Partition:
    """One partition line; `extra` holds further slurm.conf keys as they are."""

    name: str = "gpu"
    nodes: str = "ALL"
    max_time: str = "UNLIMITED"
    default: bool = False
    extra: Pairs = ()


@dataclass(frozen=True)
class Param:
    """A raw slurm.conf setting: replaces ours, or extends a comma list (`append`)."""

    key: str
    value: str
    append: bool = False


@dataclass(frozen=True)
class User:
    name: str
    account: str = ACCOUNT


@dataclass(frozen=True)
class Spec:
    """The whole wish. Two `up` calls mean the same cluster if their specs are equal."""

    name: str = "mini"
    groups: tuple[NodeGroup, ...] = (NodeGroup(),)
    partitions: tuple[Partition, ...] = (Partition(default=True),)
    accounting: bool = False
    rest: bool = False
    sched: str = "default"
    priority: str = "multifactor"
    max_jobs: int = 50_000
    users: tuple[User, ...] = ()
    operator: str = ""
    params: tuple[Param, ...] = ()
    job_submit_lua: str = ""
    "Text of the script, not its path: an edited script is another cluster."

    def __post_init__(self) -> None:
        names = [group.name for group in self.groups]
        if len(set(names)) != len(names) or not names:
            raise ConflictError("every group needs its own name, and there must be one")
        if not re.fullmatch(r"[a-z0-9_]+", self.name):
            raise ConflictError(f"cluster name {self.name!r}: use small letters, digits and _")
        if self.sched not in ("default", "tuned") or self.priority not in ("multifactor", "basic"):
            raise ConflictError("sched is default or tuned; priority is multifactor or basic")

    @property
    def nodes(self) -> list[str]:
        return [node for group in self.groups for node in group.nodes]

    @property
    def gpu_types(self) -> list[str]:
        types = {kind for group in self.groups for kind, _ in group.gpus if kind}
        return sorted(types)

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Spec:
        known = {field.name for field in fields(cls)}
        values = {key: value for key, value in data.items() if key in known}
        values["groups"] = tuple(_tuples(NodeGroup, row) for row in data["groups"])
        values["partitions"] = tuple(_tuples(Partition, row) for row in data["partitions"])
        values["users"] = tuple(User(**row) for row in data["users"])
        values["params"] = tuple(Param(**row) for row in data["params"])
        return cls(**values)


def _tuples(kind: type[Any], row: dict[str, Any]) -> Any:
    """Lists that JSON made out of tuples become tuples again."""
    for key in ("gpus", "extra", "links"):
        if key in row:
            row = {**row, key: tuple(tuple(item) for item in row[key])}
    return kind(**row)


def split_fields(text: str) -> Iterator[tuple[str, str]]:
    """`name=a,nodes=a[1,3],b1,max_time=60` -> pairs; a piece without `=` continues the last one."""
    pairs: list[tuple[str, str]] = []
    for piece in re.split(r",(?![^\[]*\])", text):
        key, equals, value = piece.partition("=")
        if equals:
            pairs.append((key.strip(), value.strip()))
        elif pairs:
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]},{piece}")
        else:
            raise ConflictError(f"{text!r} does not begin with key=value")
    return iter(pairs)


def parse_gpus(kind: str, count: int) -> tuple[tuple[str, int], ...]:
    """`a100` with a count, or `a100:4+v100:4`; `none` as the type means GPUs without one."""
    parts = [part for part in kind.split("+") if part]
    if any(":" in part for part in parts):
        pairs = [part.partition(":") for part in parts]
        return tuple(("" if name == "none" else name, _number(amount)) for name, _, amount in pairs)
    if len(parts) > 1:
        raise ConflictError(f"type={kind}: several types need a count each, as in a100:4+v100:4")
    return (("" if kind == "none" else kind, count),) if count else ()


def parse_group(text: str) -> NodeGroup:
    values: dict[str, str] = {}
    extra: list[tuple[str, str]] = []
    for key, value in split_fields(text):
        if key[:1].isupper():
            extra.append((key, value))
        elif key in ("name", "count", "gpus", "type", "sockets", "cpus", "mem", "features"):
            values[key] = value
        else:
            raise ConflictError(f"--group {text!r}: unknown key {key!r}")
    numbers = {
        key: _number(values[key]) for key in ("count", "sockets", "cpus", "mem") if key in values
    }
    gpus = parse_gpus(values.get("type", "a100"), _number(values.get("gpus", "8")))
    return NodeGroup(
        name=values.get("name", "n"),
        gpus=gpus,
        extra=tuple(extra),
        features=values.get("features", ""),
        **numbers,
    )


def parse_partition(text: str) -> Partition:
    values: dict[str, str] = {}
    extra: list[tuple[str, str]] = []
    for key, value in split_fields(text):
        if key[:1].isupper():
            extra.append((key, value))
        elif key in ("name", "nodes", "max_time", "default"):
            values[key] = value
        else:
            raise ConflictError(f"--partition {text!r}: unknown key {key!r}")
    default = values.pop("default", "no").lower() in ("yes", "true", "1")
    return Partition(**values, default=default, extra=tuple(extra))


def with_default(partitions: list[Partition]) -> tuple[Partition, ...]:
    """Exactly as given, but the first one is the default if none says so."""
    if not partitions:
        return (Partition(default=True),)
    if any(partition.default for partition in partitions):
        return tuple(partitions)
    first = Partition(**{**asdict(partitions[0]), "default": True})
    return (first, *partitions[1:])


def parse_param(text: str) -> Param:
    key, equals, value = text.partition("=")
    if not equals or not key.strip("+ "):
        raise ConflictError(f"--param {text!r}: write KEY=VALUE, or KEY+=VALUE to extend a list")
    return Param(key.strip("+ "), value, append=key.rstrip().endswith("+"))


def parse_users(text: str) -> tuple[User, ...]:
    """`u1,u2:physics`: names, each with its account (else `lab`)."""
    pairs = [part.partition(":") for part in text.split(",") if part]
    return tuple(User(name, account or ACCOUNT) for name, _, account in pairs)


def _number(text: str) -> int:
    if not text.isdigit():
        raise ConflictError(f"{text!r} is not a whole number")
    return int(text)
